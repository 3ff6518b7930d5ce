#include "bind/request_reader.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "bind/convert.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "core/error.h"

namespace hami::bind {
namespace {

Owned look_up(PyObject* dict, const Key& key) {
  return find_in(dict, checked(key_object(key)).get());
}

std::string repr(PyObject* object) {
  const Owned text(survive_finalization([&] { return PyObject_Repr(object); }));
  const char* characters = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  std::string shown = characters == nullptr ? Py_TYPE(object)->tp_name : characters;
  if (shown.size() > 100) shown = shown.substr(0, 100) + "...";
  return shown;
}

[[noreturn]] void refuse(const Key& key, PyObject* value, const char* expected) {
  throw Error(ErrorKind::kRequest, "request-reserved-key",
              backticked(key.text()) + " must be " + expected + ", got " + backticked(repr(value)),
              "correct it, or leave it out");
}

int64_t read_rows(PyObject* dict) {
  const Owned found = look_up(dict, keys::request_size);
  PyObject* const value = found.get();
  if (value == nullptr) return 1;
  int overflow = 0;
  const bool is_int = PyLong_Check(value) && !PyBool_Check(value);
  const int64_t rows = is_int ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
  if (rows < 1 || overflow != 0) refuse(keys::request_size, value, "an int of at least 1");
  return rows;
}

int64_t read_priority(PyObject* dict, int64_t default_priority) {
  const Owned found = look_up(dict, keys::priority);
  PyObject* const value = found.get();
  if (value == nullptr) return default_priority;
  int overflow = 0;
  if (!PyLong_Check(value)) refuse(keys::priority, value, "an int");
  const int64_t priority = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) refuse(keys::priority, value, "an int of 64 bits");
  return priority;
}

// How long until the deadline: the smaller of the dict's and the configuration's; the largest where
// there is none.
Duration read_time_limit(PyObject* dict, double default_ms) {
  const Owned found = look_up(dict, keys::deadline_ms);
  PyObject* const value = found.get();
  double deadline_ms = default_ms > 0 ? default_ms : HUGE_VAL;
  if (value != nullptr && value != Py_None) {
    const double asked = PyFloat_AsDouble(value);
    const bool is_number = PyErr_Occurred() == nullptr;
    PyErr_Clear();
    if (!is_number || std::isnan(asked) || asked < 0) {
      refuse(keys::deadline_ms, value, "a number of milliseconds, not negative");
    }
    deadline_ms = std::min(deadline_ms, asked);
  }
  // Thirty years: further away than any process lives is no deadline, and the clock's nanoseconds
  // would overflow before three hundred.
  constexpr double kNever = 1e12;
  if (deadline_ms >= kNever) return Duration::max();
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(deadline_ms));
}

int read_root(const Pipeline& pipeline, PyObject* dict) {
  const Owned found = look_up(dict, keys::node_name);
  PyObject* const value = found.get();
  if (value == nullptr || value == Py_None) return -1;
  if (!PyUnicode_Check(value)) refuse(keys::node_name, value, "the name of an entry node");
  Py_ssize_t size = 0;
  const char* name = PyUnicode_AsUTF8AndSize(value, &size);
  if (name == nullptr) {  // lone surrogates: no node can have such a name
    PyErr_Clear();
    refuse(keys::node_name, value, "the name of an entry node");
  }
  return pipeline.find_root({name, static_cast<size_t>(size)});
}

// Drops what an earlier call has left in the dict.
void drop_result(PyObject* dict) {
  const Owned result_name = checked(key_object(keys::result));
  const int has_stale_result = PyDict_Contains(dict, result_name.get());
  check(has_stale_result);
  if (has_stale_result == 0) return;
  check(PyDict_CheckExact(dict)
            ? PyDict_DelItem(dict, result_name.get())
            : survive_finalization([&] { return PyObject_DelItem(dict, result_name.get()); }));
}

// The keys that the pipeline reads.
void read_input(const Pipeline& pipeline, PyObject* dict, Dict& input) {
  input.reserve(pipeline.reads().size());
  for (const Key& key : pipeline.reads()) {
    if (key == keys::event) continue;  // it belongs to the caller
    if (const Owned value = look_up(dict, key)) {
      input.put(key, to_value(value.get(), pipeline.container_depth()));
    }
  }
}

// A copy of the whole dict, for backends of the host language.
Ref<Object> read_base(PyObject* dict, const Dict& input) {
  Owned base = checked(PyDict_Copy(dict));
  // The event belongs to the caller. The frame has `restart`, and loses it at a Restart; it must
  // not come back from here.
  for (const Key& key : {keys::event, keys::restart}) {
    const Owned name = checked(key_object(key));
    const int has_key = PyDict_Contains(base.get(), name.get());
    check(has_key);
    const bool is_in_frame = key == keys::restart && input.has(key);
    if (has_key != 0 && (key == keys::event || is_in_frame)) {
      check(PyDict_DelItem(base.get(), name.get()));
    }
  }
  return make_ref<PyHandle>(base.detach());
}

}  // namespace

Ref<Request> read_request(const std::shared_ptr<Pipeline>& pipeline, PyObject* dict,
                          std::optional<int> only_node) {
  auto request = make_ref<Request>(pipeline, 0);
  request->rows = read_rows(dict);
  request->priority = read_priority(dict, pipeline->settings().priority);
  const Duration time_limit = read_time_limit(dict, pipeline->settings().deadline_ms);
  if (time_limit != Duration::max()) request->deadline = Clock::now() + time_limit;
  request->root = only_node ? *only_node : read_root(*pipeline, dict);
  request->runs_alone = only_node.has_value();
  drop_result(dict);
  read_input(*pipeline, dict, request->input);
  if (pipeline->reads_everything()) request->base = read_base(dict, request->input);
  return request;
}

LoadSample read_sample(const Pipeline& pipeline, PyObject* dict) {
  const Owned own = checked(PyDict_Copy(dict));
  LoadSample sample;
  sample.rows = read_rows(own.get());
  sample.priority = read_priority(own.get(), pipeline.settings().priority);
  sample.time_limit = read_time_limit(own.get(), pipeline.settings().deadline_ms);
  sample.root = read_root(pipeline, own.get());
  drop_result(own.get());
  read_input(pipeline, own.get(), sample.input);
  if (pipeline.reads_everything()) sample.base = read_base(own.get(), sample.input);
  return sample;
}

void write_output(Request& request, PyObject* dict) {
  // Taken out of the request, which the thread that answered it may still hold for a moment: the
  // caller's objects must be free when the call returns.
  const Dict output = std::exchange(request.output, {});
  for (const auto& [key, value, written_at] : output) {
    const Owned name = checked(key_object(key));
    const Owned object = checked(from_value(value));
    // Subclasses such as OrderedDict keep books of their own.
    check(PyDict_CheckExact(dict) ? PyDict_SetItem(dict, name.get(), object.get())
                                  : survive_finalization([&] {
                                      return PyObject_SetItem(dict, name.get(), object.get());
                                    }));
  }
}

}  // namespace hami::bind
