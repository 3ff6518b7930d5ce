#include "bind/async_run.h"

#include <pybind11/pybind11.h>

#include <memory>

#include "bind/gil.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// Outlives the wait, in case that the loop reports an end which nobody waits for any more.
struct Progress {
  WatchedRun run;
  Event done;
};

// Waits until the coroutine has ended or nobody wants its outcome. True in the first case.
bool wait_while_wanted(Progress& progress, RunWatches& watches) {
  const GilRelease no_gil;
  watches.add(progress.run);
  while (progress.run.wake.wait() != Event::Wake::kSet) {
  }
  watches.remove(progress.run);
  return progress.done.is_set();
}

void wait_for_end(Progress& progress) {
  const GilRelease no_gil;
  while (progress.done.wait() != Event::Wake::kSet) {
  }
}

}  // namespace

Ref<PyHandle> event_loop_of_node(Build& build) {
  Ref<Object>& shared = build.scope().shared("event_loop." + build.node_name());
  if (!shared) {
    const Owned module = checked(PyImport_ImportModule("hami.event_loop"));
    const std::string& node = build.node_name();
    shared = make_ref<PyHandle>(
        checked(PyObject_CallMethod(module.get(), "NodeLoop", "s", node.c_str())).detach());
  }
  return Ref<PyHandle>(static_cast<PyHandle*>(shared.get()));
}

PyObject* run_on_loop(PyObject* loop, PyObject* forward, PyObject* list, Batch batch,
                      RunWatches& watches) {
  auto progress = std::make_shared<Progress>();
  progress->run.batch = batch;
  const py::cpp_function on_end([progress] {
    progress->done.set();
    progress->run.wake.set();
  });
  const Owned run(survive_finalization(
      [&] { return PyObject_CallMethod(loop, "start", "OOO", forward, list, on_end.ptr()); }));
  if (!run) return nullptr;
  if (!wait_while_wanted(*progress, watches)) {
    const Owned cancelled(
        survive_finalization([&] { return PyObject_CallMethod(run.get(), "cancel", nullptr); }));
    if (!cancelled) PyErr_Clear();
    wait_for_end(*progress);
  }
  return survive_finalization([&] { return PyObject_CallMethod(run.get(), "outcome", nullptr); });
}

}  // namespace hami::bind
