// submit and return: a caller's dict becomes a request, and an answered request goes back into the
// dict. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include <optional>

#include "graph/pipeline.h"
#include "graph/pipeline_target.h"

namespace hami::bind {

// Takes the keys that the pipeline reads out of the dict, and drops a stale `result` from it.
// With `only_node` it is for that node alone. Throws a request error for wrong reserved keys.
Ref<Request> read_request(const std::shared_ptr<Pipeline>& pipeline, PyObject* dict,
                          std::optional<int> only_node = {});

// The same for a dict of which many requests are made; it is left as it is.
LoadSample read_sample(const Pipeline& pipeline, PyObject* dict);

// Moves what the nodes wrote into the dict. REQUIRES: answered without an error.
void write_output(Request& request, PyObject* dict);

}  // namespace hami::bind
