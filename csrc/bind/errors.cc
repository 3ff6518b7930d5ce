#include "bind/errors.h"

#include <pybind11/pybind11.h>

#include <new>

namespace hami::bind {
namespace {

std::string text_of(PyObject* exception) {
  std::string text = Py_TYPE(exception)->tp_name;
  PyObject* message = survive_finalization([&] { return PyObject_Str(exception); });
  const char* characters = message == nullptr ? nullptr : PyUnicode_AsUTF8(message);
  if (characters != nullptr && *characters != '\0') text += std::string(": ") + characters;
  PyErr_Clear();
  Py_XDECREF(message);
  return text;
}

// Out of memory, a device in an unknown state, a worker process that has died: another run of the
// same batch could do harm, and would tell nothing about its items.
bool may_rerun(PyObject* exception, const std::string& text) {
  if (PyErr_GivenExceptionMatches(exception, PyExc_MemoryError) != 0) return false;
  if (PyErr_GivenExceptionMatches(exception, PyExc_Exception) == 0) return false;
  for (const char* sign : {"CUDA error", "CUDA out of memory", "cudaError", "BrokenProcessPool"}) {
    if (text.find(sign) != std::string::npos) return false;
  }
  return true;
}

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kConfig:
      return "ConfigError";
    case ErrorKind::kBuild:
      return "BuildError";
    case ErrorKind::kRequest:
      return "RequestError";
    case ErrorKind::kQueueFull:
      return "QueueFull";
    case ErrorKind::kDeadlineExceeded:
      return "DeadlineExceeded";
    case ErrorKind::kCancelled:
      return "Cancelled";
    case ErrorKind::kClosed:
      return "Closed";
  }
  return "Error";
}

// Calls hami.failures.NAME(args...). A new reference, or null with a Python error set.
template <class... Args>
PyObject* call_failures(const char* name, const char* format, Args... args) {
  return survive_finalization([&]() -> PyObject* {
    PyObject* module = PyImport_ImportModule("hami.failures");
    if (module == nullptr) return nullptr;
    PyObject* result = PyObject_CallMethod(module, name, format, args...);
    Py_DECREF(module);
    return result;
  });
}

std::string note_of(const FailureSite::Shared& site) {
  if (!site) return "";
  return "in node `" + site->node + "`, backend `" + site->backend + "`, instance " +
         std::to_string(site->instance);
}

// Messages of engines and paths need not be UTF-8.
PyObject* to_python(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

// What an exception of C++ says, in the form of `hami.errors`.
struct Parts {
  const char* class_name = "Error";
  std::string code;
  std::string message;
  std::string help;
  std::string where;
};

PyObject* own_error(const Parts& parts, const std::string& note) {
  return call_failures("make", "sNsNNN", parts.class_name, to_python(parts.message),
                       parts.code.c_str(), to_python(parts.where), to_python(parts.help),
                       to_python(note));
}

}  // namespace

std::exception_ptr to_error(PyObject* exception) {
  std::string text = text_of(exception);
  const bool reruns = may_rerun(exception, text);
  return std::make_exception_ptr(PythonError(hold(exception), std::move(text), reruns));
}

PyObject* take_exception() {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject* type = nullptr;
  PyObject* exception = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &exception, &traceback);
  PyErr_NormalizeException(&type, &exception, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(exception, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return exception;
#endif
}

std::exception_ptr take_python_error() {
  PyObject* exception = take_exception();
  auto error = to_error(exception);
  Py_DECREF(exception);
  return error;
}

void throw_python_error() { std::rethrow_exception(take_python_error()); }

PyObject* exception_object(const std::exception_ptr& error, const FailureSite::Shared& site) {
  const std::string note = note_of(site);
  PyObject* original = nullptr;
  Parts parts;
  // Python is called after the catch blocks, see error_of in owned.h.
  try {
    std::rethrow_exception(error);
  } catch (const PythonError& python) {
    original = python.exception();
  } catch (const Error& own) {
    parts = {class_of(own.kind()), own.code(), own.message(), own.help(), own.where()};
  } catch (const std::bad_alloc&) {
    parts.code = "out-of-memory";
    parts.message = "a backend ran out of memory";
    parts.help = "lower `max`, or send smaller requests";
  } catch (const std::exception& other) {
    parts.code = "backend-failed";
    parts.message = other.what();
  } catch (...) {
    parts.code = "backend-failed";
    parts.message = "a backend threw something that is no exception";
  }
  if (original == nullptr) return own_error(parts, note);
  PyObject* const twin = call_failures("copy", "ON", original, to_python(note));
  if (twin != nullptr) return twin;
  // Its class does odd things when it is looked at; it must reach the caller all the same.
  PyErr_Clear();
  return Py_NewRef(original);
}

void report_failure(PyObject* exception, const FailureSite::Shared& site) noexcept {
  PyObject* node = to_python(site ? site->node : std::string());
  Py_XDECREF(node == nullptr ? nullptr : call_failures("report", "ON", exception, node));
  PyErr_Clear();
}

void set_python_error(const std::exception_ptr& error, const FailureSite::Shared& site) {
  PyObject* exception = exception_object(error, site);
  if (exception == nullptr) return;  // making it failed, and that error is set
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  Py_DECREF(exception);
}

void raise(const std::exception_ptr& error, const FailureSite::Shared& site) {
  set_python_error(error, site);
  throw pybind11::error_already_set();
}

void raise(const Error& error) { raise(std::make_exception_ptr(error)); }

}  // namespace hami::bind
