// Arrays on a device are complete when the core gets them: whoever made one did so in the stream
// that is current on its thread, and that stream is waited for here. Everything needs the GIL and
// leaves no Python error.
#pragma once

#include <Python.h>

#include <vector>

#include "core/dlpack.h"
#include "core/tensor.h"

namespace hami::bind {

// Waits until `object`, an array on `device`, is complete. An idle stream is asked for with two
// calls of the driver; one that is busy is waited for in Python, which knows the array's library.
// `table` is that of the array's class, or null.
void settle(PyObject* object, Device device, const dlpack::ExchangeTable* table);

// For a scope, on this thread: every array that the scope sees was made before it began, so that
// one look at the stream of a device serves for all of them.
class SettledOnce {
 public:
  SettledOnce();
  ~SettledOnce();
  SettledOnce(const SettledOnce&) = delete;
  SettledOnce& operator=(const SettledOnce&) = delete;

 private:
  friend void settle(PyObject*, Device, const dlpack::ExchangeTable*);
  SettledOnce* const outer_;
  // By library, since each has a current stream of its own.
  std::vector<std::pair<PyTypeObject*, Device>> done_;
};

}  // namespace hami::bind
