#include "core/isolation.h"

#include <new>
#include <vector>

#include "core/error.h"

namespace hami {
namespace {

// What an item held before the first run.
struct Snapshot {
  explicit Snapshot(const Item& item)
      : dict(item.dict), base(item.base), has_batch_axis(item.has_batch_axis) {}
  void restore(Item& item) const {
    item.dict = dict;
    item.base = base;
    item.has_batch_axis = has_batch_axis;
    item.error = nullptr;
  }

  Dict dict;
  Ref<Object> base;
  bool has_batch_axis;
};

struct Run {
  Batch items;
  std::span<const Snapshot> snapshots;
};

// Whether running the items again, in another company, may end differently.
bool may_rerun(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const HostError& host_error) {
    return host_error.may_rerun();
  } catch (const Error& own) {
    // The backend broke its contract towards the whole batch; halves would only hide how.
    return own.code() != "backend-result-count";
  } catch (const std::bad_alloc&) {
    return false;
  } catch (...) {
    return true;
  }
}

std::exception_ptr forward(Backend& backend, Batch batch) noexcept {
  try {
    backend.forward(batch);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

class Bisection {
 public:
  Bisection(Backend& backend, IsAbandoned is_abandoned)
      : backend_(backend), is_abandoned_(is_abandoned) {}

  void bisect(const Run& run) {
    const size_t middle = run.items.size() / 2;
    const Run second{run.items.subspan(middle), run.snapshots.subspan(middle)};
    const bool has_passed = run_half({run.items.first(middle), run.snapshots.first(middle)});
    // When the first half is well the culprit is in the second: running that whole tells nothing.
    if (has_passed && second.items.size() > 1) {
      bisect(second);
    } else {
      run_half(second);
    }
  }

 private:
  // Runs a half of a batch that raised. Returns whether it passed.
  bool run_half(const Run& half) {
    std::vector<Item*> wanted;
    std::vector<Snapshot> snapshots;
    for (size_t i = 0; i < half.items.size(); ++i) {
      half.snapshots[i].restore(*half.items[i]);
      if (is_abandoned_ != nullptr && is_abandoned_(*half.items[i])) continue;
      wanted.push_back(half.items[i]);
      snapshots.push_back(half.snapshots[i]);
    }
    if (wanted.empty()) return true;
    const auto error = forward(backend_, wanted);
    if (error == nullptr) return true;
    if (wanted.size() == 1 || !may_rerun(error)) {
      for (Item* item : wanted) item->error = error;
    } else {
      bisect({wanted, snapshots});
    }
    return false;
  }

  Backend& backend_;
  const IsAbandoned is_abandoned_;
};

}  // namespace

void run_isolated(Backend& backend, Batch batch, bool isolates, IsAbandoned is_abandoned) noexcept {
  std::vector<Snapshot> snapshots;
  if (isolates && batch.size() > 1) {
    for (const Item* item : batch) snapshots.emplace_back(*item);
  }
  const auto error = forward(backend, batch);
  if (error == nullptr) return;
  if (snapshots.empty() || !may_rerun(error)) {
    for (Item* item : batch) item->error = error;
    return;
  }
  Bisection(backend, is_abandoned).bisect({batch, snapshots});
}

}  // namespace hami
