// What an engine says about its model: the names, types and shapes of its inputs and outputs. An
// engine publishes it under `engine` in the shared options of its expression, where FixTensor and
// the like find out what to cast and reshape to. It is immutable once published.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/dict.h"
#include "core/tensor.h"

namespace hami {

struct TensorSpec {
  std::string name;
  DType dtype;
  Shape shape;  // -1 where the model takes any extent
  // Whether axis 0 counts rows: an item may then also bring one row without that axis.
  bool has_rows = true;

  std::string describe() const { return dtype.name() + "[" + to_string(shape) + "]"; }
};

class EngineDescription final : public Any {
 public:
  std::string type_name() const override { return "engine description"; }

  // The description published in `options`, or null.
  static const EngineDescription* find(const Dict& options) {
    const Value* value = options.find(key());
    return value != nullptr && value->is(Value::Kind::kAny)
               ? dynamic_cast<const EngineDescription*>(&value->as_any())
               : nullptr;
  }
  static void publish(Dict& options, Ref<EngineDescription> description) {
    options.put(key(), Value(Ref<Any>(std::move(description))));
  }

  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // The rows of every run, for a model whose batch is not dynamic.
  std::optional<int64_t> fixed_rows;
  // Where arrays may lie beside the memory of the CPU.
  std::optional<Device> device;

  bool takes(Device where) const noexcept {
    return where.is_cpu() || (device.has_value() && *device == where);
  }

 private:
  static const Key& key() {
    static const Key engine = Key::intern("engine");
    return engine;
  }
};

}  // namespace hami
