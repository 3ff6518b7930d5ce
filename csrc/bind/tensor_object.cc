#include "bind/tensor_object.h"

#include <atomic>
#include <bit>
#include <optional>
#include <string>

#include "bind/dlpack_exchange.h"
#include "bind/gil.h"
#include "bind/method.h"
#include "bind/settle.h"
#include "core/dlpack.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// What Python holds of a tensor that the core made.
struct TensorObject {
  Ref<Tensor> tensor;
};

class BufferOwner final : public Object {
 public:
  explicit BufferOwner(Py_buffer* buffer) : buffer_(buffer) {}
  ~BufferOwner() override { release_buffer(buffer_); }

 private:
  Py_buffer* buffer_;
};

// DLPack's deleter may be called on any thread, so no GIL is needed here.
class CapsuleOwner final : public Object {
 public:
  explicit CapsuleOwner(dlpack::ManagedTensor* managed) : managed_(managed) {}
  ~CapsuleOwner() override {
    if (managed_->deleter != nullptr) managed_->deleter(managed_);
  }

 private:
  dlpack::ManagedTensor* managed_;
};

// The struct module's format characters of plain numbers, in the machine's byte order.
std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item_bytes) {
  std::string_view text = format == nullptr ? "B" : format;
  const char foreign = std::endian::native == std::endian::little ? '>' : '<';
  if (!text.empty() && (text[0] == foreign || text[0] == '!')) return {};
  if (!text.empty() && std::string_view("@=<>").find(text[0]) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  const auto bits = static_cast<uint8_t>(item_bytes * 8);
  if (text == "?") return DType{DType::kBool, 8};
  if (text == "Zf" || text == "Zd") return DType{DType::kComplex, bits};
  if (text.size() != 1) return {};
  if (std::string_view("bhilqn").find(text[0]) != std::string_view::npos) {
    return DType{DType::kInt, bits};
  }
  if (std::string_view("BHILQN").find(text[0]) != std::string_view::npos) {
    return DType{DType::kUInt, bits};
  }
  if (std::string_view("efd").find(text[0]) != std::string_view::npos) {
    return DType{DType::kFloat, bits};
  }
  return {};
}

// 64 bits are a C long here, as numpy's int64 is: its `long long` is a type that others do not
// know.
const char* format_of_dtype(DType dtype) {
  static_assert(sizeof(long) == 8);
  switch (dtype.code) {
    case DType::kBool:
      return "?";
    case DType::kInt:
      return dtype.bits == 8 ? "b" : dtype.bits == 16 ? "h" : dtype.bits == 32 ? "i" : "l";
    case DType::kUInt:
      return dtype.bits == 8 ? "B" : dtype.bits == 16 ? "H" : dtype.bits == 32 ? "I" : "L";
    case DType::kFloat:
      return dtype.bits == 16 ? "e" : dtype.bits == 32 ? "f" : dtype.bits == 64 ? "d" : nullptr;
    case DType::kComplex:
      return dtype.bits == 64 ? "Zf" : "Zd";
    default:
      return nullptr;
  }
}

Ref<Tensor> from_buffer(PyObject* object) {
  auto* buffer = new Py_buffer();
  if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    delete buffer;
    return nullptr;
  }
  const auto dtype = dtype_of_format(buffer->format, buffer->itemsize);
  const bool has_shape = buffer->ndim == 0 || buffer->shape != nullptr;
  bool is_strided = dtype.has_value() && buffer->suboffsets == nullptr && has_shape;
  // Some exporters (ctypes) leave out the strides of contiguous memory although they are asked for.
  const bool has_strides = buffer->strides != nullptr;
  for (int i = 0; is_strided && has_strides && i < buffer->ndim; ++i) {
    // Fields of records lie at distances that are no multiple of their size.
    is_strided = buffer->strides[i] % buffer->itemsize == 0;
  }
  if (!is_strided) {
    release_buffer(buffer);
    return nullptr;
  }
  Shape shape(buffer->shape, buffer->shape + buffer->ndim);
  Shape strides = contiguous_strides(shape);
  for (size_t i = 0; has_strides && i < shape.size(); ++i) {
    strides[i] = buffer->strides[i] / buffer->itemsize;
  }
  auto tensor = make_ref<Tensor>(buffer->buf, *dtype, std::move(shape), std::move(strides),
                                 Ref<Object>(make_ref<BufferOwner>(buffer)));
  tensor->set_read_only(buffer->readonly != 0);
  return tensor;
}

