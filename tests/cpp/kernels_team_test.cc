// The team of threads: every task once, nobody past a barrier before the last, and lives that begin
// and end.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/thread_team.h"

namespace hami::kernels {
namespace {

TEST_SUITE_BEGIN("kernels");

TEST_CASE("every task runs once, on teams of any size, run after run") {
  for (const int size : {1, 2, 3, 9}) {
    ThreadTeam team(size);
    for (int run = 0; run < 30; ++run) {
      std::vector<std::atomic<int>> counts(100);
      team.run([&](Member& member) {
        for (int stage = 0; stage < 20; ++stage) {
          member.share(100, [&](int64_t i) { counts[static_cast<size_t>(i)].fetch_add(1); });
        }
      });
      for (const auto& count : counts) CHECK(count.load() == 20);
    }
  }
}

TEST_CASE("no stage begins before all tasks of the last are done") {
  ThreadTeam team(4);
  std::vector<int> values(64, 0);
  std::atomic<int> num_wrong{0};
  team.run([&](Member& member) {
    for (int stage = 1; stage <= 50; ++stage) {
      member.share(64, [&](int64_t i) { values[static_cast<size_t>(i)] = stage; });
      member.share(8, [&](int64_t) {
        for (const int value : values) {
          if (value != stage) num_wrong.fetch_add(1);
        }
      });
    }
  });
  CHECK(num_wrong.load() == 0);
}

TEST_CASE("a member that is stuck in a task holds up that stage alone") {
  ThreadTeam team(2);
  std::atomic<int> num_tasks{0};
  std::atomic<bool> has_two{false};
  // Until both members have a task, nobody ends one: so the worker takes part, however late it
  // wakes.
  team.run([&](Member& member) {
    member.share(2, [&](int64_t) {
      if (num_tasks.fetch_add(1) == 1) has_two = true;
      while (!has_two) std::this_thread::yield();
    });
    for (int stage = 0; stage < 100; ++stage) {
      member.share(1, [&](int64_t) { num_tasks.fetch_add(1); });
    }
  });
  CHECK(num_tasks.load() == 102);
}

TEST_CASE("stages without tasks pass") {
  ThreadTeam team(3);
  std::atomic<int> sum{0};
  team.run([&](Member& member) {
    member.share(0, [&](int64_t) { sum.fetch_add(100); });
    member.share(1, [&](int64_t) { sum.fetch_add(1); });
  });
  CHECK(sum.load() == 1);
}

TEST_CASE("workers that fell asleep wake up for the next run") {
  ThreadTeam team(2);
  for (int run = 0; run < 3; ++run) {
    std::atomic<int> num_inside{0};
    team.run([&](Member& member) {
      member.share(2, [&](int64_t) {
        num_inside.fetch_add(1);
        while (num_inside.load() < 2) std::this_thread::yield();  // needs both
      });
    });
    CHECK(num_inside.load() == 2);
    usleep(20000);  // longer than anybody spins
  }
}

TEST_CASE("several teams work at once, from threads of their own") {
  std::vector<std::thread> callers;
  std::atomic<int> total{0};
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      ThreadTeam team(2);
      for (int run = 0; run < 50; ++run) {
        team.run([&](Member& member) { member.share(10, [&](int64_t) { total.fetch_add(1); }); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(total.load() == 3 * 50 * 10);
}

TEST_CASE("a team that never ran ends, and so does one whose workers sleep") {
  auto never = std::make_unique<ThreadTeam>(4);
  never.reset();
  auto asleep = std::make_unique<ThreadTeam>(4);
  asleep->run([](Member&) {});
  usleep(20000);
  asleep.reset();
}

// ThreadSanitizer does not follow threads that a forked child starts.
#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a forked child has workers of its own") {
  ThreadTeam team(3);
  team.run([](Member&) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> num_tasks{0};
    team.run([&](Member& member) {
      member.share(3, [&](int64_t) {
        num_tasks.fetch_add(1);
        while (num_tasks.load() < 3) std::this_thread::yield();  // needs all
      });
    });
    _exit(num_tasks.load() == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  std::atomic<int> num_tasks{0};
  team.run([&](Member& member) { member.share(9, [&](int64_t) { num_tasks.fetch_add(1); }); });
  CHECK(num_tasks.load() == 9);
}
#endif

}  // namespace
}  // namespace hami::kernels
