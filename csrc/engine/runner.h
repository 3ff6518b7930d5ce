// `Runner`: from checked items to results. It gathers the rows of the items into one array per
// input, runs the model once, and hands every item its rows of the outputs as views. One instance
// owns it and uses it on one thread at a time.
#pragma once

#include <memory>
#include <span>

#include "engine/inputs.h"
#include "engine/model.h"

namespace hami::engine {

class Runner {
 public:
  Runner(std::unique_ptr<Model> model, Ref<const EngineDescription> description);

  // Whether something of the model belongs to a whole run instead of to rows: items that shared a
  // run would then see each other. Can become true when a run shows it.
  bool runs_items_alone() const;

  // Sets the results of `group`, whose arrays agree in everything but the rows, in one run where
  // the model allows it. The error of one item stays with it; that of several is thrown.
  void run(std::span<const ItemInputs> group);

 private:
  void run_alone(std::span<const ItemInputs> group);
  void run_together(std::span<const ItemInputs> group);
  std::vector<Ref<Tensor>> gather_and_run(std::span<const ItemInputs> group, int64_t num_rows);
  Ref<Tensor> gather(size_t input, std::span<const ItemInputs> group, int64_t num_rows);
  Ref<Tensor> gather_on_device(size_t input, std::span<const ItemInputs> group, Shape shape);
  // Memory of at least that size, kept from run to run.
  Ref<Tensor> buffer(size_t input, size_t size_bytes);
  void hand_out(std::span<const Ref<Tensor>> results, std::span<const ItemInputs> group,
                const std::vector<bool>& has_rows) const;
  // By output: whether axis 0 counts rows, as far as is known now.
  std::vector<bool> outputs_with_rows() const;

  std::unique_ptr<Model> model_;
  Ref<const EngineDescription> description_;
  std::vector<Key> output_keys_;
  std::vector<Ref<Tensor>> buffers_;  // by input: memory for gathering, kept from run to run
  bool has_whole_inputs_ = false;
};

}  // namespace hami::engine