// Where an object that exports DLPack says that it lies.
Device device_of(PyObject* object) {
  PyObject* const ask = PyObject_GetAttrString(object, "__dlpack_device__");
  PyObject* const device = ask == nullptr ? nullptr : call_python(ask, nullptr, 0);
  int32_t type = 1;
  int32_t id = 0;
  if (device != nullptr && PyTuple_Check(device)) PyArg_ParseTuple(device, "ii", &type, &id);
  PyErr_Clear();
  Py_XDECREF(device);
  Py_XDECREF(ask);
  return {type, id};
}

// The capsule of an array on a device that is complete, so that no stream has to wait for another.
PyObject* capsule_on_device(PyObject* export_method) {
  PyObject* const no_args = PyTuple_New(0);
  PyObject* const keywords = Py_BuildValue("{s:i}", "stream", -1);
  PyObject* const capsule =
      survive_finalization([&] { return PyObject_Call(export_method, no_args, keywords); });
  Py_XDECREF(no_args);
  Py_XDECREF(keywords);
  return capsule;
}

Ref<Tensor> from_dlpack(PyObject* object) {
  PyObject* const export_method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject* capsule = nullptr;
  if (export_method != nullptr) {
    const Device device = device_of(object);
    if (!device.is_cpu()) settle(object, device, exchange_table(Py_TYPE(object)));
    capsule =
        device.is_cpu() ? call_python(export_method, nullptr, 0) : capsule_on_device(export_method);
  }
  Py_XDECREF(export_method);
  if (capsule == nullptr || !PyCapsule_IsValid(capsule, dlpack::kCapsuleName)) {
    PyErr_Clear();
    Py_XDECREF(capsule);
    return nullptr;
  }
  auto* managed =
      static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kCapsuleName));
  PyCapsule_SetName(capsule, dlpack::kUsedCapsuleName);
  Py_DECREF(capsule);
  auto owner = make_ref<CapsuleOwner>(managed);
  const dlpack::Tensor& view = managed->tensor;
  if (view.type_lanes != 1 || view.type_bits % 8 != 0) return nullptr;
  Shape shape(view.shape, view.shape + view.num_dims);
  Shape strides = view.strides == nullptr ? contiguous_strides(shape)
                                          : Shape(view.strides, view.strides + view.num_dims);
  return make_ref<Tensor>(static_cast<char*>(view.data) + view.byte_offset,
                          DType{view.type_code, view.type_bits}, std::move(shape),
                          std::move(strides), std::move(owner),
                          Device{view.device_type, view.device_id});
}

py::buffer_info buffer_of(TensorObject& object) {
  const Tensor& tensor = *object.tensor;
  const char* format = format_of_dtype(tensor.dtype());
  if (format == nullptr || !tensor.device().is_cpu()) {
    throw py::buffer_error("a " + tensor.describe() + " has no buffer; use DLPack");
  }
  const auto item_bytes = static_cast<py::ssize_t>(tensor.dtype().size_bytes());
  std::vector<py::ssize_t> strides;
  for (int64_t stride : tensor.strides()) strides.push_back(stride * item_bytes);
  return py::buffer_info(tensor.data(), item_bytes, format, static_cast<py::ssize_t>(tensor.rank()),
                         std::vector<py::ssize_t>(tensor.shape().begin(), tensor.shape().end()),
                         std::move(strides), tensor.is_read_only());
}

struct Exported {
  dlpack::ManagedTensor managed;
  Ref<Tensor> tensor;
  Shape shape;
  Shape strides;
};

py::capsule to_dlpack(const TensorObject& object, const py::kwargs&) {
  const Tensor& tensor = *object.tensor;
  auto* exported = new Exported{{}, object.tensor, tensor.shape(), tensor.strides()};
  exported->managed = {
      {tensor.data(), tensor.device().type, tensor.device().id, static_cast<int32_t>(tensor.rank()),
       tensor.dtype().code, tensor.dtype().bits, 1, exported->shape.data(),
       exported->strides.data(), 0},
      exported,
      [](dlpack::ManagedTensor* managed) { delete static_cast<Exported*>(managed->context); }};
  PyObject* capsule = PyCapsule_New(&exported->managed, dlpack::kCapsuleName, [](PyObject* unused) {
    // Nobody took it.
    if (!PyCapsule_IsValid(unused, dlpack::kCapsuleName)) return;
    auto* managed =
        static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(unused, dlpack::kCapsuleName));
    managed->deleter(managed);
  });
  return py::reinterpret_steal<py::capsule>(capsule);
}

