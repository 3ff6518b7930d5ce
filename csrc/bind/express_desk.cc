#include "bind/express_desk.h"

#include <pybind11/stl.h>

#include <chrono>
#include <cstdio>

#include "bind/express_connection.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "core/split_mix.h"

namespace py = pybind11;

namespace hami::bind {

double to_seconds(TimePoint time) noexcept {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

std::string ExpressDesk::new_id() noexcept {
  char id[17];
  const uint64_t bits = split_mix(split_mix(seed_) + ++num_ids_ * kGoldenGamma);
  std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(bits));
  return id;
}

ExpressDesk::Running::iterator ExpressDesk::add(ExpressAnswer& answer) {
  running_.push_back(&answer);
  num_running_.fetch_add(1, std::memory_order_relaxed);
  return std::prev(running_.end());
}

void ExpressDesk::remove(Running::iterator place) noexcept {
  running_.erase(place);
  num_running_.fetch_sub(1, std::memory_order_relaxed);
  if (!is_draining_ || !running_.empty()) return;
  const Owned returned(call_python(on_idle_->get(), nullptr, 0));
  if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(on_idle_->get()); });
}

void ExpressDesk::log(PyObject* path, size_t num_body_bytes, double seconds,
                      const std::string& id) noexcept {
  const Owned size(PyLong_FromSize_t(num_body_bytes));
  const Owned time(PyFloat_FromDouble(seconds));
  const Owned name(PyBytes_FromStringAndSize(id.data(), static_cast<Py_ssize_t>(id.size())));
  PyObject* const args[] = {path, size.get(), time.get(), name.get()};
  const Owned returned(size && time && name ? call_python(log_->get(), args, 4) : nullptr);
  if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(log_->get()); });
}

std::optional<double> ExpressDesk::oldest_start_s() const {
  if (running_.empty()) return {};
  return to_seconds(running_.front()->start());
}

py::list ExpressDesk::begun_before(double start_s) const {
  py::list owners;
  for (const ExpressAnswer* answer : running_) {
    if (to_seconds(answer->start()) >= start_s) break;
    if (PyObject* owner = answer->owner()) owners.append(py::handle(owner));
  }
  return owners;
}

void define_express_desk(py::module_& module) {
  py::class_<ExpressDesk, std::shared_ptr<ExpressDesk>>(
      module, "ExpressDesk", "What requests on the express way of one server have in common.")
      .def(py::init<const py::function&, const py::function&>(), py::arg("log"), py::arg("on_idle"))
      .def(
          "set_common_headers",
          [](py::handle self, const py::bytes& lines) {
            made<ExpressDesk>(self).set_common_headers(lines);
          },
          py::arg("lines"), "The lines of all answers, from now on.")
      .def(
          "drain", [](py::handle self) { made<ExpressDesk>(self).drain(); },
          "Takes no further requests.")
      .def("begun_before", method(&ExpressDesk::begun_before), py::arg("start_s"),
           "The owners of the connections of those that began before.")
      .def_property_readonly("num_running", method(&ExpressDesk::num_running))
      .def_property_readonly("oldest_start_s", method(&ExpressDesk::oldest_start_s));
}

}  // namespace hami::bind
