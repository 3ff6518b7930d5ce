#include "kernels/kv_pool.h"

#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"

namespace hami::kernels {
namespace {

void check_number(const char* name, int64_t number, int64_t low) {
  if (number >= low && number <= std::numeric_limits<int32_t>::max()) return;
  throw Error(ErrorKind::kConfig, "decoder-config",
              "`" + std::string(name) + "` is " + backticked(std::to_string(number)),
              "choose at least " + std::to_string(low));
}

}  // namespace

KvPool::KvPool(const DecoderConfig& config, int64_t num_pages, int64_t page_size,
               int64_t num_swap_pages)
    : num_planes_(2 * config.num_layers),
      num_pages_(num_pages),
      page_size_(page_size),
      num_swap_pages_(num_swap_pages),
      element_bytes_(bytes_of(config.kv_dtype)) {
  check_number("num_pages", num_pages, 1);
  check_number("page_size", page_size, 1);
  check_number("num_swap_pages", num_swap_pages, 0);
  if (num_pages * page_size > std::numeric_limits<int32_t>::max()) {
    throw Error(ErrorKind::kConfig, "decoder-config",
                "`num_pages` is " + backticked(std::to_string(num_pages)) + " of `page_size` " +
                    backticked(std::to_string(page_size)),
                "a slot must fit into 31 bits: choose fewer");
  }
  head_elements_ = static_cast<size_t>(page_size * config.head_dim);
  page_elements_ = head_elements_ * static_cast<size_t>(config.num_kv_heads);
  pages_ = AlignedMemory(static_cast<size_t>(num_planes_ * num_pages * page_bytes()));
  swapped_ = AlignedMemory(static_cast<size_t>(num_planes_ * num_swap_pages * page_bytes()));
}

void KvPool::copy(Way way, int64_t plane, int64_t from, int64_t to) const noexcept {
  std::byte* const pages = pages_.data() + plane * num_pages_ * page_bytes();
  std::byte* const swapped = swapped_.data() + plane * num_swap_pages_ * page_bytes();
  const std::byte* source = (way == Way::kIn ? swapped : pages) + from * page_bytes();
  std::byte* target = (way == Way::kOut ? swapped : pages) + to * page_bytes();
  if (source != target) std::memcpy(target, source, static_cast<size_t>(page_bytes()));
}

}  // namespace hami::kernels
