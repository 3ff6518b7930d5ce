#include "bind/fork_guard.h"

#include <pthread.h>

#include <atomic>

#include "core/spin.h"
#include "core/wake_gate.h"

namespace hami::bind {
namespace {

// How often this process has been forked, counted from its oldest ancestor.
std::atomic<int> num_forks{0};

}  // namespace

ForkGuard::ForkGuard() noexcept : made_in_(num_forks.load()) {}

bool ForkGuard::is_in_child() const noexcept { return num_forks.load() != made_in_; }

Error ForkGuard::error() {
  return Error(ErrorKind::kClosed, "forked",
               "the pipeline was made before this process was forked, and its threads live in "
               "the parent",
               "create the pipeline in the child");
}

void ForkGuard::watch() {
  pthread_atfork(nullptr, nullptr, [] {
    num_forks.fetch_add(1);
    WakeGate::renew();
    Spin::renew();
  });
}

}  // namespace hami::bind
