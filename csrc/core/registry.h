// The table of backend classes. Classes are process-wide and are never taken away; instances live
// in the Scope of one pipeline. Each class of the core is declared beside its code with
// HAMI_REGISTER, and nobody includes its header; those of plugins come later, on any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/param.h"

namespace hami {

class Build;  // plan/build.h: one expression on its way to a live backend

struct BackendClass {
  std::string name;
  std::string family;  // the folder that holds it: `flow`, `wiring`, `onnxruntime`, ...
  std::string doc;
  std::vector<Param> params = {};
  int min_children = 0;
  int max_children = 0;  // -1: any number
  bool is_operator = false;
  bool is_hidden = false;
  bool is_condition = false;  // derives from Condition, so it may stand in a prefix
  std::string extra = "";     // the optional dependency group it needs, if any
  std::string home = "";      // the file of the plugin that it came with, if it did
  std::function<std::shared_ptr<Backend>(Build&)> create = {};
};

class Registry {
 public:
  static Registry& instance();

  // REQUIRES: called during static initialisation; names are unique.
  void add(BackendClass backend_class);
  // Adds all of them, or none where one has the name of another: returns the class that has it, or
  // null.
  const BackendClass* add_all(std::vector<BackendClass> classes);
  // The class of this name, or null.
  const BackendClass* find(std::string_view name) const;
  // All classes, by name.
  std::vector<const BackendClass*> all() const;

 private:
  const BackendClass* find_locked(std::string_view name) const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<BackendClass>> classes_;
};

// Builds an instance of a host-language class; set once by the binding.
using HostFactory = std::shared_ptr<Backend> (*)(Build&);
void set_host_factory(HostFactory factory);
HostFactory host_factory();

struct Registration {
  explicit Registration(BackendClass backend_class) {
    Registry::instance().add(std::move(backend_class));
  }
};

// Registers `Class(Build&)` under its own name. The rest are designated initialisers of
// BackendClass, beginning with `.family`.
#define HAMI_REGISTER(Class, ...)                                              \
  static const ::hami::Registration registration_of_##Class {                  \
    ::hami::BackendClass {                                                     \
      .name = #Class, __VA_ARGS__,                                             \
      .create = [](::hami::Build& build) -> std::shared_ptr<::hami::Backend> { \
        return std::make_shared<Class>(build);                                 \
      }                                                                        \
    }                                                                          \
  }

}  // namespace hami
