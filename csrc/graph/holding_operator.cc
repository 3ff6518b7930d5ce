#include "graph/holding_operator.h"

#include <algorithm>

namespace hami {

HoldingOperator::HoldingOperator(Build& build)
    : node_name_(build.node_name()),
      backend_name_(build.expr().name),
      capacity_(build.params().get_int("queue_capacity")) {}

void HoldingOperator::start(std::span<Task* const> tasks) {
  num_here_.fetch_add(std::ssize(tasks), std::memory_order_acq_rel);
  start_reserved(tasks);
}

bool HoldingOperator::start_bounded(std::span<Task* const> tasks) {
  if (!reserve(tasks.size())) return false;
  start_reserved(tasks);
  return true;
}

bool HoldingOperator::reserve(size_t num_tasks) {
  if (!has_room_downstream()) return false;
  const auto count = static_cast<int64_t>(num_tasks);
  int64_t num_here = num_here_.load(std::memory_order_acquire);
  do {
    if (num_here + count > capacity_) return false;
  } while (!num_here_.compare_exchange_weak(num_here, num_here + count));
  return true;
}

void HoldingOperator::leave(size_t num_tasks) noexcept {
  const auto count = static_cast<int64_t>(num_tasks);
  const int64_t num_before = num_here_.fetch_sub(count, std::memory_order_acq_rel);
  if (num_before >= capacity_ && num_before - count < capacity_) reconsider();
}

bool HoldingOperator::has_room_downstream() const noexcept {
  return std::ranges::all_of(downstreams_, [](const Operator* next) { return next->has_room(); });
}

bool HoldingOperator::has_room() const noexcept {
  return num_here_.load(std::memory_order_acquire) < capacity_ && has_room_downstream();
}

void HoldingOperator::reconsider() noexcept {
  for (Operator* upstream : upstreams_) upstream->reconsider();
}

}  // namespace hami
