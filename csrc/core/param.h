// `Param`: the one declaration of a backend's parameter. Validation, suggestions, `hami backends`
// and the reference page all derive from it. The planner has checked every value before the core
// sees it, so reading one cannot fail for a user's mistake.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/dict.h"

namespace hami {

struct Param {
  std::string name;
  std::string type;  // int, float, bool, str, path, list (of texts) or any
  std::string doc;
  Value default_value = {};
  bool is_required = false;
  std::string unit = "";
  std::optional<double> min = {};
  std::optional<double> max = {};
  std::vector<std::string> choices = {};
};

// The parameters of one backend, by name. REQUIRES for the getters: the parameter is declared
// with the type asked for; an unset one (None) gives an empty optional.
class Params {
 public:
  explicit Params(const Dict& values) : values_(values) {}

  int64_t get_int(std::string_view name) const;
  double get_float(std::string_view name) const;
  bool get_bool(std::string_view name) const;
  std::string get_str(std::string_view name) const;
  // The elements of a list; none when it is unset.
  std::vector<Value> get_list(std::string_view name) const;
  bool is_set(std::string_view name) const;
  std::optional<int64_t> find_int(std::string_view name) const;
  std::optional<double> find_float(std::string_view name) const;
  std::optional<std::string> find_str(std::string_view name) const;
  const Dict& values() const noexcept { return values_; }

 private:
  const Value* find(std::string_view name) const;
  const Dict& values_;
};

}  // namespace hami
