// A pipeline's life: admission, deadlines, close.
#include <doctest/doctest.h>

#include <thread>

#include "fake_task.h"
#include "plan_maker.h"
#include "test_backends.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("pipeline");

struct Gated {
  Gated() { Gate::instance().set_open(false); }
  ~Gated() { open(); }
  static void open() { Gate::instance().set_open(true); }

  void build(int64_t max_in_flight = 0, int64_t capacity = 65536) {
    plan.add("gate", "TestGated");
    plan.plan.settings.max_in_flight = max_in_flight;
    Expr& injection = plan.plan.nodes[0].expr.children[1].children[0];
    injection.children[1].params.put(Key::intern("queue_capacity"), Value(capacity));
    pipeline = plan.build();
  }
  Ref<Request> submit(int64_t data, TimePoint deadline = TimePoint::max()) {
    auto request = make_ref<Request>(pipeline, 0);
    request->input.put(keys::data, Value(data));
    request->deadline = deadline;
    const Ref<Request> requests[] = {request};
    pipeline->submit(requests);
    return request;
  }
  std::string code_of_submit() {
    try {
      submit(0);
    } catch (const Error& error) {
      return error.code();
    }
    return "";
  }
  static void wait(const Ref<Request>& request) {
    while (request->answered.wait() != Event::Wake::kSet) {
    }
  }

  PlanMaker plan;
  std::shared_ptr<Pipeline> pipeline;
};

TEST_CASE("the waiting room holds exactly its capacity") {
  Gated gated;
  gated.build(0, 2);
  const auto running = gated.submit(0);
  Gate::instance().await_waiting(1);
  const auto first = gated.submit(1);
  const auto second = gated.submit(2);
  CHECK(gated.code_of_submit() == "queue-full");
  Gated::open();
  for (const auto& request : {running, first, second}) {
    Gated::wait(request);
    CHECK(request->error == nullptr);
  }
  CHECK(result_of(gated.submit(3)) <= 3);
}

TEST_CASE("max_in_flight bounds what is inside, and a refusal changes nothing") {
  Gated gated;
  gated.build(1);
  const auto running = gated.submit(0);
  CHECK(gated.code_of_submit() == "queue-full");
  CHECK(gated.pipeline->num_requests() == 1);
  Gated::open();
  Gated::wait(running);
  Gated::wait(gated.submit(1));
}

TEST_CASE("a deadline is answered while the only instance is busy, and what waits never runs") {
  Gated gated;
  gated.build();
  const auto running = gated.submit(0);
  Gate::instance().await_waiting(1);
  const auto late = gated.submit(1, Clock::now() + std::chrono::milliseconds(5));
  Gated::wait(late);
  CHECK(code_of(late->error) == "deadline-exceeded");
  CHECK_FALSE(running->is_answered());
  Gated::open();
  Gated::wait(running);
  gated.pipeline->close(std::chrono::seconds(5));
  CHECK(gated.pipeline->stats()[0].num_items == 1);
  CHECK(gated.pipeline->stats()[0].num_dropped == 1);
}

TEST_CASE("a deadline may be taken back while the timer waits for it") {
  Gated gated;
  gated.build();
  const auto running = gated.submit(0);
  Gate::instance().await_waiting(1);
  const auto taken_back = gated.submit(1, Clock::now() + std::chrono::milliseconds(10));
  CHECK(taken_back->cancel());
  // The timer wakes for the first, which is gone, and then for this one.
  const auto late = gated.submit(2, Clock::now() + std::chrono::milliseconds(20));
  Gated::wait(late);
  CHECK(code_of(taken_back->error) == "cancelled");
  CHECK(code_of(late->error) == "deadline-exceeded");
  Gated::open();
  Gated::wait(running);
}

