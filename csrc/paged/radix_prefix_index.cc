#include "paged/radix_prefix_index.h"

#include <utility>

namespace hami::paged {

RadixPrefixIndex::RadixPrefixIndex(int32_t num_pages, PageTokens tokens)
    : tokens_(std::move(tokens)), places_(num_pages), hashes_(num_pages) {}

RadixPrefixIndex::~RadixPrefixIndex() { clear(); }

RadixPrefixIndex::Node* RadixPrefixIndex::child_with(const Node& node, uint64_t hash,
                                                     Tokens tokens) const noexcept {
  const auto [begin, end] = node.children.equal_range(hash);
  for (auto child = begin; child != end; ++child) {
    if (tokens_.equal(child->second->pages.front(), tokens)) return child->second.get();
  }
  return nullptr;
}

void RadixPrefixIndex::match(std::string_view salt, Tokens tokens, std::vector<Page>& pages) const {
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return;
  const size_t num_whole = tokens.size() / tokens_.page_size();
  const Node* node = root->second.get();
  for (size_t index = 0; index < num_whole;) {
    const Tokens first = tokens_.part(tokens, index);
    node = child_with(*node, tokens_.hash(0, first), first);
    if (node == nullptr) return;
    for (const Page page : node->pages) {
      if (index == num_whole || !tokens_.equal(page, tokens_.part(tokens, index))) return;
      pages.push_back(page);
      ++index;
    }
  }
}

Page RadixPrefixIndex::insert(std::string_view salt, Page parent, Tokens tokens, Page page) {
  const uint64_t hash = tokens_.hash(0, tokens);
  if (parent == kNoPage) {
    auto root = roots_.find(salt);
    if (root == roots_.end()) {
      root = roots_.emplace(salt, std::make_unique<Node>()).first;
      root->second->salt = salt;
    }
    return append(*root->second, tokens, hash, page);
  }
  const auto [node, index] = places_[parent];
  if (index + 1 == node->pages.size()) return append(*node, tokens, hash, page);
  const Page following = node->pages[index + 1];
  if (tokens_.equal(following, tokens)) return following;
  split(*node, index + 1);
  return append(*node->parent, tokens, hash, page);
}

Page RadixPrefixIndex::append(Node& node, Tokens tokens, uint64_t hash, Page page) {
  if (const Node* child = child_with(node, hash, tokens)) return child->pages.front();
  tokens_.set(page, tokens);
  hashes_[page] = hash;
  const bool is_root = node.parent == nullptr;
  if (!is_root && node.children.empty()) {
    node.pages.push_back(page);
    place(node, node.pages.size() - 1);
    return page;
  }
  auto child = std::make_unique<Node>();
  child->parent = &node;
  child->pages.push_back(page);
  place(*child, 0);
  node.children.emplace(hash, std::move(child));
  return page;
}

void RadixPrefixIndex::split(Node& node, size_t index) {
  auto upper = std::make_unique<Node>();
  upper->parent = node.parent;
  const auto cut = node.pages.begin() + static_cast<ptrdiff_t>(index);
  upper->pages.assign(node.pages.begin(), cut);
  node.pages.erase(node.pages.begin(), cut);
  place(*upper, 0);
  place(node, 0);
  // The upper half takes the place of the node among its siblings, and the node becomes its child.
  const auto [begin, end] = node.parent->children.equal_range(hash_of(upper->pages.front()));
  auto link = begin;
  while (link != end && link->second.get() != &node) ++link;
  Node* const parent = upper.get();
  std::unique_ptr<Node> lower = std::exchange(link->second, std::move(upper));
  lower->parent = parent;
  const uint64_t hash = hash_of(lower->pages.front());
  parent->children.emplace(hash, std::move(lower));
}

void RadixPrefixIndex::place(Node& node, size_t first) noexcept {
  for (size_t i = first; i < node.pages.size(); ++i) places_[node.pages[i]] = {&node, i};
}

void RadixPrefixIndex::evict(Page page) {
  Node& node = *places_[page].node;
  node.pages.pop_back();
  places_[page] = Place();
  if (!node.pages.empty()) return;
  Node& parent = *node.parent;
  const auto [begin, end] = parent.children.equal_range(hash_of(page));
  auto link = begin;
  while (link != end && link->second.get() != &node) ++link;
  parent.children.erase(link);
  if (parent.parent == nullptr && parent.children.empty()) roots_.erase(parent.salt);
}

void RadixPrefixIndex::forget(Page page, std::vector<Page>& removed) {
  const size_t first = removed.size();
  const auto [top, index] = places_[page];
  removed.insert(removed.end(), top->pages.begin() + static_cast<ptrdiff_t>(index),
                 top->pages.end());
  std::vector<const Node*> nodes = {top};
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& child : nodes[i]->children) {
      nodes.push_back(child.second.get());
      removed.insert(removed.end(), child.second->pages.begin(), child.second->pages.end());
    }
  }
  // Backwards: children were appended after their parents, and pages in order.
  for (size_t i = removed.size(); i > first; --i) evict(removed[i - 1]);
}

void RadixPrefixIndex::clear() {
  // Level by level: a tree may be deeper than a stack is.
  std::vector<std::unique_ptr<Node>> nodes;
  for (auto& root : roots_) nodes.push_back(std::move(root.second));
  roots_.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto children = std::move(nodes[i]->children);
    for (auto& child : children) nodes.push_back(std::move(child.second));
  }
}

}  // namespace hami::paged
