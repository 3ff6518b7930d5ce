// Keeps one bad item from failing its batch mates: a batch that raises is run again in halves
// until the culprit is alone. Used by the instances of a node, and by backends that split a batch
// themselves.
#pragma once

#include "core/backend.h"

namespace hami {

// Whether nobody wants the item's outcome any more.
using IsAbandoned = bool (*)(const Item& item);

// Runs the items and leaves every exception in the `error` of those that caused it. With
// `isolates`, and an exception that a second run may avoid, items get back what they held from a
// shallow snapshot and the batch is bisected: for one bad item among n at most 2 log2(n) + 1
// further runs. Abandoned items drop out between runs; null means that there are none.
void run_isolated(Backend& backend, Batch batch, bool isolates,
                  IsAbandoned is_abandoned = nullptr) noexcept;

}  // namespace hami
