#include "core/value.h"

#include "core/dict.h"
#include "core/tensor.h"

namespace hami {

Value::Value(Ref<Tensor> tensor) : kind_(Kind::kTensor), object_(std::move(tensor)) {}
Value::Value(Ref<List> list) : kind_(Kind::kList), object_(std::move(list)) {}
Value::Value(Ref<Table> table) : kind_(Kind::kTable), object_(std::move(table)) {}

Tensor& Value::as_tensor() const noexcept { return *static_cast<Tensor*>(object_.get()); }
const List& Value::as_list() const noexcept { return *static_cast<List*>(object_.get()); }
const Table& Value::as_table() const noexcept { return *static_cast<Table*>(object_.get()); }

std::string Value::type_name() const {
  switch (kind_) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kStr:
      return "str";
    case Kind::kBytes:
      return "bytes";
    case Kind::kTensor:
      return as_tensor().describe();
    case Kind::kList:
      return "list";
    case Kind::kTable:
      return "dict";
    case Kind::kAny:
      return as_any().type_name();
  }
  return "unknown";
}

}  // namespace hami
