#include "core/param.h"

#include "core/error.h"

namespace hami {
namespace {

[[noreturn]] void refuse(std::string_view name, const char* expected, const Value* value) {
  throw Error(ErrorKind::kBuild, "build-param",
              "parameter " + backticked(name) + " must be " + expected + ", got " +
                  backticked(value == nullptr ? "nothing" : value->type_name()),
              "see `hami backends NAME` for its type");
}

}  // namespace

const Value* Params::find(std::string_view name) const {
  for (const auto& entry : values_) {
    if (entry.key.text() == name) return entry.value.is_none() ? nullptr : &entry.value;
  }
  return nullptr;
}

bool Params::is_set(std::string_view name) const { return find(name) != nullptr; }

std::optional<int64_t> Params::find_int(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (!value->is(Value::Kind::kInt)) refuse(name, "an integer", value);
  return value->as_int();
}

std::optional<double> Params::find_float(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (value->is(Value::Kind::kInt)) return static_cast<double>(value->as_int());
  if (!value->is(Value::Kind::kFloat)) refuse(name, "a number", value);
  return value->as_float();
}

std::optional<std::string> Params::find_str(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (!value->is(Value::Kind::kStr)) refuse(name, "text", value);
  return std::string(value->as_text());
}

int64_t Params::get_int(std::string_view name) const {
  auto value = find_int(name);
  if (!value) refuse(name, "an integer", nullptr);
  return *value;
}

double Params::get_float(std::string_view name) const {
  auto value = find_float(name);
  if (!value) refuse(name, "a number", nullptr);
  return *value;
}

bool Params::get_bool(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr || !value->is(Value::Kind::kBool)) refuse(name, "true or false", value);
  return value->as_bool();
}

std::string Params::get_str(std::string_view name) const {
  auto value = find_str(name);
  if (!value) refuse(name, "text", nullptr);
  return *value;
}

std::vector<Value> Params::get_list(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (!value->is(Value::Kind::kList)) refuse(name, "a list", value);
  return value->as_list().values;
}

}  // namespace hami
