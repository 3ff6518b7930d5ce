// `Occupied`: the note of a thread that it holds an instance of a node while user code runs on it.
// A call from there that needs the same node would wait for itself. Each thread reads its own.
#pragma once

#include <string>

#include "plan/scope.h"

namespace hami {

class Occupied {
 public:
  // REQUIRES: both outlive the scope.
  Occupied(const PipelineLoad& pipeline, const std::string& node);
  ~Occupied();
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;

  // The instance that this thread took last, or null; `outer` leads to those it held before.
  static const Occupied* innermost() noexcept;
  const Occupied* outer() const noexcept { return outer_; }

  bool is_of(const PipelineLoad& pipeline) const noexcept { return &pipeline_ == &pipeline; }
  const std::string& node() const noexcept { return node_; }

 private:
  const PipelineLoad& pipeline_;
  const std::string& node_;
  const Occupied* const outer_;
};

}  // namespace hami
