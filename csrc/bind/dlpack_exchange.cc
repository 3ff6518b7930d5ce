#include "bind/dlpack_exchange.h"

#include <utility>

#include "bind/gil.h"

namespace hami::bind {
namespace {

// DLPack's deleter may be called on any thread, so no GIL is needed here.
class ExchangeOwner final : public Object {
 public:
  explicit ExchangeOwner(dlpack::ManagedTensorVersioned* managed) : managed_(managed) {}
  ~ExchangeOwner() override {
    if (managed_->deleter != nullptr) managed_->deleter(managed_);
  }
  const dlpack::Tensor& view() const noexcept { return managed_->tensor; }
  bool is_read_only() const noexcept { return (managed_->flags & dlpack::kIsReadOnly) != 0; }

 private:
  dlpack::ManagedTensorVersioned* managed_;
};

struct Given {
  dlpack::ManagedTensorVersioned managed;
  Ref<Tensor> tensor;
  Shape shape;
  Shape strides;
};

// torch changes signs lazily: a view may have other numbers than its memory, those of floats alone.
bool has_signs(const dlpack::Tensor& view) {
  return view.type_code == DType::kFloat || view.type_code == DType::kBfloat ||
         view.type_code == DType::kComplex;
}

// Such a view is copied, others are themselves. A new reference; null when that fails.
PyObject* without_pending_change(PyObject* object) {
  constexpr std::pair<const char*, const char*> kChanges[] = {{"is_neg", "resolve_neg"},
                                                              {"is_conj", "resolve_conj"}};
  PyObject* plain = Py_NewRef(object);
  for (const auto& [question, answer] : kChanges) {
    PyObject* const is_pending = PyObject_CallMethod(plain, question, nullptr);
    PyErr_Clear();  // other libraries have no such method
    if (is_pending == Py_True) Py_SETREF(plain, PyObject_CallMethod(plain, answer, nullptr));
    Py_XDECREF(is_pending);
    if (plain == nullptr) break;
  }
  PyErr_Clear();
  return plain;
}

// What the table gives for an array; null where it refuses it.
Ref<ExchangeOwner> owner_of(const dlpack::ExchangeTable& table, PyObject* object) {
  dlpack::ManagedTensorVersioned* managed = nullptr;
  const int status = survive_finalization([&] { return table.from_object(object, &managed); });
  PyErr_Clear();
  return status == 0 && managed != nullptr ? make_ref<ExchangeOwner>(managed) : nullptr;
}

PyObject* attribute_name() {
  static PyObject* const name = PyUnicode_InternFromString(dlpack::kExchangeAttribute);
  return name;
}

}  // namespace

const dlpack::ExchangeTable* exchange_table(PyTypeObject* type) {
  PyObject* const capsule = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), attribute_name());
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  const void* const pointer = PyCapsule_IsValid(capsule, dlpack::kExchangeName) != 0
                                  ? PyCapsule_GetPointer(capsule, dlpack::kExchangeName)
                                  : nullptr;
  Py_DECREF(capsule);  // the table lives as long as the process
  const auto* table = static_cast<const dlpack::ExchangeTable*>(pointer);
  while (table != nullptr && table->version.major != dlpack::kMajorVersion) table = table->previous;
  return table;
}

Ref<Tensor> from_exchange(const dlpack::ExchangeTable& table, PyObject* object) {
  Ref<ExchangeOwner> owner = owner_of(table, object);
  if (owner == nullptr || has_signs(owner->view())) {
    PyObject* const plain = without_pending_change(object);
    if (plain == nullptr) return nullptr;
    if (plain != object) owner = owner_of(table, plain);
    Py_DECREF(plain);
    if (owner == nullptr) return nullptr;
  }
  const bool is_read_only = owner->is_read_only();
  const dlpack::Tensor& view = owner->view();
  if (view.type_lanes != 1 || view.type_bits % 8 != 0) return nullptr;
  Shape shape(view.shape, view.shape + view.num_dims);
  Shape strides = view.strides == nullptr ? contiguous_strides(shape)
                                          : Shape(view.strides, view.strides + view.num_dims);
  auto tensor =
      make_ref<Tensor>(static_cast<char*>(view.data) + view.byte_offset,
                       DType{view.type_code, view.type_bits}, std::move(shape), std::move(strides),
                       std::move(owner), Device{view.device_type, view.device_id});
  tensor->set_read_only(is_read_only);
  return tensor;
}

PyObject* to_exchange(const dlpack::ExchangeTable& table, Ref<Tensor> tensor) {
  auto* given = new Given{{}, tensor, tensor->shape(), tensor->strides()};
  given->managed = {
      {dlpack::kMajorVersion, 0},
      given,
      [](dlpack::ManagedTensorVersioned* managed) { delete static_cast<Given*>(managed->context); },
      0,
      {tensor->data(), tensor->device().type, tensor->device().id,
       static_cast<int32_t>(tensor->rank()), tensor->dtype().code, tensor->dtype().bits, 1,
       given->shape.data(), given->strides.data(), 0}};
  void* object = nullptr;
  const int status =
      survive_finalization([&] { return table.to_object(&given->managed, &object); });
  PyErr_Clear();
  // Taken in any case; what the library does with it when it fails is not told, so it is left.
  return status == 0 ? static_cast<PyObject*>(object) : nullptr;
}

}  // namespace hami::bind
