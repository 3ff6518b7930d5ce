#include "schedule/isolation.h"

#include <new>
#include <vector>

#include "core/error.h"

namespace hami {
namespace {

struct Run {
  std::span<Task* const> tasks;
  std::span<const Dict> snapshot;
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

std::exception_ptr forward(Backend& backend, std::span<Task* const> tasks) noexcept {
  try {
    std::vector<Item*> items(tasks.begin(), tasks.end());
    backend.forward(items);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void restore(const Run& run) {
  for (size_t i = 0; i < run.tasks.size(); ++i) {
    run.tasks[i]->dict = run.snapshot[i];
    run.tasks[i]->error = nullptr;
  }
}

void bisect(Backend& backend, const Run& run);

// Runs a half of a batch that raised. Returns whether it passed.
bool run_half(Backend& backend, const Run& half) {
  std::vector<Task*> wanted;
  std::vector<Dict> snapshot;
  restore(half);
  for (size_t i = 0; i < half.tasks.size(); ++i) {
    if (half.tasks[i]->is_abandoned()) continue;
    wanted.push_back(half.tasks[i]);
    snapshot.push_back(half.snapshot[i]);
  }
  if (wanted.empty()) return true;
  const auto error = forward(backend, wanted);
  if (error == nullptr) return true;
  if (wanted.size() == 1 || !may_rerun(error)) {
    for (Task* task : wanted) task->error = error;
  } else {
    bisect(backend, {wanted, snapshot});
  }
  return false;
}

void bisect(Backend& backend, const Run& run) {
  const size_t middle = run.tasks.size() / 2;
  const Run second{run.tasks.subspan(middle), run.snapshot.subspan(middle)};
  const bool has_passed = run_half(backend, {run.tasks.first(middle), run.snapshot.first(middle)});
  // When the first half is well the culprit is in the second: running that whole tells nothing.
  if (has_passed && second.tasks.size() > 1) {
    bisect(backend, second);
  } else {
    run_half(backend, second);
  }
}

}  // namespace

void run_batch(Backend& backend, std::span<Task* const> tasks, bool isolates) noexcept {
  std::vector<Dict> snapshot;
  if (isolates && tasks.size() > 1) {
    for (const Task* task : tasks) snapshot.push_back(task->dict);
  }
  const auto error = forward(backend, tasks);
  if (error == nullptr) return;
  if (snapshot.empty() || !may_rerun(error)) {
    for (Task* task : tasks) task->error = error;
    return;
  }
  bisect(backend, {tasks, snapshot});
}

}  // namespace hami
