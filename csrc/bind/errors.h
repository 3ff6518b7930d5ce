// Exceptions across the border: those of user code keep their identity, those of the core become
// the classes of `hami.errors`. Everything here needs the GIL unless it says otherwise.
#pragma once

#include <Python.h>

#include <exception>
#include <optional>
#include <string>

#include "bind/gil.h"
#include "core/error.h"
#include "schedule/task.h"

namespace hami::bind {

// A Python exception on its way through the core.
class PythonError final : public HostError {
 public:
  PythonError(Ref<PyHandle> exception, std::string text, bool may_rerun)
      : exception_(std::move(exception)), text_(std::move(text)), may_rerun_(may_rerun) {}
  const char* what() const noexcept override { return text_.c_str(); }
  bool may_rerun() const noexcept override { return may_rerun_; }
  PyObject* exception() const noexcept { return exception_->get(); }

 private:
  Ref<PyHandle> exception_;
  std::string text_;
  bool may_rerun_;
};

// The Python exception that is set now, taken off the thread: itself (a new reference), or as the
// core carries it. REQUIRES: one is set.
PyObject* take_exception();
std::exception_ptr take_python_error();
// An exception object as the core carries it.
std::exception_ptr to_error(PyObject* exception);
// Throws the Python exception that is set now.
[[noreturn]] void throw_python_error();

// The exception object that a caller gets: a copy of its own, with a note of where it happened. A
// new reference, or null with a Python error set.
PyObject* exception_object(const std::exception_ptr& error, const FailureSite::Shared& site);
// Logs that a request has failed with this exception object. Leaves no Python error.
void report_failure(PyObject* exception, const FailureSite::Shared& site) noexcept;
// Sets the Python error of this thread.
void set_python_error(const std::exception_ptr& error, const FailureSite::Shared& site);
// Raises `error` in Python, through pybind11.
[[noreturn]] void raise(const std::exception_ptr& error, const FailureSite::Shared& site = {});
[[noreturn]] void raise(const Error& error);

}  // namespace hami::bind
