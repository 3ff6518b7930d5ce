// Who is expected back: no threads, no clock. How it works out over time is in closed_loop_test.cc.
#include "schedule/return_estimator.h"

#include <doctest/doctest.h>

namespace hami {
namespace {

TEST_SUITE_BEGIN("returns");

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A node whose time passes by command, after the first ends at which it looks for more callers.
struct Watched {
  ReturnEstimator returns;
  TimePoint now{std::chrono::seconds(1)};

  Watched() {
    for (int i = 0; i < 5; ++i) run(0);
  }
  void pass(Duration time) { now += time; }
  void arrive(int64_t count) {
    for (int64_t i = 0; i < count; ++i) returns.on_arrival(now, true);
  }
  void start(bool is_in_vain = false) { returns.on_start(now, is_in_vain); }
  void run(int64_t num_items) {
    start();
    pass(milliseconds(1));
    returns.on_end(num_items, now);
  }
};

TEST_CASE("those who were answered are expected until they are back") {
  Watched node;
  node.run(3);
  CHECK(node.returns.num_expected() == 3);
  node.arrive(2);
  CHECK(node.returns.num_expected() == 1);
  node.arrive(5);
  CHECK(node.returns.num_expected() == 0);
}

TEST_CASE("those of several batches are expected together") {
  Watched node;
  node.run(3);
  node.run(2);
  CHECK(node.returns.num_expected() == 5);
}

TEST_CASE("who was waited for in vain is forgotten") {
  Watched node;
  node.run(3);
  node.arrive(1);
  node.returns.on_wait(node.now);
  node.pass(microseconds(200));
  node.start(true);
  CHECK(node.returns.num_expected() == 0);
}

TEST_CASE("a batch that fills forgets nobody") {
  Watched node;
  node.run(3);
  node.arrive(1);
  node.returns.on_wait(node.now);
  node.arrive(1);
  node.start(false);
  CHECK(node.returns.num_expected() == 1);
}

TEST_CASE("where nobody ever comes back nobody is expected") {
  Watched node;
  for (int i = 0; i < 20; ++i) {
    node.run(4);
    node.returns.on_wait(node.now);
    node.pass(microseconds(200));
    node.start(true);
    node.returns.on_end(0, node.now);
  }
  CHECK(!node.returns.is_worthwhile());
  node.run(4);
  CHECK(node.returns.num_expected() == 0);
}

TEST_CASE("of those of whom a part comes back that part is expected") {
  Watched node;
  for (int i = 0; i < 100; ++i) {
    node.run(16);
    node.returns.on_wait(node.now);
    node.pass(microseconds(50));
    node.arrive(10);
    node.start(node.returns.num_expected() > 0);
    node.returns.on_end(0, node.now);
  }
  node.run(16);
  CHECK(node.returns.num_expected() >= 9);
  CHECK(node.returns.num_expected() <= 12);
}

TEST_CASE("where as many come during a run as after it nobody is waited for") {
  Watched node;
  for (int i = 0; i < 40; ++i) {
    node.start();
    for (int k = 0; k < 8; ++k) {
      node.pass(microseconds(100));
      node.arrive(1);
    }
    node.returns.on_end(8, node.now);
    node.returns.on_wait(node.now);
    for (int k = 0; k < 8; ++k) {
      node.pass(microseconds(100));
      node.arrive(1);
    }
  }
  CHECK(!node.returns.is_worthwhile());
}

TEST_CASE("the grace is 200 microseconds, or four times the median of the recent gaps") {
  Watched node;
  CHECK(node.returns.grace() == microseconds(200));
  const auto arrive_with_gaps = [&](int count, Duration gap) {
    for (int i = 0; i < count; ++i) {
      node.pass(gap);
      node.returns.on_arrival(node.now, true);
    }
  };
  arrive_with_gaps(16, microseconds(10));
  CHECK(node.returns.grace() == microseconds(200));
  arrive_with_gaps(16, milliseconds(1));
  CHECK(node.returns.grace() == milliseconds(4));
  arrive_with_gaps(7, milliseconds(90));
  CHECK(node.returns.grace() == milliseconds(4));
  arrive_with_gaps(16, microseconds(1));
  CHECK(node.returns.grace() == microseconds(200));
}

TEST_CASE("after an end the first is waited for as long as the way back takes, up to 3 ms") {
  Watched node;
  for (const auto& [way_back, grace] : {std::pair{milliseconds(1), microseconds(1500)},
                                        std::pair{milliseconds(3), microseconds(3000)}}) {
    for (int i = 0; i < 16; ++i) {
      node.run(1);
      node.pass(way_back);
      node.returns.on_arrival(node.now, false);
    }
    CHECK(node.returns.grace_after_end() == grace);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
