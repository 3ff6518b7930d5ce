// Callers in a closed loop: how many are under way, what is counted, and how it ends; and what the
// loops record.
#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

#include "fake_time.h"
#include "load/closed_loop.h"
#include "load/load_threads.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("load");

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::exception_ptr error(const char* code) {
  return std::make_exception_ptr(Error(ErrorKind::kRequest, code, "no"));
}

// Calls `work(number)`.
class Calls final : public ClosedTarget {
 public:
  using Work = std::function<std::exception_ptr(int64_t)>;
  explicit Calls(Work work) : work_(std::move(work)) {}
  std::exception_ptr call(size_t, int64_t number) noexcept override { return work_(number); }
  bool is_gone() noexcept override { return has_gone; }
  std::atomic<bool> has_gone{false};

 private:
  const Work work_;
};

// All callers of a loop, each on a thread; returns when all have come back.
void run(ClosedLoop& loop, size_t num_callers, ClosedTarget& target) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_callers; ++i) threads.emplace_back([&, i] { loop.run(i, target); });
  loop.begin();
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("exactly as many calls are under way as there are callers") {
  constexpr int kNumCallers = 4;
  std::barrier all_inside(kNumCallers);
  std::atomic<int> num_inside{0};
  std::atomic<int> most_inside{0};
  Calls target([&](int64_t) {
    const int now_inside = ++num_inside;
    int most = most_inside;
    while (most < now_inside && !most_inside.compare_exchange_weak(most, now_inside)) {
    }
    all_inside.arrive_and_wait();  // passes only when four are inside
    --num_inside;
    all_inside.arrive_and_wait();
    return nullptr;
  });
  ClosedLoop loop(kNumCallers, {.num_requests = 40 * kNumCallers});
  run(loop, kNumCallers, target);
  CHECK(most_inside == kNumCallers);
  CHECK(loop.figures({}).num_requests == 40 * kNumCallers);
}

TEST_CASE("every number is called once") {
  std::vector<std::atomic<int>> calls(1000);
  Calls target([&](int64_t number) {
    ++calls[static_cast<size_t>(number)];
    return nullptr;
  });
  ClosedLoop loop(3, {.num_requests = 1000});
  run(loop, 3, target);
  for (const auto& num_calls : calls) CHECK(num_calls == 1);
  CHECK_FALSE(loop.was_cut_short());
}

TEST_CASE("a round ends with the call that goes beyond its duration") {
  FakeTime time;
  Calls target([&](int64_t) {
    time.pass(milliseconds(3));
    return nullptr;
  });
  ClosedLoop loop(1, {.duration = milliseconds(10)}, time);
  loop.begin();
  loop.run(0, target);
  const LoadFigures figures = loop.figures({});
  CHECK(figures.num_requests == 4);
  CHECK(figures.seconds == doctest::Approx(0.012));
  CHECK(figures.latency.p50_ms == doctest::Approx(3).epsilon(0.004));
  CHECK(figures.lateness.count == 0);
}

TEST_CASE("a caller waits for the beginning, and its waiting is not counted") {
  FakeTime time;
  Calls target([&](int64_t) {
    time.pass(milliseconds(1));
    return nullptr;
  });
  ClosedLoop loop(1, {.num_requests = 5}, time);
  time.at(time.now() + std::chrono::seconds(2), [&] { loop.begin(); });
  loop.run(0, target);
  CHECK(loop.figures({}).seconds == doctest::Approx(0.005));
}

TEST_CASE("failed calls are counted apart, and the one with the smallest number is told") {
  Calls target([](int64_t number) {
    return number % 10 == 7 ? error(("bad-" + std::to_string(number)).c_str()) : nullptr;
  });
  ClosedLoop loop(2, {.num_requests = 100});
  run(loop, 2, target);
  const LoadFigures figures = loop.figures({});
  CHECK(figures.num_requests == 100);
  CHECK(figures.num_errors == 10);
  CHECK(figures.latency.count == 90);
  CHECK(code_of(figures.first_error) == "bad-7");
}

