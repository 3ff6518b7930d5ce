#include "core/registry.h"

#include <algorithm>
#include <cassert>

namespace hami {
namespace {
HostFactory the_host_factory = nullptr;
}  // namespace

Registry& Registry::instance() {
  static auto* const registry = new Registry();
  return *registry;
}

void Registry::add(BackendClass backend_class) {
  std::lock_guard lock(mutex_);
  assert(find_locked(backend_class.name) == nullptr && "two backend classes of one name");
  classes_.push_back(std::make_unique<BackendClass>(std::move(backend_class)));
}

const BackendClass* Registry::add_all(std::vector<BackendClass> classes) {
  std::lock_guard lock(mutex_);
  for (const BackendClass& added : classes) {
    if (const BackendClass* known = find_locked(added.name)) return known;
  }
  for (BackendClass& added : classes) {
    classes_.push_back(std::make_unique<BackendClass>(std::move(added)));
  }
  return nullptr;
}

const BackendClass* Registry::find(std::string_view name) const {
  std::lock_guard lock(mutex_);
  return find_locked(name);
}

std::vector<const BackendClass*> Registry::all() const {
  std::vector<const BackendClass*> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& known : classes_) all.push_back(known.get());
  }
  std::ranges::sort(all, {}, &BackendClass::name);
  return all;
}

const BackendClass* Registry::find_locked(std::string_view name) const {
  auto found =
      std::ranges::find_if(classes_, [&](const auto& known) { return known->name == name; });
  return found == classes_.end() ? nullptr : found->get();
}

void set_host_factory(HostFactory factory) { the_host_factory = factory; }
HostFactory host_factory() { return the_host_factory; }

}  // namespace hami
