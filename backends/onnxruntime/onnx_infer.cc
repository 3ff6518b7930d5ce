#include "backends/onnxruntime/onnx_infer.h"

#include <algorithm>

#include "backends/onnxruntime/describe.h"
#include "core/error.h"
#include "core/registry.h"

namespace hami::onnxruntime {
namespace {

[[noreturn]] void refuse(std::string message, std::string help) {
  throw Error(ErrorKind::kBuild, "model-batch", std::move(message), std::move(help));
}

BatchRange range_of(const OnnxInferOptions& options, const EngineDescription& model) {
  const int64_t model_rows = model.fixed_rows.value_or(1);
  const BatchRange range{options.min.value_or(1),
                         options.max.value_or(std::max(model_rows, options.min.value_or(1)))};
  if (range.is_empty()) {
    refuse("`min` is " + quoted(std::to_string(range.min)) + ", above the `max` of " +
               quoted(std::to_string(range.max)),
           "set `max` to at least `min`");
  }
  if (model.fixed_rows && range.max > model_rows) {
    refuse("`max` is " + quoted(std::to_string(range.max)) + ", but the model " +
               quoted(options.session.model) + " has a fixed batch of " +
               quoted(std::to_string(model_rows)),
           "set `max` to " + std::to_string(model_rows) +
               ", or export the model with a dynamic batch axis");
  }
  return range;
}

std::vector<std::string> read_names(const Params& params, std::string_view name) {
  std::vector<std::string> names;
  for (const Value& element : params.get_list(name)) {
    if (!element.is(Value::Kind::kStr)) {
      throw Error(ErrorKind::kBuild, "build-param",
                  quoted(name) + " must list names, got " + quoted(element.type_name()),
                  "write names between quotes");
    }
    names.emplace_back(element.as_text());
  }
  return names;
}

OnnxInferOptions read_options(const Params& params) {
  OnnxInferOptions options;
  options.session.model = params.get_str("model");
  options.session.intra_op_threads = static_cast<int>(params.get_int("intra_op_threads"));
  options.session.optimization = params.get_str("optimization");
  options.min = params.find_int("min");
  options.max = params.find_int("max");
  options.outputs = read_names(params, "outputs");
  options.has_batch_axis = params.get_bool("has_batch_axis");
  return options;
}

}  // namespace

OnnxInfer::OnnxInfer(Build& build) : OnnxInfer(read_options(build.params())) {
  EngineDescription::publish(build.options(), model_);
}

OnnxInfer::OnnxInfer(const OnnxInferOptions& options)
    : OnnxInfer(options, Session::open(options.session)) {}

OnnxInfer::OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session)
    : OnnxInfer(options, session, select_outputs(*session, options.outputs)) {}

OnnxInfer::OnnxInfer(const OnnxInferOptions& options, std::shared_ptr<const Session> session,
                     std::vector<size_t> outputs)
    : model_(describe(*session, outputs, options.has_batch_axis)),
      runner_(std::move(session), model_, std::move(outputs)),
      range_(range_of(options, *model_)) {}

void OnnxInfer::forward(Batch batch) {
  std::vector<ItemInputs> accepted;
  for_each_item(batch, [&](Item& item) { accepted.push_back(read_inputs(item, *model_)); });
  // Usually one group: others appear where an expression makes arrays of several shapes.
  std::vector<std::vector<ItemInputs>> groups;
  for (ItemInputs& inputs : accepted) {
    auto group = std::ranges::find_if(
        groups, [&](const auto& candidate) { return may_join(candidate, inputs); });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(std::move(inputs));
  }
  for (const auto& group : groups) runner_.run(group);
}

bool OnnxInfer::may_join(std::span<const ItemInputs> group, const ItemInputs& inputs) const {
  int64_t rows = inputs.rows;
  for (const ItemInputs& member : group) rows += member.rows;
  if (rows > range_.max || runner_.runs_items_alone()) return false;
  for (size_t i = 0; i < model_->inputs.size(); ++i) {
    const TensorSpec& spec = model_->inputs[i];
    if (!std::ranges::equal(row_shape(*group[0].tensors[i], spec),
                            row_shape(*inputs.tensors[i], spec))) {
      return false;
    }
  }
  return true;
}

size_t OnnxInfer::group_of(const Item& item) const {
  size_t group = 0;
  for (size_t i = 0; i < model_->inputs.size(); ++i) {
    const Tensor* tensor = find_input(item, *model_, i);
    if (tensor == nullptr) return 0;  // will be refused
    const TensorSpec& spec = model_->inputs[i];
    const bool has_batch_axis = spec.has_rows && tensor->rank() == spec.shape.size();
    for (int64_t extent : std::span(tensor->shape()).subspan(has_batch_axis ? 1 : 0)) {
      group = group * 1'000'003 + static_cast<size_t>(extent) + 1;
    }
    group = group * 1'000'003;
  }
  return group;
}

HAMI_REGISTER(
    OnnxInfer, .family = "onnxruntime",
    .doc = "Run an ONNX model with ONNX Runtime on the CPU; `data` in, `result` out.",
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
        },
    .extra = "onnx");

}  // namespace hami::onnxruntime
