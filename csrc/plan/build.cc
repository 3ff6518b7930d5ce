#include "plan/build.h"

#include <algorithm>
#include <ranges>

#include "core/error.h"

namespace hami {
namespace {

std::shared_ptr<Backend> find_bound(const Expr& expr, const BuildContext& context) {
  for (const auto& [name, backend] : context.bound | std::views::reverse) {
    if (name == expr.name) return backend;
  }
  throw Error(ErrorKind::kBuild, "build-unbound",
              backticked(expr.name) + " is not made in phase 1 of an enclosing IoC",
              "add it before the `;`");
}

std::shared_ptr<Backend> find_instance(const Expr& expr, const BuildContext& context) {
  if (auto backend = context.scope.find(expr.name)) return backend;
  throw Error(
      ErrorKind::kBuild, "build-unknown-instance",
      "no instance named " + backticked(expr.name) + " is registered in this pipeline",
      "register it before it is used, with `Register[...]` or `hami.register(name, object)`");
}

std::shared_ptr<Backend> create(const Expr& expr, BuildContext& context) {
  Build build(expr, context);
  if (expr.host) return host_factory()(build);
  const BackendClass* backend_class = Registry::instance().find(expr.name);
  if (backend_class == nullptr) {
    throw Error(ErrorKind::kBuild, "build-unknown-backend",
                "unknown backend " + backticked(expr.name), "see `hami backends`");
  }
  return backend_class->create(build);
}

}  // namespace

std::shared_ptr<Backend> Build::child(size_t index) {
  return build(expr_.children[index], context_);
}

std::vector<std::shared_ptr<Backend>> Build::children() {
  std::vector<std::shared_ptr<Backend>> children;
  for (const Expr& child : expr_.children) children.push_back(build(child, context_));
  return children;
}

std::shared_ptr<Condition> Build::condition(size_t index) {
  const Expr& child = expr_.children[index];
  if (child.condition == nullptr) return nullptr;
  auto condition = std::dynamic_pointer_cast<Condition>(build(*child.condition, context_));
  if (condition == nullptr) {
    throw Error(ErrorKind::kBuild, "build-no-condition",
                backticked(child.condition->name) + " in front of " + backticked(child.name) +
                    " is no condition",
                "see `hami backends` for those that are", child.where);
  }
  return condition;
}

std::shared_ptr<Backend> build(const Expr& expr, BuildContext& context) {
  try {
    switch (expr.kind) {
      case Expr::Kind::kBound:
        return find_bound(expr, context);
      case Expr::Kind::kInstance:
        return find_instance(expr, context);
      case Expr::Kind::kCreate:
        break;
    }
    return create(expr, context);
  } catch (const Error& error) {
    throw error.at(expr.where);
  }
}

}  // namespace hami
