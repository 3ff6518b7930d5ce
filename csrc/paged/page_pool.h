// `PagePool`: who holds which page of a cache, in integers; the memory of the pages is somebody
// else's. A page is free, referenced, or cached: kept for its content though nobody holds it. All
// operations are O(1), on links that lie in the pool. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace hami::paged {

using Page = int32_t;

// Padding may write page 0; nobody ever holds it. In lists it stands for "none".
inline constexpr Page kNoPage = 0;

class PagePool {
 public:
  // `num_pages` counts page 0. REQUIRES: at least 2.
  explicit PagePool(int32_t num_pages);

  // A free page, held once; `kNoPage` when there is none.
  Page take() noexcept;
  // One holder more. REQUIRES: the page is held or cached.
  void share(Page page) noexcept;
  // One holder less. Without holders a page is free, or waits as the most recently used of the
  // cached ones. REQUIRES: the page is held.
  void release(Page page) noexcept;

  // Keeps the content of the page when nobody holds it. REQUIRES: the page is held.
  void set_cached(Page page) noexcept;
  // No longer; without holders the page is free at once. REQUIRES: the page is cached.
  void drop_cached(Page page) noexcept;

  bool is_cached(Page page) const noexcept { return is_cached_[page] != 0; }
  int32_t num_holders(Page page) const noexcept { return holders_[page]; }
  // The cached page that has been without holders for longest; `kNoPage` when there is none.
  Page oldest_cached() const noexcept { return next_[kNoPage]; }

  // Free + cached without holders + referenced = num_pages - 1, always.
  int32_t num_pages() const noexcept { return static_cast<int32_t>(holders_.size()); }
  int32_t num_free() const noexcept { return num_free_; }
  int32_t num_cached() const noexcept { return num_cached_; }
  int32_t num_referenced() const noexcept { return num_pages() - 1 - num_free_ - num_cached_; }
  // What can be had: free, or evicted from the cache.
  int32_t num_available() const noexcept { return num_free_ + num_cached_; }

 private:
  void push_free(Page page) noexcept;
  void link_as_newest(Page page) noexcept;
  void unlink(Page page) noexcept;

  std::vector<int32_t> holders_;
  std::vector<uint8_t> is_cached_;
  // Cached pages without holders, oldest first, in a ring through page 0; free ones use `next_`
  // only.
  std::vector<Page> next_;
  std::vector<Page> previous_;
  Page first_free_ = kNoPage;
  int32_t num_free_ = 0;
  int32_t num_cached_ = 0;
};

}  // namespace hami::paged
