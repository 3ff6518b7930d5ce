#include "schedule/isolation.h"

#include <vector>

#include "core/isolation.h"

namespace hami {

void run_batch(Backend& backend, std::span<Task* const> tasks, bool isolates) noexcept {
  const std::vector<Item*> items(tasks.begin(), tasks.end());
  run_isolated(backend, items, isolates,
               [](const Item& item) { return static_cast<const Task&>(item).is_abandoned(); });
}

}  // namespace hami
