// A request on its way as Python holds it: to cancel it, or to take its partial results.
#pragma once

#include <pybind11/pybind11.h>

#include "bind/fork_guard.h"
#include "graph/request.h"

namespace hami::bind {

class RequestObject {
 public:
  explicit RequestObject(Ref<Request> request) : request_(std::move(request)) {}
  ~RequestObject();
  RequestObject(RequestObject&&) = default;

  bool cancel() const;
  // The next partial result in a tuple, an empty tuple where there is none yet, None at the end.
  // REQUIRES: started with `is_streamed`.
  pybind11::object try_take() const;
  // The same, but waits. A signal whose handler raises ends the waiting and the request.
  pybind11::object take() const;
  // Calls `listener()` once, as soon as `try_take` has something to tell.
  void notify(const pybind11::object& listener) const;

 private:
  void check_is_not_in_child() const;

  Ref<Request> request_;
  ForkGuard birth_;
};

void define_request(pybind11::module_& module);

}  // namespace hami::bind
