// `Backend`: one computation over a batch of items; the class every leaf and container derives
// from. The planner builds it once per instance. `forward` runs on one thread at a time unless
// the backend says it is reentrant, and never under a lock of the runtime.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/item.h"

namespace hami {

class EngineDescription;

// The models at the two ends of a backend, as far as it knows them.
struct Ends {
  const EngineDescription* first = nullptr;  // its inputs are what `data` must be
  const EngineDescription* last = nullptr;   // its outputs are what `result` holds
  // It hands arrays on as they come, so that its neighbours' ends are those of the whole.
  bool passes_arrays = false;
};

// The rows a backend takes in one run, inclusive.
struct BatchRange {
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  int64_t min = 1;
  int64_t max = kAny;

  // The range that both accept.
  BatchRange intersect(const BatchRange& other) const;
  bool is_empty() const noexcept { return min > max; }
  bool operator==(const BatchRange&) const = default;
};

// What a backend counts and measures, by name.
using Figures = std::map<std::string, double>;
// Adds what another instance tells.
void add_figures(Figures& all, const Figures& more);

// What the scheduler may do with a backend. A container has a trait only if all children do.
struct Traits {
  // Bounded work of microseconds that may run in place on a caller's thread.
  bool is_inline = false;
  // `forward` may run on several threads at once.
  bool is_reentrant = false;
  // Running an item a second time gives the same answer: a failed batch may be bisected.
  bool is_idempotent = true;
  // Reads any key of the caller's dict (host-language code).
  bool reads_everything = false;
  // An item may end without a result, and that is no error: a condition that does not hold.
  bool may_skip = false;

  Traits combine(const Traits& other) const;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // Computes `result` (or other keys) of every item. An item fails alone through `item.error`; an
  // exception fails the batch. REQUIRES: `batch` is not empty and fits batch_range().
  virtual void forward(Batch batch) = 0;

  virtual BatchRange batch_range() const { return {}; }
  virtual Traits traits() const { return {}; }

  // Items run together only when this is equal. The default: shape and dtype of `data`, without
  // the batch axis for items of several rows.
  virtual size_t group_of(const Item& item) const;

  // What keeps the backend from working for now, in words, or an empty text. Any thread, at any
  // time.
  virtual std::string problem() const { return {}; }
  // The same of its figures.
  virtual Figures own_figures() const { return {}; }

  // Adds every key that the backend reads to `reads`, so that submit brings it along.
  virtual void collect_reads(std::vector<Key>& reads) const;
  // How deep lists and dicts among the values must be opened for this backend to see inside.
  virtual int container_depth() const { return 0; }

  // Valid as long as the backend lives, and the same for as long.
  virtual Ends ends() const { return {}; }

  // Whether several users of this one object may call `forward` at the same time: it is reentrant,
  // or it queues what comes.
  virtual bool is_shareable() const { return traits().is_reentrant; }
  // Looks at the results that are there so far instead of computing one from the data
  // (`ThrowIfNoResult`): in a chain it runs for every item, and nothing is handed over to it.
  virtual bool judges_results() const { return false; }

  // Hands over a backend to call, for those that wrap one (`DI[a,b]` injects b into a).
  virtual void inject(std::shared_ptr<Backend> dependency);
  // Runs `dependency` in this backend's surroundings (`With[A,B]`).
  virtual void forward_with(Batch batch, Backend& dependency);

  // The pipeline is closed and its threads have ended, but for those that it left behind inside a
  // backend: ends what this one owns beyond memory (processes, connections). Called once, for those
  // that asked for it with Scope::add_owner.
  virtual void tear_down() noexcept {}
};

// Reads `data` only, and has no other dependency: the base of small leaves that work per item.
class InlineBackend : public Backend {
 public:
  Traits traits() const override { return {.is_inline = true, .is_reentrant = true}; }
  // Work per item never depends on the batch mates, so unlike items may share a batch.
  size_t group_of(const Item&) const override { return 0; }
};

// What several backends that work on one batch together accept, have, read and need.
using Backends = std::vector<std::shared_ptr<Backend>>;
// Throws a build error when no number of rows suits all of them.
BatchRange common_range(const Backends& backends);
Traits common_traits(const Backends& backends);
int largest_depth(const Backends& backends);
// Of backends that run one after another.
Ends ends_of_chain(const Backends& backends);

// Runs `backend` over the items, one run for each group: what comes from another backend, or is a
// part of a batch, need not be of one group.
void forward_by_group(Backend& backend, Batch batch);

// Runs `work(item)` for every item, keeping an exception with the item that caused it.
template <class Work>
void for_each_item(Batch batch, Work work) {
  for (Item* item : batch) {
    try {
      work(*item);
    } catch (...) {
      item->error = std::current_exception();
    }
  }
}

}  // namespace hami
