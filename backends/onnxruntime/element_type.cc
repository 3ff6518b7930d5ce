#include "backends/onnxruntime/element_type.h"

#include <algorithm>
#include <array>

namespace hami::onnxruntime {
namespace {

struct Row {
  const char* name;
  std::optional<DType> dtype;
};

// The code of a type is its place in this list.
const std::array<Row, 25>& table() {
  static const std::array<Row, 25> rows{{
      {"undefined", {}},
      {"float", DType{DType::kFloat, 32}},
      {"uint8", DType{DType::kUInt, 8}},
      {"int8", DType{DType::kInt, 8}},
      {"uint16", DType{DType::kUInt, 16}},
      {"int16", DType{DType::kInt, 16}},
      {"int32", DType{DType::kInt, 32}},
      {"int64", DType{DType::kInt, 64}},
      {"string", {}},
      {"bool", DType{DType::kBool, 8}},
      {"float16", DType{DType::kFloat, 16}},
      {"double", DType{DType::kFloat, 64}},
      {"uint32", DType{DType::kUInt, 32}},
      {"uint64", DType{DType::kUInt, 64}},
      {"complex64", DType{DType::kComplex, 64}},
      {"complex128", DType{DType::kComplex, 128}},
      {"bfloat16", DType{DType::kBfloat, 16}},
      {"float8e4m3fn", {}},
      {"float8e4m3fnuz", {}},
      {"float8e5m2", {}},
      {"float8e5m2fnuz", {}},
      {"uint4", {}},
      {"int4", {}},
      {"float4e2m1", {}},
      {"float8e8m0", {}},
  }};
  return rows;
}

}  // namespace

std::optional<DType> dtype_of(int element_type) {
  const auto code = static_cast<size_t>(element_type);
  return code < table().size() ? table()[code].dtype : std::nullopt;
}

int element_type_of(DType dtype) {
  const auto found = std::ranges::find(table(), std::optional(dtype), &Row::dtype);
  return static_cast<int>(found - table().begin());
}

std::string element_type_name(int element_type) {
  const auto code = static_cast<size_t>(element_type);
  return code < table().size() ? table()[code].name : "type " + std::to_string(element_type);
}

}  // namespace hami::onnxruntime
