// `EngineBackend`: what every engine is as a backend. It checks the items against the description,
// forms the groups that may share a run, and has a `Runner` run them; an engine adds how its model
// is loaded.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/backend.h"
#include "engine/runner.h"

namespace hami::engine {

// What a node asks for, where it does.
struct RowRange {
  std::optional<int64_t> min = {};
  std::optional<int64_t> max = {};
};

class EngineBackend : public Backend {
 public:
  // `name` is that of the model, for errors. Throws a build error where the range does not suit it.
  EngineBackend(std::unique_ptr<Model> model, Ref<EngineDescription> description,
                const RowRange& range, const std::string& name);

  void forward(Batch batch) override;
  BatchRange batch_range() const override { return range_; }
  size_t group_of(const Item& item) const override;
  int container_depth() const override { return description_->inputs.size() > 1 ? 1 : 0; }

  Ends ends() const override { return {description_.get(), description_.get()}; }

  const Ref<EngineDescription>& description() const noexcept { return description_; }

 private:
  bool may_join(std::span<const ItemInputs> group, const ItemInputs& inputs) const;

  Ref<EngineDescription> description_;
  Runner runner_;
  BatchRange range_;
};

}  // namespace hami::engine
