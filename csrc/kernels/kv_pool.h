// `KvPool`: keys and values of all layers on pages, [layer][keys, values][page][kv head][offset]
// [head_dim], and a second one to swap into. It hands out places and copies pages; who owns which
// page is the business of the scheduler.
#pragma once

#include <cstdint>

#include "kernels/decoder_config.h"
#include "kernels/memory.h"
#include "kernels/step_view.h"

namespace hami::kernels {

class KvPool {
 public:
  KvPool() = default;
  // Throws a config error for sizes that cannot be.
  KvPool(const DecoderConfig& config, int64_t num_pages, int64_t page_size, int64_t num_swap_pages);

  int64_t num_pages() const noexcept { return num_pages_; }
  int64_t page_size() const noexcept { return page_size_; }
  PageBounds bounds() const noexcept { return {num_pages_, page_size_, num_swap_pages_}; }
  size_t size_bytes() const noexcept { return pages_.size() + swapped_.size(); }

  // Elements from page to page, and from head to head inside a page.
  size_t page_stride() const noexcept { return page_elements_; }
  size_t head_stride() const noexcept { return head_elements_; }
  // Page 0 of one head.
  std::byte* keys(int64_t layer, int64_t head) const noexcept { return at(2 * layer, head); }
  std::byte* values(int64_t layer, int64_t head) const noexcept { return at(2 * layer + 1, head); }

  // Copies a page in plane `plane` of num_planes().
  int64_t num_planes() const noexcept { return num_planes_; }
  enum class Way { kOut, kIn, kWithin };
  void copy(Way way, int64_t plane, int64_t from, int64_t to) const noexcept;

 private:
  std::byte* at(int64_t plane, int64_t head) const noexcept {
    return pages_.data() + plane * num_pages_ * page_bytes() +
           head * static_cast<int64_t>(head_elements_ * element_bytes_);
  }
  int64_t page_bytes() const noexcept {
    return static_cast<int64_t>(page_elements_ * element_bytes_);
  }

  int64_t num_planes_ = 0;
  int64_t num_pages_ = 0;
  int64_t page_size_ = 0;
  int64_t num_swap_pages_ = 0;
  size_t element_bytes_ = 0;
  size_t head_elements_ = 0;
  size_t page_elements_ = 0;
  AlignedMemory pages_;
  AlignedMemory swapped_;
};

}  // namespace hami::kernels
