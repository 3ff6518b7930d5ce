#include "bind/gil.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace hami::bind {

void sleep_for_ever() {
  while (true) pause();
}

namespace {

// The interpreter is going away, or has gone: from then on only the thread that ends it may touch
// objects, and PyGILState_Check answers yes to everybody.
bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#else
  return _Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#endif
}

bool is_main_thread() { return gettid() == getpid(); }

bool holds_gil() { return !is_finalizing() && PyGILState_Check() != 0; }

// Ends the thread state that a thread of the core got with its first run.
struct ThreadStateOwner {
  bool is_owner = false;
  ~ThreadStateOwner() {
    if (!is_owner || is_finalizing()) return;
    survive_finalization([] { PyEval_RestoreThread(PyGILState_GetThisThreadState()); });
    PyGILState_Release(PyGILState_UNLOCKED);
  }
};
thread_local ThreadStateOwner thread_state_owner;

struct Released {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  std::vector<Py_buffer*> buffers;
  std::atomic<bool> has_any{false};
};

Released& released() {
  // Never destroyed: objects may be dropped until the process ends.
  static auto* const list = new Released();
  return *list;
}

int drain_pending_call(void*) {
  drain_released();
  return 0;
}

template <class Entry>
void release_later(std::vector<Entry> Released::* list, Entry entry) {
  Released& all = released();
  bool was_empty = false;
  {
    std::lock_guard lock(all.mutex);
    (all.*list).push_back(entry);
    was_empty = !all.has_any.exchange(true, std::memory_order_acq_rel);
  }
  // So that objects also go when no further request comes.
  if (was_empty && !is_finalizing()) Py_AddPendingCall(drain_pending_call, nullptr);
}

}  // namespace

GilAcquire::GilAcquire() {
  if (holds_gil()) return;
  if (is_finalizing()) {
    if (is_main_thread()) return;  // it ends the interpreter, and has the GIL to the last
    sleep_for_ever();
  }
  survive_finalization([] {
    if (PyThreadState* state = PyGILState_GetThisThreadState()) {
      PyEval_RestoreThread(state);
    } else {
      PyGILState_Ensure();
      thread_state_owner.is_owner = true;
    }
  });
  was_taken_ = true;
}

GilAcquire::~GilAcquire() {
  if (was_taken_) PyEval_SaveThread();
}

GilRelease::GilRelease() : state_(is_finalizing() ? nullptr : PyEval_SaveThread()) {}

GilRelease::~GilRelease() {
  if (state_ == nullptr) return;
  survive_finalization([this] { PyEval_RestoreThread(state_); });
}

PyHandle::~PyHandle() {
  if (holds_gil()) {
    Py_DECREF(object_);
  } else {
    release_later(&Released::objects, object_);
  }
}

std::string PyHandle::type_name() const { return Py_TYPE(object_)->tp_name; }

Ref<PyHandle> hold(PyObject* object) { return make_ref<PyHandle>(Py_NewRef(object)); }

void drain_released() {
  Released& all = released();
  if (!all.has_any.load(std::memory_order_acquire)) return;
  std::vector<PyObject*> objects;
  std::vector<Py_buffer*> buffers;
  {
    std::lock_guard lock(all.mutex);
    objects.swap(all.objects);
    buffers.swap(all.buffers);
    all.has_any.store(false, std::memory_order_release);
  }
  survive_finalization([&] {  // a destructor may be Python code
    for (Py_buffer* buffer : buffers) {
      PyBuffer_Release(buffer);
      delete buffer;
    }
    for (PyObject* object : objects) Py_DECREF(object);
  });
}

void release_buffer(Py_buffer* buffer) {
  if (holds_gil()) {
    PyBuffer_Release(buffer);
    delete buffer;
  } else {
    release_later(&Released::buffers, buffer);
  }
}

PyObject* call_python(PyObject* callable, PyObject* const* args, size_t num_args) {
  return survive_finalization(
      [&] { return PyObject_Vectorcall(callable, args, num_args, nullptr); });
}

}  // namespace hami::bind
