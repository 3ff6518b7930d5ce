#include "bind/python_order.h"

#include <bit>
#include <cmath>

#include "bind/convert.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "core/error.h"

namespace hami::bind {
namespace {

// A whole number in the same order as the real one. The bits of a positive IEEE 754 number, read as
// an integer, grow with it; those of a negative one shrink.
int64_t in_order(double number) {
  const auto bits = std::bit_cast<int64_t>(number == 0 ? 0.0 : number);
  return bits >= 0 ? bits : std::bit_cast<int64_t>(~static_cast<uint64_t>(bits) ^ (1ULL << 63));
}

class PythonOrder final : public Order {
 public:
  explicit PythonOrder(PyObject* scheduler_class) {
    scheduler_ = make_ref<PyHandle>(checked(call_python(scheduler_class, nullptr, 0)).detach());
    order_ =
        make_ref<PyHandle>(checked(PyObject_GetAttrString(scheduler_->get(), "order")).detach());
  }

  bool reads_everything() const noexcept override { return true; }

  int64_t order_of(const Task& task) const override {
    const GilAcquire gil;
    drain_released();
    const Owned request = request_of(task);
    PyObject* const args[] = {request.get()};
    const Owned answer = checked(call_python(order_->get(), args, 1));
    const double number = PyFloat_AsDouble(answer.get());
    if (PyErr_Occurred() != nullptr || std::isnan(number)) {
      PyErr_Clear();
      throw Error(ErrorKind::kRequest, "scheduler-order",
                  std::string("the scheduler `") + Py_TYPE(scheduler_->get())->tp_name +
                      "` returned a `" + Py_TYPE(answer.get())->tp_name + "` that is no number",
                  "return a number from `order`; the lower one runs first");
    }
    return in_order(number);
  }

 private:
  // What the class may look at: the item, with priority, rows, and the time that is left.
  static Owned request_of(const Task& task) {
    PyObject* const base =
        task.base ? static_cast<const PyHandle*>(task.base.get())->get() : nullptr;
    Owned request = checked(base == nullptr ? PyDict_New() : PyDict_Copy(base));
    const auto set = [&](PyObject* name, PyObject* value) {
      const Owned key = checked(name);
      const Owned held = checked(value);
      check(PyDict_SetItem(request.get(), key.get(), held.get()));
    };
    for (const auto& [key, value, written_at] : task.dict) set(key_object(key), from_value(value));
    set(key_object(keys::priority), PyLong_FromLongLong(task.priority));
    set(key_object(keys::request_size), PyLong_FromLongLong(task.rows));
    const bool has_deadline = task.deadline != TimePoint::max();
    const std::chrono::duration<double, std::milli> left = task.deadline - task.arrival;
    set(key_object(keys::deadline_ms),
        has_deadline ? PyFloat_FromDouble(left.count()) : Py_NewRef(Py_None));
    return request;
  }

  Ref<PyHandle> scheduler_;
  Ref<PyHandle> order_;
};

}  // namespace

std::unique_ptr<Order> create_python_order(const Any& scheduler_class) {
  const GilAcquire gil;
  return std::make_unique<PythonOrder>(static_cast<const PyHandle&>(scheduler_class).get());
}

}  // namespace hami::bind
