#include "kernels/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"

namespace hami::kernels {
namespace {

constexpr size_t kLargePage = size_t{1} << 21;
constexpr size_t kAlignment = 64;
// Of an arena; the system gives a page when it is first written.
constexpr size_t kBlockBytes = size_t{1} << 26;

}  // namespace

AlignedMemory::AlignedMemory(size_t num_bytes) {
  if (num_bytes == 0) return;
  // A large page begins at a multiple of its size, which a mapping need not do.
  const size_t slack = num_bytes >= kLargePage ? kLargePage : 0;
  mapped_size_ = num_bytes + slack;
  void* const mapped =
      mapped_size_ < num_bytes
          ? MAP_FAILED
          : mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorKind::kBuild, "decoder-memory",
                "the system gives no " + backticked(std::to_string(num_bytes)) + " bytes",
                "choose a smaller `num_pages` or a smaller `dtype`");
  }
  mapped_ = mapped;
  data_ = static_cast<std::byte*>(mapped);
  if (slack > 0) {
    data_ += (kLargePage - reinterpret_cast<uintptr_t>(mapped) % kLargePage) % kLargePage;
    madvise(data_, num_bytes, MADV_HUGEPAGE);
  }
  size_ = num_bytes;
}

AlignedMemory::~AlignedMemory() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_size_);
}

std::byte* MemoryArena::take(size_t num_bytes) {
  const size_t size = (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || blocks_.back().size() - num_used_ < size) {
    blocks_.emplace_back(std::max(size, kBlockBytes));
    num_used_ = 0;
  }
  return blocks_.back().data() + std::exchange(num_used_, num_used_ + size);
}

}  // namespace hami::kernels
