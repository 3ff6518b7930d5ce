// A prefix index as chains in one hash table: the key of a page is the page before it and its
// tokens, so that a page is reached only over those it depends on.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "paged/prefix_index.h"

namespace hami::paged {

class HashPrefixIndex final : public PrefixIndex {
 public:
  HashPrefixIndex(int32_t num_pages, PageTokens tokens);

  void match(std::string_view salt, Tokens tokens, std::vector<Page>& pages) const override;
  Page insert(std::string_view salt, Page parent, Tokens tokens, Page page) override;
  void evict(Page page) override;
  void forget(Page page, std::vector<Page>& removed) override;
  void clear() override;

 private:
  // An indexed page. Its children form a list, so that a page can be forgotten with all of them.
  struct Entry {
    uint64_t hash = 0;
    Page parent = kNoPage;
    Page next_in_bucket = kNoPage;
    Page first_child = kNoPage;
    Page next_sibling = kNoPage;
    Page previous_sibling = kNoPage;
  };

  uint64_t seed(std::string_view salt, Page parent) const noexcept;
  Page find(std::string_view salt, Page parent, uint64_t hash, Tokens tokens) const noexcept;
  std::string_view salt_of(Page first) const noexcept;
  Page& bucket(uint64_t hash) noexcept { return buckets_[hash & (buckets_.size() - 1)]; }

  PageTokens tokens_;
  std::vector<Entry> entries_;
  std::vector<Page> buckets_;
  std::unordered_map<Page, std::string> salts_;  // of first pages, unless empty
};

}  // namespace hami::paged
