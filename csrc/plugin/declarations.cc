#include "plugin/declarations.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>

#include "core/error.h"
#include "plugin/plugin_backend.h"
#include "plugin/values.h"

namespace hami::plugin {
namespace {

constexpr std::string_view kTypes[] = {"int", "float", "bool", "str", "path", "list", "any"};

class Reader {
 public:
  Reader(const hami_plugin& plugin, const std::string& path) : plugin_(plugin), path_(path) {}

  std::vector<BackendClass> read() const {
    if (plugin_.num_classes == 0 || plugin_.classes == nullptr) refuse("it declares no backend");
    std::vector<BackendClass> classes;
    for (uint64_t i = 0; i < plugin_.num_classes; ++i) {
      if (plugin_.classes[i] == nullptr) refuse("one of its backends has no table");
      BackendClass read = class_of(*plugin_.classes[i]);
      if (std::ranges::find(classes, read.name, &BackendClass::name) != classes.end()) {
        refuse("it declares " + backticked(read.name) + " twice");
      }
      classes.push_back(std::move(read));
    }
    return classes;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kConfig, "plugin-declaration", what,
                "correct the declaration in the plugin, and build it again", path_);
  }

  BackendClass class_of(const hami_backend_class& declared) const {
    constexpr size_t kNeeded = offsetof(hami_backend_class, batch_range);
    if (declared.size < kNeeded || declared.name == nullptr || !is_name(declared.name)) {
      refuse("one of its backends has no name");
    }
    if (declared.create == nullptr || declared.destroy == nullptr || declared.forward == nullptr) {
      refuse(backticked(declared.name) + " lacks `create`, `destroy` or `forward`");
    }
    BackendClass read{.name = declared.name, .family = family(), .doc = text_of(declared.doc)};
    read.home = path_;
    for (uint64_t i = 0; i < declared.num_params; ++i) {
      if (declared.params == nullptr || declared.params[i] == nullptr) {
        refuse("a parameter of " + backticked(read.name) + " has no table");
      }
      Param param = param_of(*declared.params[i], read.name);
      if (std::ranges::find(read.params, param.name, &Param::name) != read.params.end()) {
        refuse(backticked(read.name) + " declares `" + param.name + "` twice");
      }
      read.params.push_back(std::move(param));
    }
    const auto* const reads = HAMI_MEMBER(declared, reads);
    for (uint64_t i = 0; i < HAMI_MEMBER(declared, num_reads); ++i) {
      if (reads == nullptr || reads[i] == nullptr) {
        refuse("a key that " + backticked(read.name) + " reads has no name");
      }
    }
    read.create = [&declared](Build& build) -> std::shared_ptr<Backend> {
      return std::make_shared<PluginBackend>(build, declared);
    };
    return read;
  }

  Param param_of(const hami_param& declared, const std::string& backend) const {
    const std::string of = " of " + backticked(backend);
    if (declared.size < sizeof(hami_param) || declared.name == nullptr || !is_name(declared.name)) {
      refuse("a parameter" + of + " has no name");
    }
    Param param{
        .name = declared.name, .type = text_of(declared.type), .doc = text_of(declared.doc)};
    if (std::ranges::find(kTypes, param.type) == std::end(kTypes)) {
      refuse(backticked(param.name) + of + " has the type " + backticked(param.type) +
             ", which is none of int, float, bool, str, path, list and any");
    }
    param.unit = text_of(declared.unit);
    param.is_required = declared.is_required != 0;
    if (declared.has_min != 0) param.min = declared.min;
    if (declared.has_max != 0) param.max = declared.max;
    for (uint64_t i = 0; i < declared.num_choices; ++i) {
      if (declared.choices == nullptr || declared.choices[i] == nullptr) {
        refuse("a choice for " + backticked(param.name) + of + " has no text");
      }
      param.choices.emplace_back(declared.choices[i]);
    }
    param.default_value = default_of(declared, param, of);
    return param;
  }

  Value default_of(const hami_param& declared, const Param& param, const std::string& of) const {
    Value value;
    try {
      value = take(declared.default_value);
    } catch (const std::exception& error) {
      refuse("the default of " + backticked(param.name) + of + " is no value: " + error.what());
    }
    using Kind = Value::Kind;
    const Kind kind = value.kind();
    const bool fits = kind == Kind::kNone || param.type == "any" ||
                      (param.type == "int" && kind == Kind::kInt) ||
                      (param.type == "float" && (kind == Kind::kFloat || kind == Kind::kInt)) ||
                      (param.type == "bool" && kind == Kind::kBool) ||
                      ((param.type == "str" || param.type == "path") && kind == Kind::kStr);
    if (!fits) {
      refuse("the default of " + backticked(param.name) + of + " is of type " +
             backticked(value.type_name()) + ", and the parameter of type " +
             backticked(param.type));
    }
    return value;
  }

  std::string family() const {
    const std::string name = text_of(plugin_.name);
    return name.empty() ? "plugin" : name;
  }

  static std::string text_of(const char* text) { return text == nullptr ? "" : text; }

  // What an expression can write.
  static bool is_name(std::string_view name) {
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
    return !name.empty() && is_letter(name[0]) && std::ranges::all_of(name, is_part);
  }

  const hami_plugin& plugin_;
  const std::string& path_;
};

}  // namespace

std::vector<BackendClass> classes_of(const hami_plugin& plugin, const std::string& path) {
  return Reader(plugin, path).read();
}

}  // namespace hami::plugin
