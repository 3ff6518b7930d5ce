// A prefix index as a radix tree: an edge carries as many whole pages as have no branch between
// them, so that long common prefixes are one comparison after the other along one array.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "paged/prefix_index.h"

namespace hami::paged {

class RadixPrefixIndex final : public PrefixIndex {
 public:
  RadixPrefixIndex(int32_t num_pages, PageTokens tokens);
  ~RadixPrefixIndex() override;

  void match(std::string_view salt, Tokens tokens, std::vector<Page>& pages) const override;
  Page insert(std::string_view salt, Page parent, Tokens tokens, Page page) override;
  void evict(Page page) override;
  void forget(Page page, std::vector<Page>& removed) override;
  void clear() override;

 private:
  // A node with the edge that leads to it; only roots have no pages.
  struct Node {
    Node* parent = nullptr;
    std::string salt;  // of a root
    std::vector<Page> pages;
    std::unordered_multimap<uint64_t, std::unique_ptr<Node>> children;  // by their first page
  };
  struct Place {
    Node* node = nullptr;
    size_t index = 0;  // in the pages of the node
  };

  Node* child_with(const Node& node, uint64_t hash, Tokens tokens) const noexcept;
  uint64_t hash_of(Page page) const noexcept { return hashes_[page]; }
  Page append(Node& node, Tokens tokens, uint64_t hash, Page page);
  // Cuts an edge before page `index`; the upper half is a new node.
  void split(Node& node, size_t index);
  void place(Node& node, size_t first) noexcept;

  PageTokens tokens_;
  std::vector<Place> places_;
  std::vector<uint64_t> hashes_;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
};

}  // namespace hami::paged
