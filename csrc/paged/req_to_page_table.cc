#include "paged/req_to_page_table.h"

#include <algorithm>
#include <cassert>

namespace hami::paged {

ReqToPageTable::ReqToPageTable(int32_t max_rows, int32_t max_pages)
    : max_rows_(max_rows),
      max_pages_(max_pages),
      entries_(static_cast<size_t>(max_rows) * static_cast<size_t>(max_pages)),
      is_dirty_(max_rows) {
  free_rows_.reserve(max_rows);
  dirty_rows_.reserve(max_rows);
  for (int32_t row = max_rows - 1; row >= 0; --row) free_rows_.push_back(row);
}

int32_t ReqToPageTable::take_row() noexcept {
  if (free_rows_.empty()) return -1;
  const int32_t row = free_rows_.back();
  free_rows_.pop_back();
  return row;
}

void ReqToPageTable::release_row(int32_t row, size_t num_pages) noexcept {
  // A kernel that reads whole blocks of a row sees page 0 behind its end, never a stranger's page.
  std::fill_n(entries_.begin() + static_cast<ptrdiff_t>(offset(row, 0)), num_pages, kNoPage);
  free_rows_.push_back(row);
}

void ReqToPageTable::set(int32_t row, size_t index, Page page) noexcept {
  assert(index < static_cast<size_t>(max_pages_));
  entries_[offset(row, index)] = page;
  touch(row);
}

void ReqToPageTable::touch(int32_t row) noexcept {
  if (is_dirty_[row] != 0) return;
  is_dirty_[row] = 1;
  dirty_rows_.push_back(row);
}

void ReqToPageTable::clean() noexcept {
  for (const int32_t row : dirty_rows_) is_dirty_[row] = 0;
  dirty_rows_.clear();
}

}  // namespace hami::paged
