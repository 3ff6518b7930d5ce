// `AlignedMemory`: zeroed memory for weights, pages and activations, in large pages where the
// system has them: a step reads all weights, and small pages would cost a quarter of its time.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hami::kernels {

class AlignedMemory {
 public:
  AlignedMemory() = default;
  // Throws a build error when the system has no memory left.
  explicit AlignedMemory(size_t num_bytes);
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        mapped_(std::exchange(other.mapped_, nullptr)),
        mapped_size_(std::exchange(other.mapped_size_, 0)) {}
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_size_, other.mapped_size_);
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
  void* mapped_ = nullptr;  // where the system's mapping begins: `data_` may be behind it
  size_t mapped_size_ = 0;
};

// Zeroed memory for many matrices, which lie next to each other: alone, each would begin and end on
// small pages. What is taken lives as long as the arena, and stays where it is when that is moved.
class MemoryArena {
 public:
  // At a multiple of 64 bytes. Throws as AlignedMemory does.
  std::byte* take(size_t num_bytes);

 private:
  std::vector<AlignedMemory> blocks_;
  size_t num_used_ = 0;  // of the last one
};

}  // namespace hami::kernels
