// Requests at a rate: when they are sent, what counts as their latency, and what becomes of those
// without an answer. All of it in simulated time.
#include "load/open_loop.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "fake_time.h"
#include "load/closed_loop.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("load");

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Target final : public OpenTarget {
 public:
  using OnStart = std::function<void(const OpenCall&)>;
  Target(FakeTime& time, OnStart on_start) : time_(time), on_start_(std::move(on_start)) {}

  void start(const OpenCall& call) override {
    sent_at.push_back(time_.now());
    on_start_(call);
  }
  bool is_gone() noexcept override { return has_gone; }

  std::vector<TimePoint> sent_at;
  bool has_gone = false;

 private:
  FakeTime& time_;
  const OnStart on_start_;
};

void answer_at_once(const OpenCall& call) { call.end(nullptr); }

std::exception_ptr error(const char* code) {
  return std::make_exception_ptr(Error(ErrorKind::kRequest, code, "no"));
}

OpenLoop::Limits fixed(double rate_per_s) {
  return {.rate_per_s = rate_per_s, .arrivals = Arrivals::Kind::kFixed};
}

// Runs a loop to its end.
LoadFigures run(OpenLoop::Limits limits, FakeTime& time, Target& target) {
  const auto loop = std::make_shared<OpenLoop>(limits, time);
  loop->run(target);
  return loop->figures(error("unanswered"));
}

TEST_CASE("requests are sent exactly when they are due") {
  FakeTime time;
  Target target(time, answer_at_once);
  auto limits = fixed(1000);
  limits.num_requests = 500;
  const LoadFigures figures = run(limits, time, target);
  REQUIRE(target.sent_at.size() == 500);
  for (int i = 0; i < 500; ++i) {
    CHECK_MESSAGE(target.sent_at[static_cast<size_t>(i)] == TimePoint(milliseconds(i)), i);
  }
  CHECK(figures.num_requests == 500);
  CHECK(figures.lateness.max_ms == 0);
}

TEST_CASE("the times of a seed are the same whatever the answers do") {
  std::vector<TimePoint> sent_at[2];
  for (const bool is_slow : {false, true}) {
    FakeTime time;
    Target target(time, [&](const OpenCall& call) {
      if (is_slow) {
        time.at(time.now() + seconds(2), [call] { call.end(nullptr); });
      } else {
        call.end(nullptr);
      }
    });
    run({.rate_per_s = 300, .seed = 3, .duration = seconds(1)}, time, target);
    sent_at[is_slow ? 1 : 0] = target.sent_at;
  }
  CHECK(sent_at[0].size() > 200);
  CHECK(sent_at[0] == sent_at[1]);
}

TEST_CASE("a round lasts its duration, and sends nothing at its end") {
  FakeTime time;
  Target target(time, answer_at_once);
  auto limits = fixed(100);
  limits.duration = seconds(2);
  const LoadFigures figures = run(limits, time, target);
  CHECK(figures.num_requests == 200);
  CHECK(figures.seconds == 2);
  CHECK(figures.throughput_per_s() == 100);
}

TEST_CASE("a sender that wakes late says so, and its delay is in the latencies") {
  FakeTime time;
  time.oversleep = milliseconds(3);
  Target target(time, answer_at_once);
  auto limits = fixed(100);
  limits.num_requests = 50;
  const LoadFigures figures = run(limits, time, target);
  CHECK(figures.lateness.p50_ms == doctest::Approx(3).epsilon(0.005));
  CHECK(figures.lateness.max_ms == 3);
  CHECK(figures.latency.p50_ms == doctest::Approx(3).epsilon(0.005));
}

// One server, first come, first served, which takes 100 us for each and stands still from the
// second 5 to the second 6.
struct StallingServer {
  explicit StallingServer(FakeTime& time) : time(time) {}
  TimePoint end_of(TimePoint arrival) {
    TimePoint start = std::max(arrival, free_at);
    const TimePoint stall{seconds(5)};
    if (start >= stall && start < stall + seconds(1)) start = stall + seconds(1);
    return free_at = start + microseconds(100);
  }

  FakeTime& time;
  TimePoint free_at{};
};

struct CallsOfStallingServer final : ClosedTarget {
  explicit CallsOfStallingServer(StallingServer& server) : server(server) {}
  std::exception_ptr call(size_t, int64_t) noexcept override {
    server.time.pass(server.end_of(server.time.now()) - server.time.now());
    return nullptr;
  }
  StallingServer& server;
};

