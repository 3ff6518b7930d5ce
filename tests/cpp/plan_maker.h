// Plans written in C++, as the planner in Python would hand them over.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/registry.h"
#include "graph/pipeline.h"
#include "plan/expr.h"

namespace hami {

// An expression with the declared defaults, overridden by `params`.
inline Expr make_expr(const std::string& name, std::vector<Expr> children = {},
                      std::vector<std::pair<std::string, Value>> params = {}) {
  Expr expr;
  expr.name = name;
  expr.children = std::move(children);
  for (const Param& param : Registry::instance().find(name)->params) {
    expr.params.put(Key::intern(param.name), param.default_value);
  }
  for (auto& [key, value] : params) expr.params.put(Key::intern(key), std::move(value));
  return expr;
}

// The default node entrypoint around a backend.
inline Expr make_node_expr(const std::string& node, Expr backend, int64_t max = 1,
                           int64_t num_instances = 1, double timeout_ms = 4) {
  const auto text = [](const std::string& value) { return Value::str(value); };
  Expr thread = make_expr("BackgroundThread", {std::move(backend)}, {{"max", Value(max)}});
  Expr instances = make_expr("InstancesRegister", {std::move(thread)},
                             {{"name", text(node)}, {"instance_num", Value(num_instances)}});
  Expr injection =
      make_expr("DI", {make_expr("Batching", {}, {{"batching_timeout", Value(timeout_ms)}}),
                       make_expr("InstanceDispatcher")});
  Expr entry = make_expr("Register", {std::move(injection)}, {{"name", text("node." + node)}});
  return make_expr("List", {std::move(instances), std::move(entry)});
}

class PlanMaker {
 public:
  // Adds a node and returns its index. REQUIRES: in topological order.
  int add(const std::string& name, const std::string& backend, std::vector<int> predecessors = {}) {
    return add_expr(name, make_node_expr(name, make_expr(backend)), std::move(predecessors));
  }
  int add_expr(const std::string& name, Expr expr, std::vector<int> predecessors = {},
               int region = 0) {
    const int index = static_cast<int>(plan.nodes.size());
    NodePlan node;
    node.name = name;
    node.expr = std::move(expr);
    node.region = region;
    plan.nodes.push_back(std::move(node));
    for (int predecessor : predecessors) at(predecessor).next.push_back(index);
    while (plan.regions.size() <= static_cast<size_t>(region)) plan.regions.emplace_back();
    auto& known = plan.regions[static_cast<size_t>(region)];
    if (predecessors.empty()) known.roots.push_back(index);
    known.output = index;
    return index;
  }
  NodePlan& at(int index) { return plan.nodes[static_cast<size_t>(index)]; }

  // `{{source, "key", "as"}, ...}`
  struct Mapped {
    int source;
    std::string source_key;
    std::string key;
  };
  void map(int node, const std::vector<Mapped>& rows) {
    at(node).map.emplace();
    for (const Mapped& row : rows) {
      at(node).map->push_back({row.source, Key::intern(row.source_key), Key::intern(row.key)});
    }
  }

  std::shared_ptr<Pipeline> build() { return Pipeline::create(plan); }

  Plan plan;
};

// Submits one request that may run in place, and waits.
inline Ref<Request> run(const std::shared_ptr<Pipeline>& pipeline, Value data,
                        bool may_run_inline = true) {
  auto request = make_ref<Request>(pipeline, 0);
  request->input.put(keys::data, std::move(data));
  request->may_run_inline = may_run_inline;
  const Ref<Request> requests[] = {request};
  pipeline->submit(requests);
  while (request->answered.wait() != Event::Wake::kSet) {
  }
  return request;
}

inline int64_t result_of(const Ref<Request>& request) {
  const Value* result = request->output.find(keys::result);
  return request->error != nullptr || result == nullptr ? -1 : result->as_int();
}

inline std::string code_of(const std::exception_ptr& error) {
  try {
    if (error != nullptr) std::rethrow_exception(error);
  } catch (const Error& own) {
    return own.code();
  } catch (...) {
    return "foreign";
  }
  return "";
}

}  // namespace hami
