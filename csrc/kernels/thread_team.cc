#include "kernels/thread_team.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace hami::kernels {
namespace {

// About 50 microseconds, what waking a thread costs; longer looks only take processors away.
constexpr int kSpinsInRun = 2000;
constexpr int kSpinsBetweenRuns = 1000;
// With more threads than processors whoever waits must give way at once.
constexpr int kSpinsCrowded = 20;
constexpr int kYields = 40;

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr,
          nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

}  // namespace

int num_processors() noexcept {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void ThreadTeam::Signal::advance() noexcept {
  value.fetch_add(1, std::memory_order_seq_cst);
  if (num_asleep.load(std::memory_order_seq_cst) > 0) wake_all(value);
}

void ThreadTeam::Signal::wait_for_change(uint32_t old, int num_spins, int num_yields) noexcept {
  for (int i = 0; i < num_spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  for (int i = 0; i < num_yields; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    sched_yield();
  }
  num_asleep.fetch_add(1, std::memory_order_seq_cst);
  while (value.load(std::memory_order_seq_cst) == old) sleep_while(value, old);
  num_asleep.fetch_sub(1, std::memory_order_relaxed);
}

ThreadTeam::ThreadTeam(int num_threads)
    : num_threads_(num_threads),
      num_spins_(num_threads <= num_processors() ? kSpinsInRun : kSpinsCrowded) {}

ThreadTeam::~ThreadTeam() {
  if (!shared_) return;
  if (process_ != getpid()) {
    shared_.release();  // its threads stayed in the parent: they can be neither ended nor joined
    return;
  }
  end_workers();
}

void ThreadTeam::start_workers() {
  shared_.release();  // null, or the copy of a parent's
  auto shared = std::make_unique<Shared>();
  shared->workers.reserve(static_cast<size_t>(num_threads_ - 1));
  shared_ = std::move(shared);
  process_ = getpid();
  try {
    for (int index = 1; index < num_threads_; ++index) {
      shared_->workers.emplace_back([this, index, state = shared_.get()] { work(*state, index); });
    }
  } catch (...) {  // the system has no thread left: a smaller team would wait for ever
    end_workers();
    throw;
  }
}

void ThreadTeam::end_workers() noexcept {
  shared_->is_ending.store(true, std::memory_order_release);
  shared_->start.advance();
  for (std::thread& worker : shared_->workers) worker.join();
  shared_.reset();
}

void ThreadTeam::run_erased(void* job, Function function) {
  if (!shared_ || process_ != getpid()) start_workers();
  Shared& shared = *shared_;
  Member member(*this, 0);
  if (num_threads_ == 1) return function(job, member);
  shared.num_done.store(first_ticket(1), std::memory_order_relaxed);
  shared.ticket.store(first_ticket(1), std::memory_order_relaxed);
  shared.job = job;
  shared.function = function;
  shared.gate.store(0, std::memory_order_release);
  shared.start.advance();
  function(job, member);
  close(shared);
}

bool ThreadTeam::enter(Shared& shared) noexcept {
  int inside = shared.gate.load(std::memory_order_relaxed);
  while (inside >= 0) {
    if (shared.gate.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadTeam::leave(Shared& shared) noexcept {
  if (shared.gate.fetch_sub(1, std::memory_order_acq_rel) - 1 == kClosed) shared.all_left.advance();
}

void ThreadTeam::close(Shared& shared) noexcept {
  const uint32_t seen = shared.all_left.value.load(std::memory_order_acquire);
  if (shared.gate.fetch_add(kClosed, std::memory_order_acq_rel) == 0) return;
  shared.all_left.wait_for_change(seen, num_spins_, kYields);
}

void ThreadTeam::work(Shared& shared, int index) noexcept {
  uint32_t seen = 0;
  for (;;) {
    const bool is_crowded = num_spins_ == kSpinsCrowded;
    shared.start.wait_for_change(seen, is_crowded ? kSpinsCrowded : kSpinsBetweenRuns, 0);
    seen = shared.start.value.load(std::memory_order_acquire);
    if (shared.is_ending.load(std::memory_order_acquire)) return;
    if (!enter(shared)) continue;  // the others were done before this one woke
    Member member(*this, index);
    shared.function(shared.job, member);
    leave(shared);
  }
}

void ThreadTeam::wait_for_end(Shared& shared, uint32_t stage) noexcept {
  for (;;) {
    const uint32_t seen = shared.stage.value.load(std::memory_order_acquire);
    if (stage_of(shared.ticket.load(std::memory_order_acquire)) != stage) return;
    shared.stage.wait_for_change(seen, num_spins_, kYields);
  }
}

}  // namespace hami::kernels
