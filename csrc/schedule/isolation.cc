#include "schedule/isolation.h"

#include <vector>

#include "core/isolation.h"

namespace hami {

void run_batch(Backend& backend, std::span<Task* const> tasks, bool isolates) noexcept {
  const auto is_abandoned = [](const Item& item) { return item.is_abandoned(); };
  if (tasks.size() == 1) {
    Item* const only[] = {tasks[0]};
    run_isolated(backend, only, isolates, is_abandoned);
    return;
  }
  const std::vector<Item*> items(tasks.begin(), tasks.end());
  run_isolated(backend, items, isolates, is_abandoned);
}

}  // namespace hami
