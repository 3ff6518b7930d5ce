// Tasks of the graph by their nodes.
#pragma once

#include <algorithm>
#include <span>

#include "graph/request.h"

namespace hami {

inline int node_of(const Task* task) noexcept { return static_cast<const Visit*>(task)->node; }

// Calls `with(node, tasks)` for each node. REQUIRES: the tasks are in the order of their nodes.
template <class With>
void for_each_node(std::span<Task* const> tasks, With with) {
  while (!tasks.empty()) {
    const int node = node_of(tasks[0]);
    const auto end = std::ranges::find_if(tasks, [&](Task* task) { return node_of(task) != node; });
    const auto count = static_cast<size_t>(end - tasks.begin());
    with(node, tasks.first(count));
    tasks = tasks.subspan(count);
  }
}

}  // namespace hami
