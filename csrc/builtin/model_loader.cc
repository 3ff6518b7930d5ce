// `ModelLoader[(.onnx)A, (.trt)B]`: makes the one child whose prefix is the suffix of the model's
// file. Wiring only: it builds to that child.
#include "core/error.h"
#include "plan/build.h"

namespace hami {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& character : result) {
    if (character >= 'A' && character <= 'Z') character = static_cast<char>(character - 'A' + 'a');
  }
  return result;
}

// The last part of the file's name that begins with a dot, or nothing.
std::string suffix_of(const std::string& path) {
  const size_t name = path.find_last_of('/') + 1;
  const size_t dot = path.find_last_of('.');
  return dot == std::string::npos || dot <= name ? "" : lower(path.substr(dot));
}

std::shared_ptr<Backend> create_model_loader(Build& build) {
  const std::string model(build.params().get_str("model"));
  const std::string suffix = suffix_of(model);
  std::string known;
  for (size_t i = 0; i < build.num_children(); ++i) {
    const std::string& prefix = build.expr().children[i].prefix;
    if (lower(prefix) == suffix && !suffix.empty()) return build.child(i);
    if (prefix.starts_with('.')) known += (known.empty() ? "" : ", ") + backticked(prefix);
  }
  throw Error(
      ErrorKind::kBuild, "model-suffix",
      "no loader is for the suffix " + backticked(suffix) + " of the model " + backticked(model),
      known.empty() ? "write a suffix in front of a loader: `(.onnx)Onnx2Tensorrt`"
                    : "name a file with one of " + known + ", or add a loader for it");
}

const Registration registration{BackendClass{
    .name = "ModelLoader",
    .family = "wiring",
    .doc = "Makes the child whose prefix, such as `(.onnx)`, is the suffix of `model`.",
    .params =
        {{.name = "model", .type = "path", .doc = "the file of the model", .is_required = true}},
    .min_children = 1,
    .max_children = -1,
    .create = create_model_loader}};

}  // namespace
}  // namespace hami
