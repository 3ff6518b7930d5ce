#include "paged/page_pool.h"

#include <cassert>

namespace hami::paged {

PagePool::PagePool(int32_t num_pages)
    : holders_(num_pages), is_cached_(num_pages), next_(num_pages), previous_(num_pages) {
  assert(num_pages >= 2);
  for (Page page = num_pages - 1; page > kNoPage; --page) push_free(page);
}

Page PagePool::take() noexcept {
  const Page page = first_free_;
  if (page == kNoPage) return kNoPage;
  first_free_ = next_[page];
  --num_free_;
  holders_[page] = 1;
  return page;
}

void PagePool::share(Page page) noexcept {
  assert(page != kNoPage && (holders_[page] > 0 || is_cached(page)));
  if (holders_[page]++ == 0) unlink(page);
}

void PagePool::release(Page page) noexcept {
  assert(holders_[page] > 0);
  if (--holders_[page] > 0) return;
  if (is_cached(page)) {
    link_as_newest(page);
  } else {
    push_free(page);
  }
}

void PagePool::set_cached(Page page) noexcept {
  assert(holders_[page] > 0);
  is_cached_[page] = 1;
}

void PagePool::drop_cached(Page page) noexcept {
  assert(is_cached(page));
  is_cached_[page] = 0;
  if (holders_[page] > 0) return;
  unlink(page);
  push_free(page);
}

void PagePool::push_free(Page page) noexcept {
  next_[page] = first_free_;
  first_free_ = page;
  ++num_free_;
}

void PagePool::link_as_newest(Page page) noexcept {
  const Page newest = previous_[kNoPage];
  next_[newest] = page;
  previous_[page] = newest;
  next_[page] = kNoPage;
  previous_[kNoPage] = page;
  ++num_cached_;
}

void PagePool::unlink(Page page) noexcept {
  next_[previous_[page]] = next_[page];
  previous_[next_[page]] = previous_[page];
  --num_cached_;
}

}  // namespace hami::paged
