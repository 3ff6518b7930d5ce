// `Expr` and `Plan`: what the planner in Python hands over, checked and fully expanded. The core
// never parses text; everything here is read-only once built.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dict.h"

namespace hami {

// One backend of an expression, with its parameters resolved.
struct Expr {
  enum class Kind {
    kCreate,    // make a new backend of class `name`
    kBound,     // the one that phase 1 of the enclosing IoC made under `name`
    kInstance,  // the one registered in this pipeline under `name`
  };
  std::string name;
  Kind kind = Kind::kCreate;
  Dict params;
  std::vector<Expr> children;
  size_t num_phase1 = 0;  // IoC only: how many children belong to phase 1
  std::string prefix;     // `or`, `.onnx`, `big`, or empty
  // The condition that the prefix names, if it names one: it decides which items get here.
  std::shared_ptr<const Expr> condition;
  bool is_condition = false;  // of a host-language class: it answers yes or no
  std::string where;          // `pipeline.toml:9`, for errors while building
  Ref<Object> host;           // the host-language class, function or object, if it is one
};

// Where a mapped key comes from.
struct MapEdge {
  static constexpr int kInput = -1;
  int source = kInput;  // a node's index, or the caller's own keys
  Key source_key;
  Key key;
};

struct NodePlan {
  std::string name;
  Expr expr;
  Dict params;
  int region = 0;
  std::vector<int> next;
  std::optional<std::vector<MapEdge>> map;
  bool is_or = false;       // runs only where the predecessor gave no result
  int foreach_target = -1;  // the first node of the subgraph that a ForEach node enters
  int restart_at = -1;      // where a Restart leads that is given no name
};

// A graph with its own entries and one output: the main graph is region 0, each subgraph that a
// ForEach enters is a further one.
struct RegionPlan {
  std::vector<int> roots;
  int output = 0;
};

struct PipelineSettings {
  int64_t max_in_flight = 0;  // 0: no bound
  double deadline_ms = 0;     // 0: none
  int64_t priority = 0;
  bool fans_out_to_roots = false;
};

struct Plan {
  std::vector<NodePlan> nodes;  // each region in topological order
  std::vector<RegionPlan> regions;
  PipelineSettings settings;
};

}  // namespace hami
