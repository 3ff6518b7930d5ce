#include "plan/scope.h"

#include "core/error.h"

namespace hami {

void Scope::add(const std::string& name, std::shared_ptr<Backend> backend) {
  if (!backends_.emplace(name, std::move(backend)).second) {
    throw Error(ErrorKind::kBuild, "build-duplicate-instance",
                "an instance named " + backticked(name) + " is registered twice in this pipeline",
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

std::shared_ptr<Queue> Scope::default_queue(const std::string& name) {
  NamedQueue& named = queues_[name];
  if (named.queue == nullptr) named.queue = std::make_shared<Queue>();
  return named.queue;
}

std::shared_ptr<Queue> Scope::declare_queue(const std::string& name, size_t capacity) {
  auto queue = default_queue(name);
  NamedQueue& named = queues_[name];
  if (named.is_declared && queue->capacity() != capacity) {
    throw Error(ErrorKind::kBuild, "build-queue-capacity",
                "queue " + backticked(name) + " has capacity " +
                    backticked(std::to_string(capacity)) + " here and " +
                    backticked(std::to_string(queue->capacity())) + " elsewhere",
                "give it one capacity, or the second queue another name");
  }
  queue->set_capacity(capacity);
  named.is_declared = true;
  return queue;
}

std::vector<std::shared_ptr<Queue>> Scope::queues() const {
  std::vector<std::shared_ptr<Queue>> queues;
  for (const auto& [name, named] : queues_) queues.push_back(named.queue);
  return queues;
}

}  // namespace hami
