#include "bind/kernels_arrays.h"

#include "bind/errors.h"
#include "bind/kernels_objects.h"
#include "bind/tensor_object.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

using kernels::Format;

[[noreturn]] void refuse(const std::string& message, const std::string& help) {
  throw Error(ErrorKind::kRequest, "decoder-array", message, help);
}

std::string type_name(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

}  // namespace

Ref<Tensor> array_of(py::handle object, const std::string& name) {
  Ref<Tensor> tensor = to_tensor(object.ptr());
  if (tensor == nullptr) {
    refuse(backticked(name) + " is of type " + backticked(type_name(object)),
           "give an array that offers the buffer protocol or DLPack");
  }
  if (!tensor->device().is_cpu()) {
    refuse(backticked(name) + " lies on " + backticked(tensor->device().name()),
           "copy it to the CPU first");
  }
  return tensor->contiguous();
}

IntArray::IntArray(py::handle object, const std::string& name, int rank)
    : tensor(array_of(object, name)) {
  if (tensor->dtype() != DType{DType::kInt, 32}) {
    refuse(backticked(name) + " is " + backticked(tensor->describe()), "give it as int32");
  }
  if (rank >= 0 && static_cast<int>(tensor->rank()) != rank) {
    refuse(backticked(name) + " is " + backticked(tensor->describe()),
           "give it with " + std::to_string(rank) + " dimensions");
  }
}

std::span<const int32_t> IntArray::numbers() const noexcept {
  return {tensor->data_as<const int32_t>(), static_cast<size_t>(tensor->size())};
}

Format format_of(const Tensor& array, const std::string& name) {
  if (array.dtype() == DType{DType::kFloat, 32}) return Format::kFloat32;
  if (array.dtype() == DType{DType::kBfloat, 16}) return Format::kBfloat16;
  if (array.dtype() == DType{DType::kFloat, 16}) return Format::kFloat16;
  refuse(backticked(name) + " is " + backticked(array.describe()),
         "give it as float32, bfloat16 or float16");
}

kernels::PlainRows plain_rows(const Tensor& array, const std::string& name) {
  kernels::PlainRows rows;
  rows.data = array.data();
  rows.format = format_of(array, name);
  const Shape& shape = array.shape();
  rows.num_cols = shape.empty() ? 1 : shape.back();
  rows.num_rows = rows.num_cols == 0 ? 0 : array.size() / rows.num_cols;
  return rows;
}

Ref<Tensor> floats_of(py::handle object, const std::string& name, const Shape& shape,
                      bool is_written) {
  Ref<Tensor> tensor = array_of(object, name);
  bool fits = tensor->dtype() == DType{DType::kFloat, 32} && tensor->rank() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] < 0 || shape[i] == tensor->shape()[i];
  }
  if (!fits) {
    refuse(backticked(name) + " is " + backticked(tensor->describe()),
           "give float32 of the shape " + to_string(shape) + " (-1: any)");
  }
  if (is_written && (tensor->is_read_only() || tensor->data() != to_tensor(object.ptr())->data())) {
    refuse(backticked(name) + " is read-only or not contiguous",
           "give an array that can be written");
  }
  return tensor;
}

ResultPool::Block ResultPool::take(int64_t num_rows, int64_t num_cols) {
  const size_t num_bytes = static_cast<size_t>(num_rows * num_cols) * sizeof(float);
  for (const auto& memory : kept_) {
    if (memory.use_count() == 1 && memory->size() >= num_bytes) return {memory, num_rows, num_cols};
  }
  auto memory = std::make_shared<kernels::AlignedMemory>(num_bytes);
  constexpr size_t kMostKept = 4;
  std::erase_if(kept_, [](const auto& kept) { return kept.use_count() == 1; });  // too small
  if (kept_.size() < kMostKept) kept_.push_back(memory);
  return {std::move(memory), num_rows, num_cols};
}

py::object view_of(ResultPool::Block block) { return py::memoryview(py::cast(std::move(block))); }

void define_kernel_results(py::module_& module) {
  py::class_<ResultPool::Block>(module, "_KernelResult", py::buffer_protocol(), py::module_local())
      .def_buffer([](ResultPool::Block& block) {
        const auto item = static_cast<py::ssize_t>(sizeof(float));
        return py::buffer_info(block.data(), item, py::format_descriptor<float>::format(), 2,
                               std::vector<py::ssize_t>{block.num_rows, block.num_cols},
                               std::vector<py::ssize_t>{block.num_cols * item, item});
      });
}

}  // namespace hami::bind
