// submit and return: a caller's dict becomes a request, and an answered request goes back into the
// dict. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include "graph/pipeline.h"

namespace hami::bind {

// Takes the keys that the pipeline reads out of the dict, and drops a stale `result` from it.
// Throws a request error for wrong reserved keys.
Ref<Request> read_request(const std::shared_ptr<Pipeline>& pipeline, PyObject* dict);

// Moves what the nodes wrote into the dict. REQUIRES: answered without an error.
void write_output(Request& request, PyObject* dict);

}  // namespace hami::bind
