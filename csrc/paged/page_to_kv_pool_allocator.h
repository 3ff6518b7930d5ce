// `PageToKVPoolAllocator`: hands out the pages of a pool. Pages whose content the prefix index
// knows stay there until somebody needs room; then the least recently used go first. One thread at
// a time.
//
// Whoever holds a page of the index holds all pages before it, and gives them back last to first.
// So the oldest page without holders never has another one after it: it is a leaf, found in O(1).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "paged/page_pool.h"
#include "paged/prefix_index.h"

namespace hami::paged {

class PageToKVPoolAllocator {
 public:
  PageToKVPoolAllocator(int32_t num_pages, int32_t page_size, PrefixCache cache);

  // A free page, or the oldest cached one, held once; `kNoPage` when all are held.
  Page allocate();
  void share(Page page) noexcept { pool_.share(page); }
  void release(Page page) noexcept { pool_.release(page); }
  bool is_shared(Page page) const noexcept { return pool_.num_holders(page) > 1; }

  // The pages of the longest cached prefix, not yet held by the caller.
  void match(std::string_view salt, Tokens tokens, std::vector<Page>& pages) const {
    index_->match(salt, tokens, pages);
  }
  // Lets a page that the caller holds be found. Returns the page that is found from now on, another
  // one where these tokens were known already; `kNoPage` when `parent` is not found any more, or
  // nothing is cached at all.
  Page insert(std::string_view salt, Page parent, Tokens tokens, Page page);
  // Takes the pages of `tokens` from number `first_page` on, and all that come after them, out of
  // the cache.
  void forget(std::string_view salt, Tokens tokens, size_t first_page);
  // Empties the cache; pages that somebody holds stay held.
  void clear_cache();

  int32_t page_size() const noexcept { return page_size_; }
  int32_t pages_for(int64_t num_tokens) const noexcept {
    return static_cast<int32_t>((num_tokens + page_size_ - 1) / page_size_);
  }
  const PagePool& pool() const noexcept { return pool_; }
  int64_t num_evictions() const noexcept { return num_evictions_; }

 private:
  int32_t page_size_;
  PagePool pool_;
  std::unique_ptr<PrefixIndex> index_;
  std::vector<Page> removed_;
  int64_t num_evictions_ = 0;
};

}  // namespace hami::paged
