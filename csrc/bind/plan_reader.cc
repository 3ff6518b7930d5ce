#include "bind/plan_reader.h"

#include <limits>
#include <string>

#include "bind/convert.h"
#include "bind/gil.h"
#include "core/registry.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// Deep enough for any list or table in a TOML file.
constexpr int kParamDepth = 64;

Key read_key(py::handle name) { return Key::intern(py::cast<std::string>(name)); }

Dict read_params(const py::dict& params) {
  Dict values;
  for (const auto& [name, value] : params) {
    values.put(read_key(name), to_value(value.ptr(), kParamDepth));
  }
  return values;
}

Expr read_expr(const py::dict& data) {
  Expr expr;
  expr.name = py::cast<std::string>(data["class"]);
  const auto kind = py::cast<std::string>(data["kind"]);
  expr.kind = kind == "bound"      ? Expr::Kind::kBound
              : kind == "instance" ? Expr::Kind::kInstance
                                   : Expr::Kind::kCreate;
  expr.params = read_params(data["params"]);
  for (py::handle child : py::list(data["children"])) {
    expr.children.push_back(read_expr(py::reinterpret_borrow<py::dict>(child)));
  }
  expr.num_phase1 = py::cast<size_t>(data["num_phase1"]);
  if (!data["prefix"].is_none()) expr.prefix = py::cast<std::string>(data["prefix"]);
  if (!data["condition"].is_none()) {
    expr.condition = std::make_shared<Expr>(read_expr(py::dict(data["condition"])));
  }
  expr.is_condition = py::cast<bool>(data["is_condition"]);
  expr.where = py::cast<std::string>(data["where"]);
  if (!data["python"].is_none()) expr.host = hold(py::object(data["python"]).ptr());
  return expr;
}

std::vector<int> read_ints(py::handle list) {
  std::vector<int> ints;
  for (py::handle element : py::reinterpret_borrow<py::sequence>(list)) {
    ints.push_back(py::cast<int>(element));
  }
  return ints;
}

std::vector<MapEdge> read_map(py::handle map) {
  std::vector<MapEdge> edges;
  for (py::handle row : py::reinterpret_borrow<py::sequence>(map)) {
    const auto edge = py::reinterpret_borrow<py::sequence>(row);
    edges.push_back({py::cast<int>(edge[0]), read_key(edge[1]), read_key(edge[2])});
  }
  return edges;
}

NodePlan read_node(const py::dict& data) {
  NodePlan node;
  node.name = py::cast<std::string>(data["name"]);
  node.expr = read_expr(data["expr"]);
  node.params = read_params(data["params"]);
  node.region = py::cast<int>(data["region"]);
  node.next = read_ints(data["next"]);
  if (!data["map"].is_none()) node.map = read_map(data["map"]);
  node.is_or = py::cast<bool>(data["or"]);
  if (!data["foreach_target"].is_none()) {
    node.foreach_target = py::cast<int>(data["foreach_target"]);
  }
  if (!data["restart_at"].is_none()) node.restart_at = py::cast<int>(data["restart_at"]);
  return node;
}

PipelineSettings read_settings(const py::dict& data) {
  PipelineSettings settings;
  if (!data["max_in_flight"].is_none()) {
    settings.max_in_flight = py::cast<int64_t>(data["max_in_flight"]);
  }
  if (!data["deadline_ms"].is_none()) settings.deadline_ms = py::cast<double>(data["deadline_ms"]);
  settings.priority = py::cast<int64_t>(data["priority"]);
  return settings;
}

py::dict declare(const Param& param) {
  py::dict row;
  row["name"] = param.name;
  row["type"] = param.type;
  row["doc"] = param.doc;
  row["required"] = param.is_required;
  row["unit"] = param.unit;
  if (!param.default_value.is_none()) {
    row["default"] = py::reinterpret_steal<py::object>(from_value(param.default_value));
  }
  if (param.min) row["min"] = *param.min;
  if (param.max) row["max"] = *param.max;
  if (!param.choices.empty()) {
    py::list choices;
    for (const std::string& choice : param.choices) choices.append(choice);
    row["choices"] = choices;
  }
  return row;
}

}  // namespace

Plan read_plan(const py::dict& data) {
  Plan plan;
  for (py::handle node : py::list(data["nodes"])) {
    plan.nodes.push_back(read_node(py::reinterpret_borrow<py::dict>(node)));
  }
  for (py::handle row : py::list(data["regions"])) {
    const auto region = py::reinterpret_borrow<py::dict>(row);
    plan.regions.push_back({read_ints(region["roots"]), py::cast<int>(region["output"])});
  }
  plan.settings = read_settings(data["settings"]);
  plan.settings.fans_out_to_roots = !data["fanout"].is_none();
  return plan;
}

py::list declarations() {
  py::list rows;
  for (const BackendClass* backend_class : Registry::instance().all()) {
    py::list params;
    for (const Param& param : backend_class->params) params.append(declare(param));
    py::dict row;
    row["name"] = backend_class->name;
    row["doc"] = backend_class->doc;
    row["family"] = backend_class->family;
    row["extra"] = backend_class->extra;
    row["params"] = params;
    row["min_children"] = backend_class->min_children;
    row["max_children"] = backend_class->max_children;
    row["is_operator"] = backend_class->is_operator;
    row["is_hidden"] = backend_class->is_hidden;
    row["is_condition"] = backend_class->is_condition;
    rows.append(row);
  }
  return rows;
}

}  // namespace hami::bind
