#include "paged/page_to_kv_pool_allocator.h"

namespace hami::paged {

PageToKVPoolAllocator::PageToKVPoolAllocator(int32_t num_pages, int32_t page_size,
                                             PrefixCache cache)
    : page_size_(page_size),
      pool_(num_pages),
      index_(make_prefix_index(cache, num_pages, page_size)) {}

Page PageToKVPoolAllocator::allocate() {
  const Page page = pool_.take();
  if (page != kNoPage) return page;
  const Page oldest = pool_.oldest_cached();
  if (oldest == kNoPage) return kNoPage;
  index_->evict(oldest);
  pool_.drop_cached(oldest);
  ++num_evictions_;
  return pool_.take();
}

Page PageToKVPoolAllocator::insert(std::string_view salt, Page parent, Tokens tokens, Page page) {
  if (parent != kNoPage && !pool_.is_cached(parent)) return kNoPage;
  const Page found = index_->insert(salt, parent, tokens, page);
  if (found == page && !pool_.is_cached(page)) pool_.set_cached(page);
  return found;
}

void PageToKVPoolAllocator::forget(std::string_view salt, Tokens tokens, size_t first_page) {
  removed_.clear();
  index_->match(salt, tokens, removed_);
  if (removed_.size() <= first_page) return;
  const Page first = removed_[first_page];
  removed_.clear();
  index_->forget(first, removed_);
  for (const Page page : removed_) pool_.drop_cached(page);
}

void PageToKVPoolAllocator::clear_cache() {
  index_->clear();
  for (Page page = 1; page < pool_.num_pages(); ++page) {
    if (pool_.is_cached(page)) pool_.drop_cached(page);
  }
}

}  // namespace hami::paged
