// The team of threads: every task once, nobody past a barrier before the last, and lives that begin
// and end.
#include "kernels/thread_team.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

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

TEST_CASE("nobody leaves a stage before all its tasks are done") {
  ThreadTeam team(4);
  std::vector<int> values(64, 0);
  std::atomic<int> num_wrong{0};
  team.run([&](Member& member) {
    for (int stage = 1; stage <= 50; ++stage) {
      member.share(64, [&](int64_t i) { values[static_cast<size_t>(i)] = stage; });
      for (const int value : values) {
        if (value != stage) num_wrong.fetch_add(1);
      }
      member.meet();
    }
  });
  CHECK(num_wrong.load() == 0);
}

TEST_CASE("stages without tasks and members without work pass") {
  ThreadTeam team(3);
  std::atomic<int> sum{0};
  team.run([&](Member& member) {
    member.share(0, [&](int64_t) { sum.fetch_add(100); });
    member.share(1, [&](int64_t) { sum.fetch_add(1); });
    member.meet();
  });
  CHECK(sum.load() == 1);
}

TEST_CASE("workers that fell asleep wake up for the next run") {
  ThreadTeam team(3);
  for (int run = 0; run < 3; ++run) {
    std::atomic<int> num_members{0};
    team.run([&](Member&) { num_members.fetch_add(1); });
    CHECK(num_members.load() == 3);
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
    std::atomic<int> num_members{0};
    team.run([&](Member& member) {
      member.share(5, [](int64_t) {});
      num_members.fetch_add(1);
    });
    _exit(num_members.load() == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  std::atomic<int> num_members{0};
  team.run([&](Member&) { num_members.fetch_add(1); });
  CHECK(num_members.load() == 3);
}
#endif

}  // namespace
}  // namespace hami::kernels
