// `ReqToPageTable`: which pages hold a request's state, as kernels read it: one block of int32,
// [max rows, max pages]. Rows that changed are remembered, so that a device copies only those. One
// thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paged/page_pool.h"

namespace hami::paged {

class ReqToPageTable {
 public:
  ReqToPageTable(int32_t max_rows, int32_t max_pages);

  // A row of zeros; -1 when all are taken.
  int32_t take_row() noexcept;
  // Gives the row back, with `num_pages` pages to forget.
  void release_row(int32_t row, size_t num_pages) noexcept;
  void set(int32_t row, size_t index, Page page) noexcept;

  int32_t max_rows() const noexcept { return max_rows_; }
  int32_t max_pages() const noexcept { return max_pages_; }
  int32_t num_free_rows() const noexcept { return static_cast<int32_t>(free_rows_.size()); }
  int32_t* data() noexcept { return entries_.data(); }
  std::span<const Page> row(int32_t row) const noexcept {
    return {entries_.data() + offset(row, 0), static_cast<size_t>(max_pages_)};
  }

  // The rows that were set since the last `clean`; room for all of them is there from the start.
  const std::vector<int32_t>& dirty_rows() const noexcept { return dirty_rows_; }
  void clean() noexcept;
  // The row counts as changed.
  void touch(int32_t row) noexcept;

 private:
  size_t offset(int32_t row, size_t index) const noexcept {
    return static_cast<size_t>(row) * static_cast<size_t>(max_pages_) + index;
  }

  int32_t max_rows_;
  int32_t max_pages_;
  std::vector<int32_t> entries_;
  std::vector<int32_t> free_rows_;
  std::vector<int32_t> dirty_rows_;
  std::vector<uint8_t> is_dirty_;
};

}  // namespace hami::paged