TEST_CASE("a target that stalls shows in p99, as it does not in a closed loop") {
  FakeTime time;
  StallingServer server(time);
  Target target(time, [&](const OpenCall& call) {
    time.at(server.end_of(time.now()), [call] { call.end(nullptr); });
  });
  auto limits = fixed(1000);
  limits.duration = seconds(10);
  const LoadFigures open = run(limits, time, target);
  // A tenth of all requests were due while it stood still, those in the middle half a second early.
  CHECK(open.num_requests == 10'000);
  CHECK(open.latency.p50_ms == doctest::Approx(0.1).epsilon(0.01));
  CHECK(open.latency.p99_ms > 850);
  CHECK(open.latency.max_ms == doctest::Approx(1000.1));

  FakeTime closed_time;
  StallingServer same(closed_time);
  CallsOfStallingServer calls(same);
  ClosedLoop loop(1, {.duration = seconds(10)}, closed_time);
  loop.begin();
  loop.run(0, calls);
  // Its caller was held back as well: one request knows of the stall, of ninety thousand.
  const LoadFigures closed = loop.figures({});
  CHECK(closed.latency.p99_ms == doctest::Approx(0.1).epsilon(0.01));
  CHECK(closed.latency.max_ms == doctest::Approx(1000.1));
}

TEST_CASE("what is refused or fails is counted, and the first in the order of sending is told") {
  FakeTime time;
  Target target(time, [&](const OpenCall& call) {
    if (call.number == 3) throw Error(ErrorKind::kQueueFull, "queue-full", "full");
    // It fails before the other does, and was sent later.
    const Duration delay = call.number == 1 ? seconds(1) : Duration::zero();
    const bool is_bad = call.number == 1 || call.number == 2;
    time.at(time.now() + delay, [=] { call.end(is_bad ? error("bad") : nullptr); });
  });
  auto limits = fixed(1000);
  limits.num_requests = 10;
  const LoadFigures figures = run(limits, time, target);
  CHECK(figures.num_requests == 10);
  CHECK(figures.num_errors == 3);
  CHECK(code_of(figures.first_error) == "bad");
  CHECK(figures.latency.count == 7);
  CHECK(figures.latency.max_ms < 1);
}

TEST_CASE("more requests in flight than allowed are errors of their own") {
  FakeTime time;
  Target target(time, [&](const OpenCall& call) {
    time.at(TimePoint(seconds(5)), [call] { call.end(nullptr); });
  });
  auto limits = fixed(10);
  limits.num_requests = 10;
  limits.max_in_flight = 4;
  const LoadFigures figures = run(limits, time, target);
  CHECK(target.sent_at.size() == 4);
  CHECK(figures.num_requests == 10);
  CHECK(figures.num_errors == 6);
  CHECK(code_of(figures.first_error) == "load-in-flight");
}

TEST_CASE("what has no answer in time is an error, and one that comes later changes nothing") {
  FakeTime time;
  std::vector<OpenCall> open;
  Target target(time, [&](const OpenCall& call) {
    if (call.number < 6) return call.end(nullptr);
    open.push_back(call);
  });
  auto limits = fixed(10);
  limits.num_requests = 10;
  limits.timeout = seconds(3);
  const auto loop = std::make_shared<OpenLoop>(limits, time);
  loop->run(target);
  CHECK(time.now() == TimePoint(milliseconds(3900)));
  const LoadFigures figures = loop->figures(error("unanswered"));
  CHECK(figures.num_requests == 10);
  CHECK(figures.num_errors == 4);
  CHECK(code_of(figures.first_error) == "unanswered");
  for (const OpenCall& call : open) {
    CHECK(call.is_moot());
    call.end(nullptr);
  }
  CHECK(loop->figures(error("unanswered")).num_requests == 10);
}

TEST_CASE("a target that is gone ends the loop") {
  FakeTime time;
  Target target(time, [&](const OpenCall& call) {
    if (call.number < 5) return call.end(nullptr);
    target.has_gone = true;
    throw Error(ErrorKind::kClosed, "closed", "closed");
  });
  const auto loop = std::make_shared<OpenLoop>(fixed(10), time);
  loop->run(target);
  CHECK(loop->was_cut_short());
  const LoadFigures figures = loop->figures({});
  CHECK(figures.num_requests == 6);
  CHECK(figures.num_errors == 1);
}

TEST_CASE("a loop that is stopped sends no more and waits for nobody") {
  FakeTime time;
  Target target(time, [](const OpenCall&) {});
  const auto loop = std::make_shared<OpenLoop>(fixed(10), time);
  time.at(TimePoint(milliseconds(450)), [&] { loop->stop(); });
  loop->run(target);
  CHECK(target.sent_at.size() == 5);
  CHECK(time.now() == TimePoint(milliseconds(450)));
  CHECK(loop->was_cut_short());
}

TEST_CASE("a loop that is stopped while it waits for answers ends as well") {
  FakeTime time;
  Target target(time, [](const OpenCall&) {});
  auto limits = fixed(10);
  limits.num_requests = 1;
  const auto loop = std::make_shared<OpenLoop>(limits, time);
  time.at(TimePoint(seconds(7)), [&] { loop->stop(); });
  loop->run(target);
  CHECK(time.now() == TimePoint(seconds(7)));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
