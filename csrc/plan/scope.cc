#include "plan/scope.h"

#include "core/error.h"

namespace hami {

void Scope::add(const std::string& name, std::shared_ptr<Backend> backend) {
  if (!backends_.emplace(name, std::move(backend)).second) {
    throw Error(ErrorKind::kBuild, "build-duplicate-instance",
                "an instance named " + quoted(name) + " is registered twice in this pipeline",
                "register each name once");
  }
}

std::shared_ptr<Backend> Scope::find(const std::string& name) const {
  auto found = backends_.find(name);
  return found == backends_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Backend>> Scope::find_indexed(const std::string& prefix) const {
  std::vector<std::shared_ptr<Backend>> found;
  while (auto backend = find(prefix + "." + std::to_string(found.size()))) {
    found.push_back(std::move(backend));
  }
  return found;
}

}  // namespace hami
