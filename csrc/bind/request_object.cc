#include "bind/request_object.h"

#include <optional>
#include <utility>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/gil.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "graph/pipeline.h"

namespace py = pybind11;

namespace hami::bind {

RequestObject::~RequestObject() {
  // The locks of the request may be held by threads of the parent, so it is left alone.
  if (birth_.is_in_child()) static_cast<void>(request_.detach());
}

bool RequestObject::cancel() const {
  if (birth_.is_in_child()) return false;
  const GilRelease no_gil;
  return request_->cancel();
}

py::object RequestObject::try_take() const {
  check_is_not_in_child();
  const std::optional<Value> value = request_->stream->try_take();
  if (value) return py::make_tuple(py::reinterpret_steal<py::object>(from_value(*value)));
  if (request_->stream->is_exhausted()) return py::none();
  return py::tuple();
}

py::object RequestObject::take() const {
  while (true) {
    py::object taken = try_take();
    if (taken.is_none() || py::len(taken) > 0) return taken;
    if (PyErr_CheckSignals() != 0) {
      const std::exception_ptr raised = take_python_error();
      cancel();
      raise(raised);
    }
    const auto error = error_of([&] { request_->pipeline->check_may_wait_for(*request_); });
    if (error != nullptr) raise(error);
    const GilRelease no_gil;
    request_->stream->wait();
  }
}

void RequestObject::notify(const py::object& listener) const {
  check_is_not_in_child();
  auto call = [held = hold(listener.ptr())] {
    const GilAcquire gil;
    const Owned returned(call_python(held->get(), nullptr, 0));
    if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(held->get()); });
  };
  const GilRelease no_gil;
  request_->stream->notify(std::move(call));
}

void RequestObject::check_is_not_in_child() const {
  if (birth_.is_in_child()) raise(ForkGuard::error());
}

void define_request(py::module_& module) {
  py::class_<RequestObject>(module, "Request", py::custom_type_setup(refuse_new),
                            "A request on its way.")
      .def("cancel", method(&RequestObject::cancel),
           "Answers it with `Cancelled`; false when it has its answer already.")
      .def("try_take", method(&RequestObject::try_take))
      .def("take", method(&RequestObject::take))
      .def("notify", method(&RequestObject::notify), py::arg("listener"));
}

}  // namespace hami::bind
