// A pipeline under load without the host language: what requests are made of, and who wakes a
// caller.
#include "graph/pipeline_target.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "load/load_threads.h"
#include "plan_maker.h"
#include "test_backends.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("load");

using std::chrono::milliseconds;
using std::chrono::seconds;

LoadSample sample(int64_t data) {
  LoadSample sample;
  sample.input.put(keys::data, Value(data));
  return sample;
}

std::vector<LoadSample> samples(int64_t num_samples) {
  std::vector<LoadSample> all;
  for (int64_t i = 0; i < num_samples; ++i) all.push_back(sample(i));
  return all;
}

std::shared_ptr<Pipeline> pipeline_of(const std::string& backend) {
  PlanMaker plan;
  plan.add("a", backend);
  return plan.build();
}

// Runs at the gate, which opens at the end.
struct Gated {
  Gated() { Gate::instance().set_open(false); }
  ~Gated() {
    Gate::instance().set_open(true);
    pipeline->close(seconds(10));
  }
  const std::shared_ptr<Pipeline> pipeline = pipeline_of("TestGated");
};

TEST_CASE("samples come in turn, or each with the same chance") {
  const auto pipeline = pipeline_of("Identity");
  const PipelineTarget given(pipeline, samples(3), {}, 1, seconds(1));
  for (int64_t i = 0; i < 9; ++i) CHECK(given.sample_of(i) == static_cast<size_t>(i % 3));

  const PipelineTarget random(pipeline, samples(4), {PipelineTarget::Order::kRandom, 9}, 1,
                              seconds(1));
  const PipelineTarget same(pipeline, samples(4), {PipelineTarget::Order::kRandom, 9}, 1,
                            seconds(1));
  std::vector<int> counts(4);
  for (int64_t i = 0; i < 40'000; ++i) {
    ++counts[random.sample_of(i)];
    CHECK_MESSAGE(random.sample_of(i) == same.sample_of(i), i);
  }
  // Four standard deviations.
  for (int count : counts) CHECK(std::abs(count - 10'000) < 350);
}

TEST_CASE("both loops call the pipeline, and errors of its nodes are theirs") {
  const auto pipeline = pipeline_of("Pow");
  auto inputs = samples(1);
  inputs.emplace_back().input.put(keys::data, Value::str("text"));
  PipelineTarget target(pipeline, inputs, {}, 1, seconds(10));
  ClosedLoop closed(1, {.num_requests = 10});
  closed.begin();
  closed.run(0, target);
  CHECK(closed.figures({}).num_requests == 10);
  CHECK(closed.figures({}).num_errors == 5);

  const auto open = std::make_shared<OpenLoop>(
      OpenLoop::Limits{.rate_per_s = 1e5, .num_requests = 100, .timeout = seconds(10)});
  open->run(target);
  const LoadFigures figures = open->figures({});
  CHECK(figures.num_requests == 100);
  CHECK(figures.num_errors == 50);
  CHECK(figures.latency.count == 50);
}

TEST_CASE("a caller gets an answer that has a deadline on its own clock") {
  Gated gated;
  auto inputs = samples(1);
  inputs[0].time_limit = milliseconds(5);
  PipelineTarget target(gated.pipeline, inputs, {}, 1, seconds(60));
  CHECK(code_of(target.call(0, 0)) == "deadline-exceeded");
  CHECK(code_of(target.call(0, 1)) == "deadline-exceeded");
}

TEST_CASE("a caller takes back what has no answer in time") {
  Gated gated;
  PipelineTarget target(gated.pipeline, samples(1), {}, 1, milliseconds(5));
  CHECK(code_of(target.call(0, 0)) == "load-timeout");
  CHECK(gated.pipeline->num_requests() == 0);
}

TEST_CASE("cancelling wakes the callers who wait, and those who come") {
  Gated gated;
  PipelineTarget target(gated.pipeline, samples(1), {}, 2, seconds(60));
  std::exception_ptr failure;
  std::thread caller([&] { failure = target.call(0, 0); });
  Gate::instance().await_waiting(1);
  target.cancel();
  caller.join();
  CHECK(code_of(failure) == "cancelled");
  CHECK(code_of(target.call(1, 1)) == "cancelled");
}

TEST_CASE("what nobody waits for any more is dropped by the pipeline") {
  Gated gated;
  PipelineTarget target(gated.pipeline, samples(1), {}, 1, milliseconds(5));
  const auto open = std::make_shared<OpenLoop>(
      OpenLoop::Limits{.rate_per_s = 1e5, .num_requests = 10, .timeout = milliseconds(5)});
  open->run(target);
  CHECK(open->figures(target.unanswered()).num_errors == 10);
  Gate::instance().set_open(true);
  gated.pipeline->close(seconds(10));
  CHECK(gated.pipeline->stats()[0].num_items == 1);
  CHECK(gated.pipeline->stats()[0].num_dropped == 9);
}

TEST_CASE("a closed pipeline is gone") {
  const auto pipeline = pipeline_of("Identity");
  PipelineTarget target(pipeline, samples(1), {}, 1, seconds(1));
  CHECK_FALSE(target.is_gone());
  pipeline->close(seconds(1));
  CHECK(code_of(target.call(0, 0)) == "closed");
  CHECK(target.is_gone());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
