// `ThreadTeam`: the calling thread and some workers that run one job together, stage by stage. A
// stage ends when its tasks are done, whoever did them: a worker whose processor is busy with
// something else, or that wakes late, holds up nobody. Owned by one decoder; one thread at a time
// may call `run`. Workers never touch the interpreter, so they may be asleep when it ends, and a
// forked child gets new ones by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace hami::kernels {

class ThreadTeam;

// One thread's place in a run. All members make the same calls in the same order, and touch what
// the stages share only inside tasks: between two calls others may be far ahead.
class Member {
 public:
  Member(ThreadTeam& team, int index) : team_(team), index_(index) {}
  int index() const noexcept { return index_; }
  // Calls `task(i)` for every i below `num_tasks`, each on one member. Returns when all are done,
  // and what they wrote is visible.
  template <class Task>
  void share(int64_t num_tasks, Task task) noexcept;

 private:
  ThreadTeam& team_;
  const int index_;
  uint32_t stage_ = 1;
};

class ThreadTeam {
 public:
  // `num_threads` counts the caller. REQUIRES: at least 1.
  explicit ThreadTeam(int num_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return num_threads_; }

  // Runs `job(member)` on this thread and on those workers that come in time; returns when all that
  // came are through. The job must not throw.
  template <class Job>
  void run(Job job) {
    run_erased(&job, [](void* j, Member& member) { (*static_cast<Job*>(j))(member); });
  }

 private:
  friend class Member;
  using Function = void (*)(void*, Member&);
  // A number that threads wait for to change.
  struct alignas(64) Signal {
    std::atomic<uint32_t> value{0};
    std::atomic<int> num_asleep{0};
    void advance() noexcept;
    void wait_for_change(uint32_t old, int num_spins, int num_yields) noexcept;
  };
  // What the threads share. A forked child leaves its copy alone, whatever state that is in, and
  // makes another.
  struct Shared {
    Signal start;
    Signal stage;     // changes when a stage ends
    Signal all_left;  // changes when the last worker has left a closed run
    // The stage (upper half) and its next task; the stage and how many of its tasks are done.
    alignas(64) std::atomic<uint64_t> ticket{0};
    alignas(64) std::atomic<uint64_t> num_done{0};
    // The workers inside the run; below zero nobody may enter any more.
    alignas(64) std::atomic<int> gate{kClosed};
    Function function = nullptr;
    void* job = nullptr;
    std::atomic<bool> is_ending{false};
    std::vector<std::thread> workers;
  };
  static constexpr int kClosed = -(1 << 30);

  static constexpr uint64_t first_ticket(uint32_t stage) { return uint64_t{stage} << 32; }
  static constexpr uint32_t stage_of(uint64_t ticket) {
    return static_cast<uint32_t>(ticket >> 32);
  }
  static constexpr uint32_t task_of(uint64_t ticket) { return static_cast<uint32_t>(ticket); }

  void run_erased(void* job, Function function);
  void start_workers();
  void end_workers() noexcept;
  void work(Shared& shared, int index) noexcept;
  static bool enter(Shared& shared) noexcept;
  static void leave(Shared& shared) noexcept;
  void close(Shared& shared) noexcept;
  void wait_for_end(Shared& shared, uint32_t stage) noexcept;

  const int num_threads_;
  int num_spins_;
  int process_ = 0;
  std::unique_ptr<Shared> shared_;
};

template <class Task>
void Member::share(int64_t num_tasks, Task task) noexcept {
  if (num_tasks <= 0) return;
  if (team_.num_threads_ == 1) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  ThreadTeam::Shared& shared = *team_.shared_;
  const uint32_t stage = stage_++;
  uint64_t ticket = shared.ticket.load(std::memory_order_acquire);
  while (ThreadTeam::stage_of(ticket) == stage && ThreadTeam::task_of(ticket) < num_tasks) {
    if (!shared.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
      continue;
    }
    task(static_cast<int64_t>(ThreadTeam::task_of(ticket)));
    const uint64_t num_done = shared.num_done.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (ThreadTeam::task_of(num_done) == num_tasks) {
      shared.num_done.store(ThreadTeam::first_ticket(stage + 1), std::memory_order_relaxed);
      shared.ticket.store(ThreadTeam::first_ticket(stage + 1), std::memory_order_release);
      shared.stage.advance();
      return;
    }
    ticket = shared.ticket.load(std::memory_order_acquire);
  }
  team_.wait_for_end(shared, stage);
}

// The processors that this process may use.
int num_processors() noexcept;

}  // namespace hami::kernels
