#include "bind/trace_rows.h"

#include <pybind11/stl.h>

#include <optional>

#include "bind/gil.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// How Python's `struct` reads a TraceRecord.
constexpr const char* kLayout = "<BBxxii4xqqQQq";

int64_t to_ns(TimePoint time) { return time.time_since_epoch().count(); }

template <class Enum>
py::list names_of(size_t count) {
  py::list names;
  for (size_t i = 0; i < count; ++i) names.append(to_string(static_cast<Enum>(i)));
  return names;
}

}  // namespace

py::object stop_and_list(Trace& trace) {
  std::optional<TraceRecording> recording;
  {
    const GilRelease no_gil;
    recording = trace.stop();
  }
  if (!recording) return py::none();
  py::list threads;
  for (const TraceRecording::Thread& thread : recording->threads) {
    const auto* bytes = reinterpret_cast<const char*>(thread.records.data());
    threads.append(py::make_tuple(thread.number, thread.native_id, thread.handle, thread.name,
                                  py::bytes(bytes, thread.records.size() * sizeof(TraceRecord))));
  }
  py::dict rows;
  rows["threads"] = threads;
  rows["layout"] = kLayout;
  rows["kinds"] = names_of<TraceKind>(kNumTraceKinds);
  rows["outcomes"] = names_of<TraceOutcome>(kNumTraceOutcomes);
  rows["nodes"] = trace.nodes();
  rows["dropped"] = recording->num_dropped;
  rows["begin_ns"] = to_ns(recording->begin);
  rows["end_ns"] = to_ns(recording->end);
  return rows;
}

}  // namespace hami::bind
