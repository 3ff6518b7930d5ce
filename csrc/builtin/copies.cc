#include "builtin/copies.h"

#include <algorithm>
#include <ranges>

#include "core/error.h"

namespace hami {
namespace {

// Looks for backends that the expression does not make itself but only names.
class SharedParts {
 public:
  explicit SharedParts(const BuildContext& context) : context_(context) {}

  // `made` are the names bound within the expression.
  void refuse_in(const Expr& expr, std::vector<std::string> made = {}) const {
    if (expr.kind != Expr::Kind::kCreate) {
      const auto backend = find(expr, made);
      if (backend != nullptr && !backend->is_shareable()) refuse(expr);
      return;
    }
    if (expr.condition != nullptr) refuse_in(*expr.condition, made);
    for (size_t i = 0; i < expr.children.size(); ++i) {
      refuse_in(expr.children[i], made);
      if (i < expr.num_phase1) made.push_back(expr.children[i].name);
    }
  }

 private:
  std::shared_ptr<Backend> find(const Expr& expr, const std::vector<std::string>& made) const {
    if (expr.kind == Expr::Kind::kInstance) return context_.scope.find(expr.name);
    if (std::ranges::find(made, expr.name) != made.end()) return nullptr;
    for (const auto& [name, backend] : context_.bound | std::views::reverse) {
      if (name == expr.name) return backend;
    }
    return nullptr;
  }

  [[noreturn]] static void refuse(const Expr& expr) {
    throw Error(ErrorKind::kBuild, "build-shared-copies",
                "copies would all call the one " + backticked(expr.name) +
                    ", which takes one call at a time",
                "make it inside the copies: write its expression there instead of its name",
                expr.where);
  }

  const BuildContext& context_;
};

}  // namespace

Backends build_copies(Build& build, size_t num_copies) {
  const Expr& expr = build.expr().children[0];
  if (num_copies > 1) SharedParts(build.context()).refuse_in(expr);
  const auto first = static_cast<size_t>(build.instance_index()) * num_copies;
  Backends copies;
  for (size_t i = 0; i < num_copies; ++i) {
    BuildContext context{.scope = build.scope(),
                         .node_name = build.node_name(),
                         .node_params = build.node_params(),
                         .instance_index = static_cast<int>(first + i),
                         .bound = build.context().bound};
    copies.push_back(hami::build(expr, context));
  }
  return copies;
}

}  // namespace hami
