// `OnnxInfer`: the engine backend of ONNX Runtime. Load, describe, run a batch; without the GIL
// and without Python. Inputs, rows and results follow the rules of all engines (README.md here).
#pragma once

#include <string>
#include <vector>

#include "backends/onnxruntime/session.h"
#include "engine/engine_backend.h"
#include "plan/build.h"

namespace hami::onnxruntime {

struct OnnxInferOptions {
  SessionOptions session;
  engine::RowRange rows = {};
  std::vector<std::string> outputs = {};  // empty: all
  bool has_batch_axis = true;
};

class OnnxInfer final : public engine::EngineBackend {
 public:
  explicit OnnxInfer(Build& build);
  explicit OnnxInfer(const OnnxInferOptions& options);

 private:
  OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session);
  OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session,
            std::vector<size_t> outputs);
};

}  // namespace hami::onnxruntime
