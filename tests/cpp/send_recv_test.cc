// Send and Recv in a running graph: who waits, who leaves, and who is told.
#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>

#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("send_recv");

constexpr double kHourMs = 3'600'000;

Value text(const std::string& value) { return Value::str(value); }

// Two entries, `put` and `take`, that both lead to the output.
struct Market {
  explicit Market(int64_t capacity, int64_t waiting_room = 65536) {
    PlanMaker plan;
    const Value room(waiting_room);
    put = plan.add_expr("put",
                        make_expr("Send", {}, {{"queue", text("q")}, {"queue_capacity", room}}));
    take = plan.add_expr("take",
                         make_expr("Recv", {}, {{"queue", text("q")}, {"queue_capacity", room}}));
    const Expr queue = make_expr("Queue", {}, {{"name", text("q")}, {"capacity", Value(capacity)}});
    look = plan.add_expr("look", make_node_expr("look", queue, 8, 1, kHourMs));
    const int end = plan.add("end", "Identity", {put, take, look});
    plan.at(end).is_or = true;
    plan.map(end, {{put, "result", "put"}});
    pipeline = plan.build();
  }
  ~Market() { pipeline->close(Duration::zero()); }

  Ref<Request> submit(int root, int64_t number, TimePoint deadline = TimePoint::max()) const {
    auto request = make_ref<Request>(pipeline, 0);
    request->input.put(keys::data, Value(number));
    request->root = root;
    request->deadline = deadline;
    const Ref<Request> requests[] = {request};
    pipeline->submit(requests);
    return request;
  }
  int64_t num_waiting(const std::string& node) const {
    for (const NodeStats& stats : pipeline->stats()) {
      if (stats.node == node) return stats.num_waiting;
    }
    return -1;
  }

  int put = 0;
  int take = 0;
  int look = 0;
  std::shared_ptr<Pipeline> pipeline;
};

void await(const Ref<Request>& request) {
  while (request->answered.wait() != Event::Wake::kSet) {
  }
}

TEST_CASE("a Recv gets what a later Send puts, and a Send waits for room") {
  const Market market(1);
  const auto taken = market.submit(market.take, 0);
  CHECK_FALSE(taken->is_answered());
  await(market.submit(market.put, 7));
  await(taken);
  CHECK(result_of(taken) == 7);
  await(market.submit(market.put, 8));
  const auto waits = market.submit(market.put, 9);
  CHECK_FALSE(waits->is_answered());
  CHECK(market.num_waiting("put") == 1);
  for (int64_t expected : {8, 9}) {
    const auto next = market.submit(market.take, 0);
    await(next);
    CHECK(result_of(next) == expected);
  }
  await(waits);
  CHECK(result_of(waits) == 9);
}

TEST_CASE("a deadline is answered while the request waits, and its place is free at once") {
  const Market market(1, 1);
  const auto late = market.submit(market.take, 0, Clock::now() + std::chrono::milliseconds(20));
  CHECK_THROWS_AS(market.submit(market.take, 0), Error);
  await(late);
  CHECK(code_of(late->error) == "deadline-exceeded");
  // The answer comes before the place: whoever was told tries again until it is free.
  while (market.num_waiting("take") != 0) std::this_thread::yield();
  const auto next = market.submit(market.take, 0);
  await(market.submit(market.put, 3));
  await(next);
  CHECK(result_of(next) == 3);
}

TEST_CASE("close answers those who wait, without waiting for them") {
  Market market(1);
  await(market.submit(market.put, 1));
  const auto put = market.submit(market.put, 2);
  CHECK_FALSE(market.pipeline->close(std::chrono::hours(1)));
  await(put);
  CHECK(code_of(put->error) == "closed");
}

TEST_CASE("a request that waits is not counted as one that may come to a batch") {
  const Market market(1);
  std::vector<Ref<Request>> takes;
  for (int i = 0; i < 10; ++i) takes.push_back(market.submit(market.take, 0));
  // `look` would wait an hour for company; but nobody else can come.
  await(market.submit(market.look, 5));
  for (const auto& one : takes) CHECK(one->cancel());
  while (market.num_waiting("take") != 0) std::this_thread::yield();
}

TEST_CASE("under threads that cancel, what was put is taken once or still there") {
  constexpr int kNumPerThread = 1000;
  const Market market(3);
  std::vector<std::vector<Ref<Request>>> requests(8);
  const auto work = [&](size_t index) {
    const bool puts = index % 2 == 0;
    for (int i = 0; i < kNumPerThread; ++i) {
      const auto deadline =
          i % 5 == 0 ? Clock::now() + std::chrono::microseconds(i % 300) : TimePoint::max();
      const int64_t number = static_cast<int64_t>(index) * kNumPerThread + i;
      requests[index].push_back(market.submit(puts ? market.put : market.take, number, deadline));
      if (i % 3 == 0) requests[index][static_cast<size_t>(i / 2)]->cancel();
    }
  };
  std::vector<std::thread> threads;
  for (size_t index = 0; index < requests.size(); ++index) threads.emplace_back(work, index);
  for (std::thread& thread : threads) thread.join();
  for (const auto& some : requests) {
    for (const auto& one : some) one->cancel();
  }
  while (market.num_waiting("put") + market.num_waiting("take") != 0) std::this_thread::yield();
  std::set<int64_t> seen;
  size_t num_seen = 0;
  size_t num_answered = 0;
  for (size_t index = 0; index < requests.size(); ++index) {
    for (const auto& one : requests[index]) {
      await(one);
      ++num_answered;
      if (index % 2 == 0 || one->error != nullptr) continue;
      seen.insert(result_of(one));
      ++num_seen;
    }
  }
  CHECK(num_answered == 8 * kNumPerThread);
  CHECK(seen.size() == num_seen);
  CHECK(seen.count(-1) == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
