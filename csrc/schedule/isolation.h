// Keeps one bad item from failing its batch mates: a batch that raises is run again in halves
// until the culprit is alone.
#pragma once

#include <span>

#include "core/backend.h"
#include "schedule/task.h"

namespace hami {

// Runs the tasks and leaves every exception in the `error` of the items that caused it. With
// `isolates`, and an exception that a second run may avoid, items get their dicts back from a
// shallow snapshot and the batch is bisected: for one bad item among n at most 2 log2(n) + 1
// further runs. Tasks whose caller has gone meanwhile drop out between runs.
void run_batch(Backend& backend, std::span<Task* const> tasks, bool isolates) noexcept;

}  // namespace hami
