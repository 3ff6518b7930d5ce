// The CPU kernels as Python objects: `CpuDecoder`, and its parts `CpuLinear` and `CpuAttention` by
// themselves. No logic lives here.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <mutex>
#include <type_traits>

#include "bind/errors.h"
#include "bind/gil.h"

namespace hami::bind {

void define_kernel_results(pybind11::module_& module);
void define_cpu_decoder(pybind11::module_& module);
void define_cpu_parts(pybind11::module_& module);

// Runs `call`, whose C++ exceptions become Python's.
template <class Call>
auto in_python(Call call) {
  std::exception_ptr error;
  try {
    return call();
  } catch (pybind11::error_already_set&) {
    throw;
  } catch (...) {
    error = std::current_exception();
  }
  raise(error);
}

// The same without the GIL, while no other thread is inside a call with this mutex.
template <class Call>
auto alone(std::mutex& mutex, Call call) {
  return in_python([&] {
    const GilRelease release;
    const std::lock_guard lock(mutex);
    return call();
  });
}

}  // namespace hami::bind
