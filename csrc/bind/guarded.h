// Calls into the core from functions that pybind11 wraps.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <optional>
#include <utility>

#include "bind/errors.h"
#include "core/error.h"

namespace hami::bind {

// Runs `call`. Errors of the core and of user code become Python's; what else is thrown, mistakes
// of a program, pybind11 knows. REQUIRES: the GIL.
template <class Call>
auto guarded(Call call) {
  std::exception_ptr error;
  std::optional<decltype(call())> returned;
  try {
    returned.emplace(call());
  } catch (const Error&) {
    error = std::current_exception();
  } catch (const HostError&) {
    error = std::current_exception();
  }
  if (error != nullptr) raise(error);
  return std::move(*returned);
}

}  // namespace hami::bind
