// The interpreter's lock, and the release of its objects from threads that do not hold it. Threads
// of the core keep one thread state for life, so that taking the lock is all that a run pays.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <string>

#include "core/value.h"

namespace hami::bind {

[[noreturn]] void sleep_for_ever();

// Runs `call`, which may execute Python code or wait for the GIL. CPython before 3.14 ends a thread
// that wants the GIL of an ending interpreter by unwinding it, through destructors that need the
// GIL themselves; here such a thread sleeps for ever, as under 3.14.
template <class Call>
auto survive_finalization(Call call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

// Holds the GIL for a scope, on any thread; nests. When the interpreter is going away the thread
// sleeps for ever instead of unwinding through the core.
class GilAcquire {
 public:
  GilAcquire();
  ~GilAcquire();
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

  // False where the thread held it before.
  bool was_taken() const noexcept { return was_taken_; }

 private:
  bool was_taken_ = false;
};

// Gives the GIL away for a scope; keeps it on the thread that ends the interpreter, where nobody
// else may have it any more. REQUIRES: the thread holds it.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// An owned Python object as a value; it may be dropped on any thread.
class PyHandle final : public Any {
 public:
  // Steals the reference.
  explicit PyHandle(PyObject* object) : object_(object) {}
  ~PyHandle() override;
  PyObject* get() const noexcept { return object_; }
  std::string type_name() const override;

 private:
  PyObject* object_;
};

// The Python object that `object` was made from, borrowed, or null. Only the binding sets origins,
// so they are all handles.
inline PyObject* host_object(const Object& object) noexcept {
  const auto* handle = static_cast<const PyHandle*>(object.origin());
  return handle == nullptr ? nullptr : handle->get();
}

// A borrowed object becomes an owned handle. REQUIRES: the GIL.
Ref<PyHandle> hold(PyObject* object);

// Releases what other threads let go of. REQUIRES: the GIL.
void drain_released();
// Releases the buffer now, or with the next drain on threads without the GIL.
void release_buffer(Py_buffer* buffer);

// Calls `callable(*args)`, and survives the end of the interpreter.
// REQUIRES: the GIL.
PyObject* call_python(PyObject* callable, PyObject* const* args, size_t num_args);

}  // namespace hami::bind
