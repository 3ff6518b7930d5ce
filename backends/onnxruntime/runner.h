// `Runner`: from checked items to results. It gathers the rows of the items into one array per
// input, runs the model once, and hands every item its rows of the outputs as views. One instance
// owns it and uses it on one thread at a time.
#pragma once

#include <span>

#include "backends/onnxruntime/inputs.h"
#include "backends/onnxruntime/session.h"

namespace hami::onnxruntime {

class Runner {
 public:
  // `outputs` are the indices of the session's outputs that `model` describes.
  Runner(std::shared_ptr<const Session> session, Ref<const EngineDescription> model,
         std::vector<size_t> outputs);

  // Whether something of the model belongs to a whole run instead of to rows: items that shared a
  // run would then see each other. Can become true when a run shows it.
  bool runs_items_alone() const;

  // Sets the results of `group`, whose arrays agree in everything but the rows, in one run where
  // the model allows it. The error of one item stays with it; that of several is thrown.
  void run(std::span<const ItemInputs> group);

 private:
  void run_alone(std::span<const ItemInputs> group);
  void run_together(std::span<const ItemInputs> group);
  Feed gather(size_t input, std::span<const ItemInputs> group, int64_t num_rows);
  void hand_out(std::span<const Ref<Tensor>> results, std::span<const ItemInputs> group,
                const std::vector<bool>& has_rows) const;
  // By output: whether axis 0 counts rows, as far as is known now.
  std::vector<bool> outputs_with_rows() const;

  std::shared_ptr<const Session> session_;
  Ref<const EngineDescription> model_;
  std::vector<size_t> outputs_;
  std::vector<Key> output_keys_;
  std::vector<int> element_types_;    // by input
  std::vector<Ref<Tensor>> buffers_;  // by input: memory for gathering, kept from run to run
  bool has_whole_inputs_ = false;
};

}  // namespace hami::onnxruntime
