#include "bind/stats_rows.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

py::dict to_dict(const Percentiles& percentiles) {
  py::dict dict;
  dict["count"] = percentiles.count;
  dict["p50"] = percentiles.p50_ms;
  dict["p90"] = percentiles.p90_ms;
  dict["p99"] = percentiles.p99_ms;
  dict["max"] = percentiles.max_ms;
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

py::dict to_row(const NodeStats& node) {
  py::dict batch_rows;
  for (const auto& [rows, count] : node.batch_rows) batch_rows[py::int_(rows)] = count;
  py::dict releases;
  for (const auto& [reason, count] : node.releases) releases[py::str(reason)] = count;
  py::list profiles;
  for (const RunFigures& figures : node.profiles) profiles.append(to_dict(figures));
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
  row["wait_ms"] = to_dict(node.wait);
  row["run_ms"] = to_dict(node.run);
  row["profiles"] = profiles;
  return row;
}

}  // namespace

py::list to_rows(const std::vector<NodeStats>& nodes) {
  py::list rows;
  for (const NodeStats& node : nodes) rows.append(to_row(node));
  return rows;
}

}  // namespace hami::bind
