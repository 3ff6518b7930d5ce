// Isolation of errors (core/isolation.h) for the tasks of a node.
#pragma once

#include <span>

#include "core/backend.h"
#include "schedule/task.h"

namespace hami {

// Runs the tasks and leaves every exception in the `error` of the items that caused it; tasks whose
// caller has gone meanwhile drop out between runs.
void run_batch(Backend& backend, std::span<Task* const> tasks, bool isolates) noexcept;

}  // namespace hami
