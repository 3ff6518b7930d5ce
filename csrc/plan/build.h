// `build`: an expression becomes a live backend. `Build` is what a backend's constructor gets: its
// parameters, its children, and the surroundings it is built in. Runs on the thread that creates
// the pipeline; nothing here is used once requests flow.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/condition.h"
#include "core/param.h"
#include "core/registry.h"
#include "plan/expr.h"
#include "plan/scope.h"

namespace hami {

// The surroundings of an expression: one per instance, with a frame per enclosing IoC.
struct BuildContext {
  Scope& scope;
  std::string node_name;
  const Dict& node_params;
  int instance_index = 0;
  // Shared by everything that one instance builds, so that an engine can describe itself to its
  // neighbours.
  Ref<Table> options = make_ref<Table>();
  // What the enclosing IoCs bound by name, innermost last.
  std::vector<std::pair<std::string, std::shared_ptr<Backend>>> bound = {};
};

class Build {
 public:
  Build(const Expr& expr, BuildContext& context)
      : expr_(expr), context_(context), params_(expr.params) {}

  const Expr& expr() const noexcept { return expr_; }
  const Params& params() const noexcept { return params_; }
  const std::string& where() const noexcept { return expr_.where; }
  const std::string& node_name() const noexcept { return context_.node_name; }
  const Dict& node_params() const noexcept { return context_.node_params; }
  int instance_index() const noexcept { return context_.instance_index; }
  Dict& options() noexcept { return context_.options->dict; }
  // The same, to be kept by a backend that reads what its neighbours wrote while building.
  const Ref<Table>& shared_options() const noexcept { return context_.options; }
  Scope& scope() noexcept { return context_.scope; }
  BuildContext& context() noexcept { return context_; }

  size_t num_children() const noexcept { return expr_.children.size(); }
  std::shared_ptr<Backend> child(size_t index);
  std::vector<std::shared_ptr<Backend>> children();
  // The condition in the prefix of a child; null when it has none.
  std::shared_ptr<Condition> condition(size_t index);

 private:
  const Expr& expr_;
  BuildContext& context_;
  Params params_;
};

// Makes the backend that `expr` describes. Throws what its constructor throws; the core's own
// errors name `expr.where`.
std::shared_ptr<Backend> build(const Expr& expr, BuildContext& context);

}  // namespace hami
