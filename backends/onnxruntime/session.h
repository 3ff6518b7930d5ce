// `Session`: one loaded model. All instances of a model with the same options share it, so that
// its weights are in memory once; running it is safe on any number of threads.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/onnxruntime/library.h"
#include "core/tensor.h"

namespace hami::onnxruntime {

struct SessionOptions {
  std::string model;  // path of the file
  int intra_op_threads = 1;
  std::string optimization = "all";  // off, basic, extended or all
  int cuda_device = -1;              // its number; -1: the CPU
};

// An input or output as the model declares it.
struct Port {
  std::string name;
  std::optional<DType> dtype;  // nothing where no array holds it, see `type_name`
  std::string type_name;       // ONNX's word
  Shape shape;                 // -1 where dynamic
};

class Session {
 public:
  // The session of this model and these options: a living one, or a new one. Throws build errors
  // that name the file.
  static std::shared_ptr<Session> open(const SessionOptions& options);

  explicit Session(const SessionOptions& options);

  const std::vector<Port>& inputs() const noexcept { return inputs_; }
  const std::vector<Port>& outputs() const noexcept { return outputs_; }

  // Runs the model on one contiguous array of the CPU per input. The results, one for each index of
  // `outputs`, own their memory and share none with the inputs. Throws a request error with the
  // engine's message.
  std::vector<Ref<Tensor>> run(std::span<const Ref<Tensor>> inputs,
                               std::span<const size_t> outputs) const;

  // What runs have shown: axis 0 of this output does not count the rows of the input.
  bool is_known_whole(size_t output) const noexcept {
    return is_known_whole_[output].load(std::memory_order_relaxed);
  }
  void learn_whole(size_t output) const noexcept {
    is_known_whole_[output].store(true, std::memory_order_relaxed);
  }

 private:
  Ref<Tensor> take(Handle<OrtValue> value, std::span<const Ref<Tensor>> inputs) const;

  const Library& library_;
  Handle<OrtSession> session_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<const char*> input_names_;
  std::unique_ptr<std::atomic<bool>[]> is_known_whole_;
};

}  // namespace hami::onnxruntime
