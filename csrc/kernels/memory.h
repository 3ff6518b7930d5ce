// `AlignedMemory`: zeroed memory for weights, pages and activations, in large pages where the
// system has them: a step reads all weights, and small pages would cost more than the reading.
#pragma once

#include <cstddef>
#include <utility>

namespace hami::kernels {

class AlignedMemory {
 public:
  AlignedMemory() = default;
  // Throws a build error when the system has no memory left.
  explicit AlignedMemory(size_t num_bytes);
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const noexcept { return data_; }
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }
  size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hami::kernels