TEST_CASE("a target that is gone ends the loop of every caller") {
  Calls target([&](int64_t number) {
    if (number < 10) return std::exception_ptr();
    target.has_gone = true;
    return error("closed");
  });
  ClosedLoop loop(2, {});
  run(loop, 2, target);
  CHECK(loop.was_cut_short());
  CHECK(loop.figures({}).latency.count == 10);
}

TEST_CASE("a loop that is stopped before it begins makes no call") {
  Calls target([](int64_t) { return error("called"); });
  ClosedLoop loop(1, {});
  loop.stop();
  loop.run(0, target);
  CHECK(loop.figures({}).num_requests == 0);
}

TEST_CASE("a call that has not come back counts as unanswered") {
  Event inside;
  Event go_on;
  Calls target([&](int64_t number) {
    if (number == 2) {
      inside.set();
      go_on.wait();
    }
    return nullptr;
  });
  ClosedLoop loop(1, {.num_requests = 3});
  loop.begin();
  std::thread caller([&] { loop.run(0, target); });
  inside.wait();
  loop.stop();
  const LoadFigures figures = loop.figures(error("unanswered"));
  CHECK(figures.num_requests == 3);
  CHECK(figures.num_errors == 1);
  CHECK(code_of(figures.first_error) == "unanswered");
  go_on.set();
  caller.join();
}

TEST_CASE("percentiles are right to half a percent, over all callers") {
  std::mt19937_64 random(3);
  std::lognormal_distribution<> milliseconds_of(1, 2);
  LoadTally tally(7);
  std::vector<double> values;
  for (int64_t i = 0; i < 100'000; ++i) {
    values.push_back(milliseconds_of(random));
    const auto latency = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double, std::milli>(values.back()));
    tally.add(static_cast<size_t>(i % 7), i, TimePoint(), latency, nullptr);
  }
  std::ranges::sort(values);
  const Percentiles found = tally.figures(milliseconds(1)).latency;
  const auto exact = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size())) - 1];
  };
  CHECK(found.p50_ms == doctest::Approx(exact(0.5)).epsilon(0.005));
  CHECK(found.p90_ms == doctest::Approx(exact(0.9)).epsilon(0.005));
  CHECK(found.p99_ms == doctest::Approx(exact(0.99)).epsilon(0.005));
  CHECK(found.p999_ms == doctest::Approx(exact(0.999)).epsilon(0.005));
  CHECK(found.max_ms == doctest::Approx(values.back()).epsilon(1e-6));
  double sum = 0;
  for (double value : values) sum += value;
  CHECK(found.mean_ms == doctest::Approx(sum / 100'000).epsilon(0.005));
}

TEST_CASE("more callers than parts lose nothing") {
  LoadTally tally(1000);
  for (size_t caller = 0; caller < 1000; ++caller) {
    tally.add(caller, static_cast<int64_t>(caller), TimePoint(microseconds(caller)),
              microseconds(5), nullptr);
  }
  CHECK(tally.num_ended() == 1000);
  CHECK(tally.last_end() == TimePoint(microseconds(999)));
  CHECK(tally.figures(milliseconds(1)).num_requests == 1000);
}

TEST_CASE("a thread that is held in a call is left to end alone") {
  struct World {
    Event inside;
    Event go_on;
    Event has_ended;
  };
  const auto world = std::make_shared<World>();
  {
    LoadThreads threads(
        1,
        [world](size_t) {
          world->inside.set();
          world->go_on.wait();
          world->has_ended.set();
        },
        [] {});
    world->inside.wait();
    CHECK_FALSE(threads.ended().is_set());
  }
  world->go_on.set();
  while (world->has_ended.wait() != Event::Wake::kSet) {
  }
}

TEST_CASE("threads tell when the last of them has ended") {
  std::atomic<int> num_run{0};
  LoadThreads threads(5, [&](size_t) { ++num_run; }, [] {});
  while (threads.ended().wait() != Event::Wake::kSet) {
  }
  CHECK(num_run == 5);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
