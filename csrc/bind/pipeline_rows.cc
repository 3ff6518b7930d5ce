#include "bind/pipeline_rows.h"

#include <cmath>
#include <string>
#include <vector>

#include "bind/gil.h"
#include "core/description.h"
#include "schedule/node_stats.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

py::dict to_dict(const Percentiles& percentiles, bool with_buckets = false) {
  py::dict dict;
  dict["count"] = percentiles.count;
  dict["p50"] = percentiles.p50_ms;
  dict["p90"] = percentiles.p90_ms;
  dict["p99"] = percentiles.p99_ms;
  dict["max"] = percentiles.max_ms;
  if (with_buckets) {
    py::dict buckets;
    for (const auto& [below_ms, count] : percentiles.buckets) buckets[py::float_(below_ms)] = count;
    dict["sum"] = percentiles.sum_ms;
    dict["buckets"] = buckets;
  }
  return dict;
}

py::dict to_dict(const RunFigures& figures) {
  py::dict dict;
  dict["backend"] = figures.backend;
  dict["instance"] = figures.instance;
  dict["items"] = figures.num_items;
  dict["rows"] = figures.num_rows;
  dict["raised"] = figures.num_raised;
  dict["run_ms"] = to_dict(figures.run);
  return dict;
}

// What was a whole number in Python is one again.
py::object to_number(double value) {
  constexpr double kLargestExact = 9007199254740992.0;
  if (std::trunc(value) == value && std::abs(value) <= kLargestExact) {
    return py::int_(static_cast<int64_t>(value));
  }
  return py::float_(value);
}

py::dict to_row(const NodeStats& node, bool with_buckets) {
  py::dict batch_rows;
  for (const auto& [rows, count] : node.batch_rows) batch_rows[py::int_(rows)] = count;
  py::dict releases;
  for (const auto& [reason, count] : node.releases) releases[py::str(reason)] = count;
  py::list profiles;
  for (const RunFigures& figures : node.profiles) profiles.append(to_dict(figures));
  py::dict backend;
  for (const auto& [name, value] : node.backend) backend[py::str(name)] = to_number(value);
  py::dict row;
  row["node"] = node.node;
  row["waiting"] = node.num_waiting;
  row["items"] = node.num_items;
  row["errors"] = node.num_errors;
  row["dropped"] = node.num_dropped;
  row["instances"] = node.num_instances;
  row["busy"] = node.num_busy;
  row["hung"] = node.num_hung;
  row["batch_rows"] = batch_rows;
  row["releases"] = releases;
  row["wait_ms"] = to_dict(node.wait, with_buckets);
  row["run_ms"] = to_dict(node.run, with_buckets);
  row["profiles"] = profiles;
  row["backend"] = backend;
  return row;
}

py::object to_tuples(const std::vector<TensorSpec>& specs) {
  py::list tuples;
  for (const TensorSpec& spec : specs) {
    py::list shape;
    for (int64_t extent : spec.shape) shape.append(extent);
    tuples.append(py::make_tuple(spec.name, spec.dtype.name(), py::tuple(shape), spec.has_rows));
  }
  return tuples;
}

}  // namespace

py::list stats_of(const Pipeline& pipeline, bool with_buckets) {
  std::vector<NodeStats> all;
  {
    const GilRelease no_gil;
    all = pipeline.stats();
  }
  py::list rows;
  for (const NodeStats& node : all) rows.append(to_row(node, with_buckets));
  return rows;
}

py::list problems_of(const Pipeline& pipeline) {
  std::vector<std::string> all;
  {
    const GilRelease no_gil;
    all = pipeline.problems();
  }
  py::list problems;
  for (const std::string& problem : all) problems.append(problem);
  return problems;
}

py::list ports_of(const Pipeline& pipeline) {
  py::list rows;
  for (size_t i = 0; i < pipeline.num_nodes(); ++i) {
    const auto index = static_cast<int>(i);
    const Ends ends = pipeline.node(index).entry->ends();
    py::dict row;
    row["node"] = pipeline.node(index).plan->name;
    row["inputs"] = ends.first == nullptr ? py::none() : to_tuples(ends.first->inputs);
    row["outputs"] = ends.last == nullptr ? py::none() : to_tuples(ends.last->outputs);
    row["max_rows"] = pipeline.run_range(index).max;
    rows.append(row);
  }
  return rows;
}

}  // namespace hami::bind
