#include "kernels/memory.h"

#include <sys/mman.h>

#include <string>

#include "core/error.h"

namespace hami::kernels {

AlignedMemory::AlignedMemory(size_t num_bytes) {
  if (num_bytes == 0) return;
  void* data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorKind::kBuild, "decoder-memory",
                "the system gives no " + backticked(std::to_string(num_bytes)) + " bytes",
                "choose a smaller `num_pages` or a smaller `dtype`");
  }
  constexpr size_t kWorthLargePages = size_t{1} << 21;
  if (num_bytes >= kWorthLargePages) madvise(data, num_bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  size_ = num_bytes;
}

AlignedMemory::~AlignedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace hami::kernels
