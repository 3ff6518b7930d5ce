// A run of `async def forward`: the coroutine runs on the event loop of its node, and the thread of
// the instance waits for it without the GIL. When nobody wants the batch any more the coroutine is
// cancelled.
#pragma once

#include <Python.h>

#include "bind/owned.h"
#include "plan/build.h"

namespace hami::bind {

// The event loop of the node that is being built, made by its first instance. Needs the GIL.
Ref<PyHandle> event_loop_of_node(Build& build);

// Runs `forward(list)` on `loop` and returns what it returned, or null with a Python error set.
// REQUIRES: the GIL, which is given away meanwhile.
PyObject* run_on_loop(PyObject* loop, PyObject* forward, PyObject* list, Batch batch,
                      RunWatches& watches);

}  // namespace hami::bind