// numpy.asarray, or null where numpy is not installed; looked up once, by several threads if they
// come together: a guard would be held while the import gives the GIL to others who wait for it.
PyObject* numpy_asarray() {
  static std::atomic<bool> is_looked_up{false};
  static std::atomic<PyObject*> asarray{nullptr};
  if (is_looked_up.load(std::memory_order_acquire)) return asarray;
  PyObject* numpy = survive_finalization([] { return PyImport_ImportModule("numpy"); });
  PyObject* found = numpy == nullptr ? nullptr : PyObject_GetAttrString(numpy, "asarray");
  PyErr_Clear();
  Py_XDECREF(numpy);
  asarray = found;  // the same for all, and never released
  is_looked_up.store(true, std::memory_order_release);
  return found;
}

// An array for what numpy has no form for, of the library that hami.tensors chooses; its table is
// used from the second one on.
PyObject* adopted(const py::object& object, const Ref<Tensor>& tensor) {
  static std::atomic<const dlpack::ExchangeTable*> table{nullptr};
  if (const auto* known = table.load(std::memory_order_acquire)) {
    if (PyObject* array = to_exchange(*known, tensor)) return array;
  }
  PyObject* const array = call_tensors("adopt", object.ptr());
  if (array != nullptr) table.store(exchange_table(Py_TYPE(array)), std::memory_order_release);
  return array;
}

py::object reinterpret(const py::object& array, const std::string& name) {
  const Ref<Tensor> tensor = to_tensor(array.ptr());
  const std::optional<DType> dtype = DType::find(name);
  if (tensor == nullptr || !dtype || dtype->bits != tensor->dtype().bits) {
    throw py::type_error("takes an array, and the name of a type of the same width");
  }
  auto view = make_ref<Tensor>(tensor->data(), *dtype, tensor->shape(), tensor->strides(),
                               Ref<Object>(tensor), tensor->device());
  view->set_read_only(tensor->is_read_only());
  PyObject* const object = from_tensor(std::move(view));
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace

PyObject* call_tensors(const char* name, PyObject* first, PyObject* second) {
  PyObject* const module =
      survive_finalization([] { return PyImport_ImportModule("hami.tensors"); });
  PyObject* const function = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
  PyObject* const args[] = {first, second};
  PyObject* const result =
      function == nullptr ? nullptr : call_python(function, args, second == nullptr ? 1 : 2);
  Py_XDECREF(function);
  Py_XDECREF(module);
  return result;
}

Ref<Tensor> to_tensor(PyObject* object) {
  // By its type: `isinstance` would ask the object for its `__class__`, which is user code.
  auto* const own_type = reinterpret_cast<PyTypeObject*>(py::type::of<TensorObject>().ptr());
  if (PyObject_TypeCheck(object, own_type) != 0) {
    return py::cast<TensorObject&>(py::handle(object)).tensor;
  }
  Ref<Tensor> tensor;
  if (PyObject_CheckBuffer(object)) {
    tensor = from_buffer(object);
  } else if (const auto* table = exchange_table(Py_TYPE(object))) {
    tensor = from_exchange(*table, object);
    if (tensor == nullptr) {
      tensor = from_dlpack(object);
    } else if (!tensor->device().is_cpu()) {
      settle(object, tensor->device(), table);  // from here on any thread may read it
    }
  } else if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__dlpack__")) {
    tensor = from_dlpack(object);
  }
  if (tensor) tensor->set_origin(hold(object));
  return tensor;
}

PyObject* from_tensor(Ref<Tensor> tensor) {
  const bool is_plain = format_of_dtype(tensor->dtype()) != nullptr && tensor->device().is_cpu();
  py::object object = py::cast(TensorObject{tensor});
  if (!is_plain) return adopted(object, tensor);
  if (numpy_asarray() == nullptr) return object.release().ptr();
  PyObject* const args[] = {object.ptr()};
  return call_python(numpy_asarray(), args, 1);
}

void define_tensor(py::module_& module) {
  py::class_<TensorObject>(module, "Tensor", py::buffer_protocol(),
                           py::custom_type_setup(refuse_new),
                           "A tensor of the core: offers the buffer protocol and DLPack.")
      .def_buffer(&buffer_of)
      .def("__dlpack__", &to_dlpack)
      .def("__dlpack_device__",
           [](const TensorObject& object) {
             const Device device = object.tensor->device();
             return py::make_tuple(device.type, device.id);
           })
      .def_property_readonly("shape",
                             [](const TensorObject& object) {
                               py::list shape;
                               for (int64_t extent : object.tensor->shape()) shape.append(extent);
                               return py::tuple(shape);
                             })
      .def_property_readonly(
          "dtype", [](const TensorObject& object) { return object.tensor->dtype().name(); })
      .def("__repr__", [](const TensorObject& object) {
        return "<hami tensor " + object.tensor->describe() + ">";
      });
  module.def("reinterpret", &reinterpret, py::arg("array"), py::arg("dtype"),
             "The memory of an array under another type of the same width.");
}

}  // namespace hami::bind
