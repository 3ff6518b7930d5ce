// Who is waited for, in simulated time: callers who come back after each answer, and such who never do.
#include <doctest/doctest.h>

#include <cstdio>
#include <random>

#include "simulated_node.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("returns");

using std::chrono::microseconds;
using std::chrono::milliseconds;

enum class Way { kTogether, kOneByOne, kHttp, kHttpOneByOne };

SimulatedNode::ComeBack come_back(Way way, std::shared_ptr<std::mt19937> random) {
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

TEST_CASE("debug") {
  for (auto [way, n] : {std::pair{Way::kHttp, 8}, {Way::kHttpOneByOne, 3}, {Way::kHttpOneByOne, 8}}) {
    auto random = std::make_shared<std::mt19937>(7);
    SimulatedNode node;
    node.run_time = microseconds(50);
    node.come_back = come_back(way, random);
    for (const Duration d : node.come_back(n)) node.arrive_at(node.now() + d);
    for (int i = 0; i < 60; ++i) {
      auto& f = node.run(n);
      std::printf("n %d batch %.2f held %.1f | worth %d expected %d  %s\n", n, f.mean_batch(), double(f.mean_held_back().count())/1e3, node.returns().is_worthwhile(), int(node.returns().num_expected()), node.returns().text().c_str());
    }
  }
}

TEST_CASE("explore" * doctest::skip(getenv("EXPLORE") == nullptr)) {
  const char* names[] = {"together", "1by1", "http", "http1by1"};
  for (const Way way : {Way::kTogether, Way::kOneByOne, Way::kHttp, Way::kHttpOneByOne})
    for (const auto run : {microseconds(50), microseconds(2000)})
      for (const auto timeout : {2, 4, 50})
        for (const int n : {1, 2, 3, 8, 15, 16, 17, 24, 32, 40}) {
          auto random = std::make_shared<std::mt19937>(7);
          SimulatedNode node;
          node.run_time = run;
          node.timeout = milliseconds(timeout);
          node.come_back = come_back(way, random);
          for (const Duration d : node.come_back(n)) node.arrive_at(node.now() + d);
          node.run(n * 100);
          const auto& f = node.run(n * 1000);
          if (timeout != 4 && !(n <= 16 && f.mean_batch() < .94 * n)) continue;
          std::printf("%-9s run %4ld timeout %2d n %2d: batch %5.2f held %7.1f us wait %7.1f us  %6.2f/ms\n",
                      names[int(way)], long(run.count()), timeout, n, f.mean_batch(),
                      double(f.mean_held_back().count()) / 1e3, double(f.mean_wait().count()) / 1e3,
                      f.items_per_ms());
        }
  for (const auto run : {microseconds(50), microseconds(2000)})
    for (const double load : {0.001, .01, .05, .1, .2, .3, .4, .5, .6, .7, .8}) {
      std::mt19937 random(7);
      const double per_us = load * 16 / double(run.count());
      SimulatedNode node;
      node.run_time = run;
      double t = 0;
      for (int i = 0; i < 60000; ++i) {
        t += std::exponential_distribution<>(per_us)(random);
        node.arrive_at(node.now() + Duration(int64_t(t * 1000)));
      }
      node.run(10000);
      const auto& f = node.run(40000);
      std::printf("poisson run %4ld load %.3f rate %.0f/s: batch %5.2f held %.1f us wait %.1f us\n",
                  long(run.count()), load, per_us * 1e6, f.mean_batch(),
                  double(f.mean_held_back().count()) / 1e3, double(f.mean_wait().count()) / 1e3);
    }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
