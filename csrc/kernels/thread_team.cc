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
  shared_->is_ending = true;
  shared_->start.advance();
  for (std::thread& worker : shared_->workers) worker.join();
  shared_.reset();
}

void ThreadTeam::run_erased(void* job, Function function) {
  if (!shared_ || process_ != getpid()) start_workers();
  Shared& shared = *shared_;
  for (Counter& counter : shared.counters) counter.next.store(0, std::memory_order_relaxed);
  shared.job = job;
  shared.function = function;
  if (num_threads_ > 1) shared.start.advance();
  Member member(*this, 0);
  function(job, member);
  meet(shared);
}

void ThreadTeam::work(Shared& shared, int index) noexcept {
  for (uint32_t seen = 0;; ++seen) {
    shared.start.wait_for_change(
        seen, num_spins_ == kSpinsCrowded ? kSpinsCrowded : kSpinsBetweenRuns, 0);
    if (shared.is_ending) return;
    Member member(*this, index);
    shared.function(shared.job, member);
    meet(shared);
  }
}

void ThreadTeam::meet(Shared& shared) noexcept {
  if (num_threads_ == 1) return;
  const uint32_t round = shared.barrier.value.load(std::memory_order_relaxed);
  if (shared.num_arrived.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
    shared.num_arrived.store(0, std::memory_order_relaxed);
    shared.barrier.advance();
  } else {
    shared.barrier.wait_for_change(round, num_spins_, kYields);
  }
}

}  // namespace hami::kernels
