// Arrays of Python as the CPU kernels take them: integers of a plan, weights, activations, and the
// results that go back. Everything here needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "kernels/decoder_config.h"
#include "kernels/memory.h"
#include "kernels/packed_matrix.h"

namespace hami::bind {

// The array `object` in memory of the CPU, contiguous. Throws a request error that calls it `name`.
Ref<Tensor> array_of(pybind11::handle object, const std::string& name);

// Integers of 32 bits, kept alive by this object.
struct IntArray {
  // Of any rank that `rank` allows; -1: any.
  IntArray(pybind11::handle object, const std::string& name, int rank = -1);
  std::span<const int32_t> numbers() const noexcept;
  Ref<Tensor> tensor;
};

// Plain rows of float32, bfloat16 or float16; one row if `array` has rank 1.
kernels::PlainRows plain_rows(const Tensor& array, const std::string& name);
// The format of keys and values, or of plain rows.
kernels::Format format_of(const Tensor& array, const std::string& name);
// Contiguous float32 of this shape (-1: any), writable if asked for.
Ref<Tensor> floats_of(pybind11::handle object, const std::string& name, const Shape& shape,
                      bool is_written = false);

// Buffers of results, used again once Python has let go of them: fresh memory would cost a page
// fault for every four kilobytes.
class ResultPool {
 public:
  struct Block {
    std::shared_ptr<kernels::AlignedMemory> memory;
    int64_t num_rows = 0;
    int64_t num_cols = 0;
    float* data() const noexcept { return memory->as<float>(); }
  };
  Block take(int64_t num_rows, int64_t num_cols);

 private:
  std::vector<std::shared_ptr<kernels::AlignedMemory>> kept_;
};

// A memoryview of float32 [num_rows, num_cols] that keeps the block.
pybind11::object view_of(ResultPool::Block block);

}  // namespace hami::bind