TEST_CASE("close answers what waits and what runs, and refuses what comes") {
  Gated gated;
  gated.build();
  const auto running = gated.submit(0);
  Gate::instance().await_waiting(1);
  const auto waiting = gated.submit(1);
  CHECK_FALSE(gated.pipeline->close(Duration::zero()));
  for (const auto& request : {running, waiting}) {
    Gated::wait(request);
    CHECK(code_of(request->error) == "closed");
  }
  CHECK(gated.code_of_submit() == "closed");
}

TEST_CASE("what nobody waits for any more is no error of a closed node") {
  Gated gated;
  gated.build();
  gated.pipeline->close(std::chrono::seconds(5));
  FakeTask gone;
  gone.is_gone = true;
  FakeTask wanted;
  Task* const tasks[] = {&gone, &wanted};
  gated.pipeline->node(0).entry->start(tasks);
  CHECK(gated.pipeline->stats()[0].num_dropped == 1);
  CHECK(gated.pipeline->stats()[0].num_errors == 1);
}

TEST_CASE("close lets what is inside end in its time") {
  Gated gated;
  gated.build();
  const auto running = gated.submit(6);
  Gate::instance().await_waiting(1);
  std::thread closer([&] { CHECK(gated.pipeline->close(std::chrono::seconds(30))); });
  while (!gated.pipeline->is_closed()) std::this_thread::yield();
  Gated::open();
  closer.join();
  CHECK(result_of(running) == 6);
}

TEST_CASE("a cancelled request is answered and never runs") {
  Gated gated;
  gated.build();
  const auto running = gated.submit(0);
  Gate::instance().await_waiting(1);
  const auto waiting = gated.submit(1);
  waiting->cancel();
  CHECK(code_of(waiting->error) == "cancelled");
  Gated::open();
  Gated::wait(running);
  gated.pipeline->close(std::chrono::seconds(5));
  CHECK(gated.pipeline->stats()[0].num_items == 1);
}

TEST_CASE("a node that cannot be made leaves no thread behind") {
  PlanMaker plan;
  const int a = plan.add("a", "TestGated");
  plan.add("b", "TestUnbuildable", {a});
  CHECK_THROWS_AS(plan.build(), const Error&);
}

TEST_CASE("plain compute as an entry gets a scheduler around it") {
  PlanMaker plan;
  plan.add_expr("node", make_expr("S", {make_expr("Pow"), make_expr("Pow")}));
  CHECK(result_of(run(plan.build(), Value(int64_t{2}))) == 16);
}

TEST_CASE("names belong to one pipeline") {
  PlanMaker plan;
  plan.add("same", "Pow");
  const auto first = plan.build();
  const auto second = plan.build();
  CHECK(result_of(run(first, Value(int64_t{2}))) == 4);
  CHECK(result_of(run(second, Value(int64_t{3}))) == 9);
}

TEST_CASE("a request above every max is refused, and its neighbours run") {
  PlanMaker plan;
  plan.add("a", "Identity");
  const auto pipeline = plan.build();
  auto large = make_ref<Request>(pipeline, 0);
  large->input.put(keys::data, Value(int64_t{1}));
  large->rows = 2;
  const Ref<Request> requests[] = {large};
  pipeline->submit(requests);
  Gated::wait(large);
  CHECK(code_of(large->error) == "request-too-large");
  CHECK(result_of(run(pipeline, Value(int64_t{5}), false)) == 5);
}

TEST_CASE("many threads get their own answers") {
  PlanMaker plan;
  const int a = plan.add_expr("a", make_node_expr("a", make_expr("Identity"), 8, 2, 0.1));
  plan.add_expr("b", make_node_expr("b", make_expr("Pow"), 4, 3, 0.1), {a});
  const auto pipeline = plan.build();
  std::vector<std::thread> callers;
  std::atomic<int> num_wrong{0};
  for (int64_t caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      for (int64_t i = 0; i < 300; ++i) {
        const int64_t data = caller * 1000 + i;
        if (result_of(run(pipeline, Value(data), i % 2 == 0)) != data * data) ++num_wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(num_wrong == 0);
  CHECK(pipeline->num_requests() == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
