#include "plugin/loader.h"

#include <dlfcn.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/registry.h"
#include "plugin/declarations.h"
#include "plugin/host.h"
#include "plugin/library_file.h"

namespace hami::plugin {
namespace {

[[noreturn]] void refuse(ErrorKind kind, const char* code, const std::string& path,
                         std::string message, std::string help) {
  throw Error(kind, code, std::move(message), std::move(help), path);
}

// A library that is closed again unless it is kept.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(open_whole(path)) {
    if (handle_ != nullptr) return;
    const char* const error = dlerror();
    const std::string reason = error == nullptr ? "no reason is given" : error;
    refuse(ErrorKind::kConfig, "plugin-unloadable", path, "it cannot be loaded: " + reason,
           reason.find("undefined symbol") != std::string::npos
               ? "link the plugin with the library that defines this symbol"
               : "install what it needs, or give the plugin an rpath to it");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  void* handle() const noexcept { return handle_; }
  void keep() noexcept { handle_ = nullptr; }

 private:
  static void* open_whole(const std::string& path) {
    const std::string problem = problem_of_library(path);
    if (!problem.empty()) {
      refuse(ErrorKind::kConfig, "plugin-unloadable", path, "it cannot be loaded: " + problem,
             "give the shared library that the build of the plugin made");
    }
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }

  void* handle_;
};

std::string version_text(uint32_t major, uint32_t minor) {
  return backticked(std::to_string(major) + "." + std::to_string(minor));
}

const hami_plugin& describe(const Library& library, const std::string& path) {
  const auto ask =
      reinterpret_cast<hami_plugin_describe_function>(dlsym(library.handle(), HAMI_PLUGIN_SYMBOL));
  if (ask == nullptr) {
    refuse(ErrorKind::kConfig, "plugin-no-symbol", path,
           "this shared library is no plugin: it has no symbol `" HAMI_PLUGIN_SYMBOL "`",
           "register a backend in it with `HAMI_REGISTER_BACKEND`");
  }
  const hami_plugin* const plugin = ask();
  if (plugin == nullptr || plugin->size < offsetof(hami_plugin, host_size)) {
    refuse(ErrorKind::kConfig, "plugin-declaration", path, "its table has no version",
           "build it with the headers of `hami.get_include()`");
  }
  return *plugin;
}

void check_version(const hami_plugin& plugin, const std::string& path) {
  const std::string versions =
      "it was built for version " + version_text(plugin.abi_major, plugin.abi_minor) +
      " of the plugin border, and this hami has " + version_text(HAMI_ABI_MAJOR, HAMI_ABI_MINOR);
  if (plugin.abi_major > HAMI_ABI_MAJOR) {
    refuse(ErrorKind::kConfig, "plugin-abi", path, versions,
           "upgrade hami-core, or build the plugin with the headers of `hami.get_include()`");
  }
  if (plugin.abi_major < HAMI_ABI_MAJOR) {
    refuse(ErrorKind::kConfig, "plugin-abi", path, versions,
           "build the plugin again, with the headers of `hami.get_include()`");
  }
  if (plugin.size < offsetof(hami_plugin, num_classes) + sizeof(plugin.num_classes)) {
    refuse(ErrorKind::kConfig, "plugin-declaration", path, "its table ends before its backends",
           "build it with the headers of `hami.get_include()`");
  }
  if (plugin.host_size > sizeof(hami_host)) {
    refuse(ErrorKind::kConfig, "plugin-abi", path,
           versions + ", which lacks functions that it needs",
           "upgrade hami-core, or build the plugin with the headers of `hami.get_include()`");
  }
}

void open(const hami_plugin& plugin, const std::string& path) {
  if (plugin.open == nullptr) return;
  hami_status status = HAMI_FAILED;
  try {
    status = plugin.open(&host());
  } catch (...) {
    status = HAMI_FAILED;  // its table is C, what throws behind it need not be
  }
  if (status != HAMI_OK) {
    refuse(ErrorKind::kConfig, "plugin-open", path,
           "its `open` failed with status " + std::to_string(status),
           "look at what the plugin prepares there");
  }
}

[[noreturn]] void refuse_name(const std::string& name, const std::string& owner,
                              const std::string& path) {
  const std::string whose = owner.empty() ? "of hami" : "of the plugin " + backticked(owner);
  refuse(ErrorKind::kConfig, "plugin-duplicate-class", path,
         "it declares the backend " + backticked(name) + ", which is already one " + whose,
         "give it another name; a plugin that was built anew is loaded by a new process");
}

void add_classes(std::vector<BackendClass> classes, const std::string& path,
                 const std::set<std::string>& taken) {
  for (const BackendClass& added : classes) {
    const BackendClass* const known = Registry::instance().find(added.name);
    if (known != nullptr) refuse_name(added.name, known->home, path);
    if (taken.contains(added.name)) {
      refuse(ErrorKind::kConfig, "plugin-duplicate-class", path,
             "it declares the backend " + backticked(added.name) +
                 ", which is a name of the language or of a backend in Python",
             "give it another name");
    }
  }
  const BackendClass* const known = Registry::instance().add_all(std::move(classes));
  if (known != nullptr) refuse_name(known->name, known->home, path);
}

}  // namespace

Loaded load(const std::string& path, const std::set<std::string>& taken) {
  static std::mutex mutex;
  static auto* const loaded = new std::map<void*, Loaded>();
  std::lock_guard lock(mutex);
  Library library(path);
  if (const auto known = loaded->find(library.handle()); known != loaded->end()) {
    Loaded again = known->second;
    again.is_new = false;
    return again;
  }
  const hami_plugin& plugin = describe(library, path);
  check_version(plugin, path);
  open(plugin, path);
  std::vector<BackendClass> classes = classes_of(plugin, path);
  Loaded added{.name = classes.front().family, .is_new = true};
  for (const BackendClass& one : classes) added.classes.push_back(one.name);
  add_classes(std::move(classes), path, taken);
  loaded->emplace(library.handle(), added);
  library.keep();
  return added;
}

}  // namespace hami::plugin
