#include "graph/control_operator.h"

#include <algorithm>

namespace hami {

void ControlOperator::start(std::span<Task* const> tasks) {
  for (Task* task : tasks) {
    try {
      start_one(*task);
    } catch (...) {
      task->error = std::current_exception();
      task->finish();
    }
  }
}

bool ControlOperator::start_bounded(std::span<Task* const> tasks) {
  if (!has_room()) return false;
  start(tasks);
  return true;
}

bool ControlOperator::has_room() const noexcept {
  return std::ranges::all_of(downstreams_, [](const Operator* next) { return next->has_room(); });
}

void ControlOperator::reconsider() noexcept {
  for (Operator* upstream : upstreams_) upstream->reconsider();
}

}  // namespace hami
