// `ThreadTeam`: the calling thread and some workers that run one job together and meet at barriers
// inside it. Owned by one decoder; one thread at a time may call `run`. Workers never touch the
// interpreter, so they may be asleep when it ends, and a forked child gets new ones by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace hami::kernels {

class ThreadTeam;

// One thread's place in a run. All members of the team make the same calls in the same order.
class Member {
 public:
  Member(ThreadTeam& team, int index) : team_(team), index_(index) {}
  int index() const noexcept { return index_; }
  int team_size() const noexcept;
  // Returns once all members have come here; what they wrote before is then visible.
  void meet() noexcept;
  // Calls `task(i)` for every i below `num_tasks`, each on one member, and meets. Whoever is free
  // takes the next one, so that a member whose processor is busy with something else delays
  // nobody.
  template <class Task>
  void share(int64_t num_tasks, Task task) noexcept;

 private:
  ThreadTeam& team_;
  const int index_;
  uint32_t stage_ = 0;
};

class ThreadTeam {
 public:
  // `num_threads` counts the caller. REQUIRES: at least 1.
  explicit ThreadTeam(int num_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return num_threads_; }

  // Runs `job(member)` on all threads and returns when all are through. The job must not throw.
  template <class Job>
  void run(Job job) {
    run_erased(&job, [](void* j, Member& member) { (*static_cast<Job*>(j))(member); });
  }

 private:
  friend class Member;
  using Function = void (*)(void*, Member&);
  static constexpr uint32_t kNumCounters = 8;

  struct alignas(64) Counter {
    std::atomic<int64_t> next{0};
  };
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
    Signal barrier;
    alignas(64) std::atomic<int> num_arrived{0};
    Counter counters[kNumCounters];
    Function function = nullptr;
    void* job = nullptr;
    bool is_ending = false;
    std::vector<std::thread> workers;
  };

  void run_erased(void* job, Function function);
  void start_workers();
  void end_workers() noexcept;
  void work(Shared& shared, int index) noexcept;
  void meet(Shared& shared) noexcept;

  const int num_threads_;
  int num_spins_;
  int process_ = 0;
  std::unique_ptr<Shared> shared_;
};

inline int Member::team_size() const noexcept { return team_.num_threads_; }

inline void Member::meet() noexcept { team_.meet(*team_.shared_); }

template <class Task>
void Member::share(int64_t num_tasks, Task task) noexcept {
  auto& counters = team_.shared_->counters;
  const uint32_t stage = stage_++;
  if (team_.num_threads_ == 1) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  // Last used four stages ago and next used in four: nobody looks at it now.
  if (index_ == 0) {
    counters[(stage + 4) % ThreadTeam::kNumCounters].next.store(0, std::memory_order_relaxed);
  }
  std::atomic<int64_t>& next = counters[stage % ThreadTeam::kNumCounters].next;
  for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < num_tasks;
       i = next.fetch_add(1, std::memory_order_relaxed)) {
    task(i);
  }
  meet();
}

// The processors that this process may use.
int num_processors() noexcept;

}  // namespace hami::kernels
