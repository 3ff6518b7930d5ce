// `OnnxInfer`: the engine backend of ONNX Runtime. Load, describe, run a batch; without the GIL
// and without Python. Inputs, rows and results follow the rules of all engines (README.md here).
#pragma once

#include <string>
#include <vector>

#include "backends/onnxruntime/runner.h"
#include "plan/build.h"

namespace hami::onnxruntime {

struct OnnxInferOptions {
  SessionOptions session;
  std::optional<int64_t> min = {};
  std::optional<int64_t> max = {};
  std::vector<std::string> outputs = {};  // empty: all
  bool has_batch_axis = true;
};

class OnnxInfer final : public Backend {
 public:
  explicit OnnxInfer(Build& build);
  explicit OnnxInfer(const OnnxInferOptions& options);

  void forward(Batch batch) override;
  BatchRange batch_range() const override { return range_; }
  size_t group_of(const Item& item) const override;
  int container_depth() const override { return model_->inputs.size() > 1 ? 1 : 0; }

  const Ref<EngineDescription>& description() const noexcept { return model_; }

 private:
  OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session);
  OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session,
            std::vector<size_t> outputs);
  bool may_join(std::span<const ItemInputs> group, const ItemInputs& inputs) const;

  Ref<EngineDescription> model_;
  Runner runner_;
  BatchRange range_;
};

}  // namespace hami::onnxruntime
