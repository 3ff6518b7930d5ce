#include "backends/onnxruntime/onnx_infer.h"

#include "backends/onnxruntime/describe.h"
#include "core/error.h"
#include "core/registry.h"

namespace hami::onnxruntime {
namespace {

// The chosen outputs of a session that several instances may share.
class SessionModel final : public engine::Model {
 public:
  SessionModel(std::shared_ptr<const Session> session, std::vector<size_t> outputs)
      : session_(std::move(session)), outputs_(std::move(outputs)) {}

  std::vector<Ref<Tensor>> run(std::span<const Ref<Tensor>> inputs) override {
    return session_->run(inputs, outputs_);
  }
  // Never asked for: the description names no device.
  Ref<Tensor> join(std::span<const engine::DevicePart> parts, int64_t /*num_rows*/) override {
    return parts[0].tensor;
  }
  bool is_known_whole(size_t output) const noexcept override {
    return session_->is_known_whole(outputs_[output]);
  }
  void learn_whole(size_t output) noexcept override { session_->learn_whole(outputs_[output]); }

 private:
  std::shared_ptr<const Session> session_;
  std::vector<size_t> outputs_;
};

std::vector<std::string> read_names(const Params& params, std::string_view name) {
  std::vector<std::string> names;
  for (const Value& element : params.get_list(name)) {
    if (!element.is(Value::Kind::kStr)) {
      throw Error(ErrorKind::kBuild, "build-param",
                  backticked(name) + " must list names, got " + backticked(element.type_name()),
                  "write names between quotes");
    }
    names.emplace_back(element.as_text());
  }
  return names;
}

// The number of a CUDA device, or -1 for `cpu`.
int read_device(const std::string& name) {
  if (name == "cpu") return -1;
  const std::string number = name == "cuda" ? "0" : name.starts_with("cuda:") ? name.substr(5) : "";
  const bool is_number = !number.empty() && number.size() < 4 &&
                         number.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) return std::stoi(number);
  throw Error(ErrorKind::kBuild, "device-name", backticked(name) + " is no device",
              "write `cpu`, `cuda`, or `cuda:1` for the second GPU");
}

OnnxInferOptions read_options(const Params& params) {
  OnnxInferOptions options;
  options.session.model = params.get_str("model");
  options.session.intra_op_threads = static_cast<int>(params.get_int("intra_op_threads"));
  options.session.optimization = params.get_str("optimization");
  options.session.cuda_device = read_device(params.get_str("device"));
  options.rows.min = params.find_int("min");
  options.rows.max = params.find_int("max");
  options.outputs = read_names(params, "outputs");
  options.has_batch_axis = params.get_bool("has_batch_axis");
  return options;
}

}  // namespace

OnnxInfer::OnnxInfer(Build& build) : OnnxInfer(read_options(build.params())) {
  EngineDescription::publish(build.options(), description());
}

OnnxInfer::OnnxInfer(const OnnxInferOptions& options)
    : OnnxInfer(options, Session::open(options.session)) {}

OnnxInfer::OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session)
    : OnnxInfer(options, session, select_outputs(*session, options.outputs)) {}

OnnxInfer::OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session,
                     std::vector<size_t> outputs)
    : EngineBackend(std::make_unique<SessionModel>(session, outputs),
                    describe(*session, outputs, options.has_batch_axis), options.rows,
                    options.session.model) {}

HAMI_REGISTER(
    OnnxInfer, .family = "onnxruntime",
    .doc = "Run an ONNX model with ONNX Runtime; `data` in, `result` out.",
    .params =
        {
            {.name = "model", .type = "path", .doc = "the ONNX file", .is_required = true},
            {.name = "max",
             .type = "int",
             .doc = "the most rows of one run; default: the model's own fixed batch, else 1",
             .min = 1},
            {.name = "min",
             .type = "int",
             .doc = "the fewest rows of one run; fewer wait for company",
             .min = 1},
            {.name = "intra_op_threads",
             .type = "int",
             .doc = "threads of one run; several instances beat one wide run on a CPU",
             .default_value = Value(int64_t{1}),
             .min = 1,
             .max = 1024},
            {.name = "outputs",
             .type = "list",
             .doc = "the names of the outputs to compute; default: all"},
            {.name = "has_batch_axis",
             .type = "bool",
             .doc =
                 "whether axis 0 of the model is the batch; false: every item runs alone, and its "
                 "arrays go in and come out as they are",
             .default_value = Value(true)},
            {.name = "optimization",
             .type = "str",
             .doc = "how much the engine rewrites the graph",
             .default_value = Value::str("all"),
             .choices = {"off", "basic", "extended", "all"}},
            {.name = "device",
             .type = "str",
             .doc = "`cpu`, or `cuda` and `cuda:1` with the package onnxruntime-gpu",
             .default_value = Value::str("cpu")},
        },
    .extra = "onnx");

}  // namespace hami::onnxruntime
