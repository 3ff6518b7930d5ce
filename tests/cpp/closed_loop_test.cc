// Who is waited for, in simulated time: callers who come back after each answer, and such who never
// do. The bounds are those that docs/design/0004-who-is-expected-back.md states.
#include <doctest/doctest.h>

#include <memory>
#include <random>

#include "simulated_node.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("returns");

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How callers come back: threads at once or one by one as a lock is handed on, HTTP after a
// millisecond or one by one over one or two.
enum class Way { kTogether, kOneByOne, kHttp, kHttpOneByOne };
constexpr Way kWays[] = {Way::kTogether, Way::kOneByOne, Way::kHttp, Way::kHttpOneByOne};
constexpr Duration kRunTimes[] = {microseconds(50), milliseconds(2)};

SimulatedNode::ComeBack come_back(Way way, const std::shared_ptr<std::mt19937>& random) {
  return [=](size_t num_callers) {
    const auto between = [&](double least, double most) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(
          std::uniform_real_distribution<>(least, most)(*random)));
    };
    std::vector<Duration> delays(num_callers);
    Duration last{};
    for (Duration& delay : delays) {
      if (way == Way::kTogether) delay = between(0, 2);
      if (way == Way::kOneByOne) delay = last += between(5, 10);
      if (way == Way::kHttp) delay = between(900, 1100);
      if (way == Way::kHttpOneByOne) delay = last += between(60, 130);
    }
    return delays;
  };
}

// The longest time between the first caller's return and the last one's.
Duration span_of(Way way, size_t num_callers) {
  const auto count = static_cast<int64_t>(num_callers);
  switch (way) {
    case Way::kTogether:
      return microseconds(2);
    case Way::kOneByOne:
      return count * microseconds(10);
    case Way::kHttp:
      return microseconds(200);
    case Way::kHttpOneByOne:
      return count * microseconds(130);
  }
  return {};
}

// Callers who begin at about the same time and come back for ever, after some rounds.
SimulatedNode::Figures closed_loop(SimulatedNode& node, Way way, size_t num_callers) {
  node.come_back = come_back(way, std::make_shared<std::mt19937>(7));
  for (const Duration delay : node.come_back(num_callers)) node.arrive_at(node.now() + delay);
  const auto count = static_cast<int64_t>(num_callers);
  node.run(200 * count);
  return node.run(400 * count);
}

// Callers at random times who never come back.
SimulatedNode::Figures open_loop(SimulatedNode& node, double items_per_second, int64_t num_items) {
  std::mt19937 random(7);
  std::exponential_distribution<> gap(items_per_second);
  double seconds = 0;
  for (int64_t i = 0; i < num_items; ++i) {
    seconds += gap(random);
    node.arrive_at(node.now() +
                   std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  }
  return node.run(num_items + 1);  // until nothing happens any more
}

TEST_CASE("callers who fit into one batch share each and wait for no more than each other") {
  for (const Way way : kWays) {
    for (const Duration run_time : kRunTimes) {
      for (const int timeout_ms : {2, 4, 50}) {
        for (const size_t num_callers : {1, 2, 3, 8, 15, 16}) {
          CAPTURE(static_cast<int>(way));
          CAPTURE(run_time.count());
          CAPTURE(timeout_ms);
          CAPTURE(num_callers);
          SimulatedNode node;
          node.run_time = run_time;
          node.timeout = milliseconds(timeout_ms);
          const auto figures = closed_loop(node, way, num_callers);
          CHECK(figures.mean_batch() >= 0.94 * static_cast<double>(num_callers));
          CHECK(figures.mean_wait() <= run_time / 20 + span_of(way, num_callers));
        }
      }
    }
  }
}

TEST_CASE("more callers than fit fill every batch where they are back soon after a long run") {
  for (const Way way : {Way::kTogether, Way::kOneByOne}) {
    for (const size_t num_callers : {17, 24, 32, 40}) {
      CAPTURE(static_cast<int>(way));
      CAPTURE(num_callers);
      SimulatedNode node;
      CHECK(closed_loop(node, way, num_callers).mean_batch() >= 15);
    }
  }
}

TEST_CASE("with more callers than fit waiting never costs a seventh of what can be had") {
  // What can be had: batches back to back for as long as callers wait, whatever their size.
  for (const Way way : kWays) {
    for (const size_t num_callers : {24, 32, 40}) {
      CAPTURE(static_cast<int>(way));
      CAPTURE(num_callers);
      SimulatedNode node;
      const auto figures = closed_loop(node, way, num_callers);
      SimulatedNode greedy;
      greedy.timeout = Duration::zero();
      const auto greedy_figures = closed_loop(greedy, way, num_callers);
      CHECK(figures.items_per_ms() >= 0.86 * greedy_figures.items_per_ms());
    }
  }
}

TEST_CASE("a lone caller waits in a few of a thousand calls") {
  for (const Way way : kWays) {
    SimulatedNode node;
    const auto figures = closed_loop(node, way, 1);
    CHECK(figures.num_batches == 400);
    CHECK(figures.mean_wait() <= microseconds(4));
  }
}

TEST_CASE("two callers who take turns come together") {
  for (const Duration run_time : kRunTimes) {
    SimulatedNode node;
    node.run_time = run_time;
    node.come_back = come_back(Way::kOneByOne, std::make_shared<std::mt19937>(7));
    node.arrive_at(node.now());
    node.arrive_at(node.now() + run_time / 2);
    node.run(20);
    CHECK(node.run(100).mean_batch() == 2);
  }
}

TEST_CASE("callers who come at random and never come back are hardly held back") {
  for (const Duration run_time : kRunTimes) {
    const double capacity = 16 / std::chrono::duration<double>(run_time).count();
    for (const double load : {0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8}) {
      CAPTURE(run_time.count());
      CAPTURE(load);
      SimulatedNode node;
      node.run_time = run_time;
      CHECK(open_loop(node, load * capacity, 20000).mean_held_back() <= microseconds(120));
    }
    SimulatedNode node;
    node.run_time = run_time;
    CHECK(open_loop(node, 100, 4000).mean_held_back() <= microseconds(120));
  }
}

TEST_CASE("callers in a loop are found again after a time of callers who do not come back") {
  for (const Way way : {Way::kTogether, Way::kOneByOne, Way::kHttp}) {
    CAPTURE(static_cast<int>(way));
    SimulatedNode node;
    node.run_time = microseconds(50);
    open_loop(node, 32000, 20000);
    node.come_back = come_back(way, std::make_shared<std::mt19937>(7));
    for (const Duration delay : node.come_back(16)) node.arrive_at(node.now() + delay);
    node.run(16 * 1100);
    CHECK(node.run(1600).mean_batch() >= 15);
  }
}

TEST_CASE("two instances share sixteen callers without waiting longer than for a run") {
  for (const Way way : kWays) {
    CAPTURE(static_cast<int>(way));
    SimulatedNode node;
    node.num_instances = 2;
    const auto figures = closed_loop(node, way, 16);
    CHECK(figures.mean_batch() >= 15);
    CHECK(figures.mean_wait() <= node.run_time / 20 + span_of(way, 16));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
