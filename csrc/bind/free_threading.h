// What the GIL guards where there is one, for builds of Python without it.
#pragma once

#include <Python.h>

#include <mutex>

namespace hami::bind {

// Guards what is only touched by threads that hold the GIL. Costs nothing under a GIL.
class GilMutex {
 public:
#ifdef Py_GIL_DISABLED
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
#else
  void lock() noexcept {}
  void unlock() noexcept {}
#endif
};

// Keeps others from changing a dict or list for a scope, like the GIL: while user code runs inside,
// they may.
class ObjectLock {
 public:
#ifdef Py_GIL_DISABLED
  explicit ObjectLock(PyObject* object) { PyCriticalSection_Begin(&section_, object); }
  ~ObjectLock() { PyCriticalSection_End(&section_); }

 private:
  PyCriticalSection section_;

 public:
#else
  explicit ObjectLock(PyObject* /*object*/) noexcept {}
  ~ObjectLock() noexcept {}  // not trivial, so that no compiler takes the lock for unused
#endif
  ObjectLock(const ObjectLock&) = delete;
  ObjectLock& operator=(const ObjectLock&) = delete;
};

}  // namespace hami::bind
