#include "paged/hash_prefix_index.h"

#include <algorithm>
#include <bit>

namespace hami::paged {

HashPrefixIndex::HashPrefixIndex(int32_t num_pages, PageTokens tokens)
    : tokens_(std::move(tokens)),
      entries_(num_pages),
      buckets_(std::bit_ceil(static_cast<size_t>(num_pages))) {}

uint64_t HashPrefixIndex::seed(std::string_view salt, Page parent) const noexcept {
  return parent == kNoPage ? tokens_.hash(salt) : entries_[parent].hash;
}

std::string_view HashPrefixIndex::salt_of(Page first) const noexcept {
  const auto found = salts_.find(first);
  return found == salts_.end() ? std::string_view() : found->second;
}

Page HashPrefixIndex::find(std::string_view salt, Page parent, uint64_t hash,
                           Tokens tokens) const noexcept {
  Page page = buckets_[hash & (buckets_.size() - 1)];
  for (; page != kNoPage; page = entries_[page].next_in_bucket) {
    const Entry& entry = entries_[page];
    if (entry.hash != hash || entry.parent != parent || !tokens_.equal(page, tokens)) continue;
    if (parent != kNoPage || salt_of(page) == salt) break;
  }
  return page;
}

void HashPrefixIndex::match(std::string_view salt, Tokens tokens, std::vector<Page>& pages) const {
  Page parent = kNoPage;
  for (size_t index = 0; (index + 1) * tokens_.page_size() <= tokens.size(); ++index) {
    const Tokens part = tokens_.part(tokens, index);
    parent = find(salt, parent, tokens_.hash(seed(salt, parent), part), part);
    if (parent == kNoPage) return;
    pages.push_back(parent);
  }
}

Page HashPrefixIndex::insert(std::string_view salt, Page parent, Tokens tokens, Page page) {
  const uint64_t hash = tokens_.hash(seed(salt, parent), tokens);
  const Page found = find(salt, parent, hash, tokens);
  if (found != kNoPage) return found;
  if (parent == kNoPage && !salt.empty()) salts_.emplace(page, salt);
  tokens_.set(page, tokens);
  Entry& entry = entries_[page];
  entry = Entry{hash, parent, bucket(hash)};
  bucket(hash) = page;
  if (parent == kNoPage) return page;
  entry.next_sibling = entries_[parent].first_child;
  if (entry.next_sibling != kNoPage) entries_[entry.next_sibling].previous_sibling = page;
  entries_[parent].first_child = page;
  return page;
}

void HashPrefixIndex::evict(Page page) {
  const Entry& entry = entries_[page];
  Page* link = &bucket(entry.hash);
  while (*link != page) link = &entries_[*link].next_in_bucket;
  *link = entry.next_in_bucket;
  if (entry.next_sibling != kNoPage) {
    entries_[entry.next_sibling].previous_sibling = entry.previous_sibling;
  }
  if (entry.previous_sibling != kNoPage) {
    entries_[entry.previous_sibling].next_sibling = entry.next_sibling;
  } else if (entry.parent != kNoPage) {
    entries_[entry.parent].first_child = entry.next_sibling;
  } else if (!salts_.empty()) {
    salts_.erase(page);
  }
  entries_[page] = Entry();
}

void HashPrefixIndex::forget(Page page, std::vector<Page>& removed) {
  const size_t first = removed.size();
  removed.push_back(page);
  for (size_t i = first; i < removed.size(); ++i) {
    for (Page child = entries_[removed[i]].first_child; child != kNoPage;
         child = entries_[child].next_sibling) {
      removed.push_back(child);
    }
  }
  for (size_t i = removed.size(); i > first; --i) evict(removed[i - 1]);
}

void HashPrefixIndex::clear() {
  std::fill(entries_.begin(), entries_.end(), Entry());
  std::fill(buckets_.begin(), buckets_.end(), kNoPage);
  salts_.clear();
}

}  // namespace hami::paged
