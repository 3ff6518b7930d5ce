// What a backend declares, and the tables of abi.h that are made of it. Part of hami/hami.h.
#pragma once

#include <hami/backend.h>

#include <memory>

#ifndef HAMI_PLUGIN_NAME
#define HAMI_PLUGIN_NAME "plugin"  // the family under which `hami backends` lists what is in it
#endif

namespace hami {
inline namespace api {

// A default in a declaration: a bool, a number or a text that lives for ever.
class Default {
 public:
  Default() = default;
  // NOLINTBEGIN(google-explicit-constructor): defaults are written as what they are
  template <class T>
    requires std::is_arithmetic_v<T>
  Default(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      value_.kind = HAMI_BOOL;
      value_.integer = number ? 1 : 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_.kind = HAMI_FLOAT;
      value_.real = static_cast<double>(number);
    } else {
      value_.kind = HAMI_INT;
      value_.integer = static_cast<int64_t>(number);
    }
  }
  Default(const char* text) {
    value_.kind = HAMI_STR;
    value_.text = detail::text(text);
  }
  // NOLINTEND
  const hami_value& raw() const noexcept { return value_; }

 private:
  hami_value value_{};
};

// One parameter. Checks, suggestions, `hami backends` and `hami check` follow from it.
struct Param {
  const char* name = "";
  const char* type = "any";  // int, float, bool, str, path, list (of texts) or any
  const char* doc = "";
  Default default_value = {};  // without one, and not required: None
  bool is_required = false;
  const char* unit = "";
  std::optional<double> min = {};
  std::optional<double> max = {};
  std::vector<const char*> choices = {};
};

struct Declaration {
  const char* name = nullptr;  // null: that of the class
  const char* doc = "";
  std::vector<Param> params = {};
  // The keys that it reads. None: `data`.
  std::vector<const char*> reads = {};
  // How deep lists and dicts are opened; what lies deeper is opaque.
  int container_depth = 1;
  bool is_reentrant = false;
  bool is_idempotent = true;
};

namespace detail {

// Runs `work`, and turns what it throws into a status and words.
template <class Work>
hami_status guarded(hami_call* call, Work work) noexcept {
  const auto explain = [call](bool is_request, const char* message, const std::string& help) {
    host().explain(call, is_request ? 1 : 0, text(message), text(help));
    return hami_status{HAMI_FAILED};
  };
  try {
    work();
    return HAMI_OK;
  } catch (const std::bad_alloc&) {
    return HAMI_NO_MEMORY;
  } catch (const RequestError& error) {
    return explain(true, error.what(), error.help());
  } catch (const Error& error) {
    return explain(false, error.what(), error.help());
  } catch (const std::exception& error) {
    return explain(false, error.what(), {});
  } catch (...) {
    return explain(false, "it threw something that is no std::exception", {});
  }
}

template <class Class>
hami_status create(const void*, hami_call* call, const hami_dict* params,
                   void** out_instance) noexcept {
  return guarded(call, [&] {
    std::unique_ptr<Backend> backend = std::make_unique<Class>();
    backend->set_place(std::string(view(host().node_name(call))), host().instance_index(call));
    backend->init(Params(params));
    *out_instance = backend.release();
  });
}

inline void destroy(void* instance) noexcept { delete static_cast<Backend*>(instance); }

inline hami_status forward(void* instance, hami_call* call) noexcept {
  return guarded(call, [&] {
    Batch batch(call);
    static_cast<Backend*>(instance)->forward(batch);
  });
}

inline hami_status batch_range(void* instance, hami_call* call, int64_t* min,
                               int64_t* max) noexcept {
  return guarded(call, [&] {
    const BatchRange range = static_cast<Backend*>(instance)->batch_range();
    *min = range.min;
    *max = range.max;
  });
}

// A declaration in the form of abi.h. It never moves, since the tables point into each other.
class ClassTable {
 public:
  ClassTable(const char* class_name, Declaration declaration,
             decltype(hami_backend_class::create) create)
      : declaration_(std::move(declaration)) {
    for (const Param& param : declaration_.params) params_.push_back(table_of(param));
    for (const hami_param& param : params_) param_pointers_.push_back(&param);
    table_.size = sizeof(table_);
    table_.name = declaration_.name == nullptr ? class_name : declaration_.name;
    table_.doc = declaration_.doc;
    table_.params = param_pointers_.data();
    table_.num_params = param_pointers_.size();
    table_.create = create;
    table_.destroy = &destroy;
    table_.forward = &forward;
    table_.batch_range = &batch_range;
    table_.traits = (declaration_.is_reentrant ? uint64_t{HAMI_REENTRANT} : 0) |
                    (declaration_.is_idempotent ? 0 : uint64_t{HAMI_NOT_IDEMPOTENT});
    table_.reads = declaration_.reads.data();
    table_.num_reads = declaration_.reads.size();
    table_.container_depth = declaration_.container_depth;
  }
  ClassTable(const ClassTable&) = delete;
  ClassTable& operator=(const ClassTable&) = delete;
  const hami_backend_class* table() const noexcept { return &table_; }

 private:
  static hami_param table_of(const Param& param) {
    hami_param table{};
    table.size = sizeof(table);
    table.name = param.name;
    table.type = param.type;
    table.doc = param.doc;
    table.unit = param.unit;
    table.default_value = param.default_value.raw();
    table.is_required = param.is_required ? 1 : 0;
    table.has_min = param.min ? 1 : 0;
    table.has_max = param.max ? 1 : 0;
    table.min = param.min.value_or(0);
    table.max = param.max.value_or(0);
    table.choices = param.choices.data();
    table.num_choices = param.choices.size();
    return table;
  }

  const Declaration declaration_;
  std::vector<hami_param> params_;
  std::vector<const hami_param*> param_pointers_;
  hami_backend_class table_{};
};

[[gnu::visibility("hidden")]] inline std::vector<const hami_backend_class*>& registered() {
  static std::vector<const hami_backend_class*> classes;
  return classes;
}

template <class Class>
class Registration {
 public:
  Registration(const char* class_name, Declaration declaration)
      : table_(class_name, std::move(declaration), &create<Class>) {
    registered().push_back(table_.table());
  }

 private:
  ClassTable table_;
};

inline hami_status open(const hami_host* given) noexcept {
  the_host = given;
  return HAMI_OK;
}

[[gnu::visibility("hidden")]] inline const hami_plugin* plugin_table() {
  static hami_plugin table{};
  table.size = sizeof(table);
  table.abi_major = HAMI_ABI_MAJOR;
  table.abi_minor = HAMI_ABI_MINOR;
  table.host_size = sizeof(hami_host);
  table.name = HAMI_PLUGIN_NAME;
  table.open = &open;
  table.classes = registered().data();
  table.num_classes = registered().size();
  return &table;
}

}  // namespace detail
}  // namespace api
}  // namespace hami
