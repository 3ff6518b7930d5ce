// Built-ins that hold others: threads that a backend owns, figures of runs, copies side by side.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <deque>

#include "builtin/worker_threads.h"
#include "core/profiled.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("blocks");

// Backends built outside a pipeline, as one instance builds them.
struct Bench {
  std::shared_ptr<Backend> make(const Expr& expr) { return build(expr, context); }

  std::shared_ptr<PipelineLoad> load = std::make_shared<PipelineLoad>();
  Scope scope{load};
  Dict params;
  BuildContext context{.scope = scope, .node_name = "node", .node_params = params};
};

std::vector<int64_t> run_all(Backend& backend, const std::vector<Value>& data) {
  std::deque<Item> items;
  std::vector<Item*> batch;
  for (const Value& value : data) {
    items.emplace_back().dict.put(keys::data, value);
    batch.push_back(&items.back());
  }
  backend.forward(batch);
  std::vector<int64_t> results;
  for (const Item& item : items) {
    const Value* result = item.dict.find(keys::result);
    results.push_back(item.error != nullptr ? -2 : result == nullptr ? -1 : result->as_int());
  }
  return results;
}

Value number(int64_t value) { return Value(value); }

// --- threads ---

TEST_CASE("all threads run at the same time, each with its own index") {
  WorkerThreads threads(4, "test");
  std::barrier together(4);
  std::atomic<int> sum{0};
  for (int round = 0; round < 50; ++round) {
    threads.run(4, [&](size_t index) {
      together.arrive_and_wait();
      sum += static_cast<int>(index);
    });
  }
  CHECK(sum == 50 * (0 + 1 + 2 + 3));
}

TEST_CASE("only as many threads run as are asked for") {
  WorkerThreads threads(4, "test");
  std::atomic<int> num_runs{0};
  threads.run(2, [&](size_t index) {
    CHECK(index < 2);
    ++num_runs;
  });
  CHECK(num_runs == 2);
}

TEST_CASE("threads that never worked end as well") {
  for (int round = 0; round < 20; ++round)
    WorkerThreads threads(3, "a name longer than the kernel");
}

// --- the pool ---

TEST_CASE("a pool answers every item, and fails only the bad ones") {
  Bench bench;
  const auto pool =
      bench.make(make_expr("ThreadPoolExecutor", {make_expr("Pow")}, {{"num_threads", number(3)}}));
  std::vector<Value> data;
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 200; ++i) {
    data.push_back(i % 7 == 0 ? Value() : number(i));
    expected.push_back(i % 7 == 0 ? -2 : i * i);
  }
  CHECK(run_all(*pool, data) == expected);
}

TEST_CASE("a pool bisects the part that raises") {
  Bench bench;
  Expr broken = make_expr("HasKey", {make_expr("TestBroken"), make_expr("Pow")},
                          {{"key", Value::str(std::string("bad"))}});
  const auto pool = bench.make(
      make_expr("ThreadPoolExecutor", {std::move(broken)}, {{"num_threads", number(2)}}));
  std::deque<Item> items;
  std::vector<Item*> batch;
  for (int64_t i = 0; i < 8; ++i) {
    items.emplace_back().dict.put(keys::data, number(i));
    if (i == 5) items.back().dict.put(Key::intern("bad"), Value());
    batch.push_back(&items.back());
  }
  pool->forward(batch);
  for (int64_t i = 0; i < 8; ++i) {
    const Item& item = items[static_cast<size_t>(i)];
    CHECK((item.error != nullptr) == (i == 5));
    if (i != 5) CHECK(item.dict.find(keys::result)->as_int() == i * i);
  }
}

TEST_CASE("a pool takes as many rows as its copies together, and is neither inline nor reentrant") {
  Bench bench;
  const auto pool = bench.make(make_expr("ThreadPoolExecutor",
                                         {make_expr("Identities", {}, {{"max", number(4)}})},
                                         {{"num_threads", number(3)}}));
  CHECK(pool->batch_range() == BatchRange{1, 12});
  const auto any = bench.make(make_expr("ThreadPoolExecutor", {make_expr("Pow")}));
  CHECK(any->batch_range() == BatchRange{});
  CHECK_FALSE(any->traits().is_inline);
  CHECK_FALSE(any->traits().is_reentrant);
}

TEST_CASE("a child that cannot be made leaves no pool behind") {
  Bench bench;
  CHECK_THROWS_AS(bench.make(make_expr("ThreadPoolExecutor", {make_expr("TestUnbuildable")})),
                  Error);
}

// --- traits of containers ---

TEST_CASE("containers of inline and reentrant backends are both, others are not") {
  Bench bench;
  const auto has_key = [](std::vector<Expr> branches) {
    return make_expr("HasKey", std::move(branches), {{"key", Value::str(std::string("k"))}});
  };
  for (const char* name : {"S", "List", "Or", "Tuple", "FakeInstance", "Profile"}) {
    CAPTURE(name);
    const auto all = bench.make(make_expr(name, {make_expr("Pow")}));
    CHECK(all->traits().is_inline);
    CHECK(all->traits().is_reentrant);
    const auto some = bench.make(make_expr(name, {make_expr("TestGated")}));
    CHECK_FALSE(some->traits().is_inline);
    CHECK_FALSE(some->traits().is_reentrant);
  }
  CHECK(bench.make(has_key({make_expr("Pow"), make_expr("S", {make_expr("Pow")})}))
            ->traits()
            .is_inline);
  CHECK_FALSE(bench.make(has_key({make_expr("Pow"), make_expr("TestGated")}))->traits().is_inline);
}

TEST_CASE("a chain may end without a result only where nothing catches it") {
  Bench bench;
  const auto has_key = [] {
    return make_expr("HasKey", {}, {{"key", Value::str(std::string("k"))}});
  };
  const auto may_skip = [&](const char* name, std::vector<Expr> children) {
    return bench.make(make_expr(name, std::move(children)))->traits().may_skip;
  };
  Expr otherwise = make_expr("Pow");
  otherwise.prefix = "or";
  Expr asked = make_expr("Pow");
  asked.prefix = "HasKey(k)";
  asked.condition = std::make_shared<Expr>(has_key());
  CHECK_FALSE(may_skip("S", {make_expr("Pow")}));
  CHECK(may_skip("S", {has_key(), make_expr("Pow")}));
  CHECK_FALSE(may_skip("S", {has_key(), otherwise}));
  CHECK_FALSE(may_skip("S", {has_key(), make_expr("ThrowIfNoResult")}));
  CHECK(may_skip("S", {has_key(), otherwise, has_key()}));
  CHECK_FALSE(may_skip("S", {asked}));
  CHECK(may_skip("Or", {make_expr("Pow"), has_key()}));
  CHECK_FALSE(may_skip("Or", {has_key(), make_expr("Pow")}));
  CHECK_FALSE(may_skip("ThrowIfNoResult", {has_key()}));
  CHECK(may_skip("ThreadPoolExecutor", {has_key()}));
}

TEST_CASE("a condition's key is among what a chain reads, in a prefix and inside a pool") {
  Bench bench;
  Expr asked = make_expr("Pow");
  asked.condition =
      std::make_shared<Expr>(make_expr("HasKey", {}, {{"key", Value::str(std::string("wanted"))}}));
  const auto pool =
      bench.make(make_expr("ThreadPoolExecutor", {make_expr("S", {std::move(asked)})}));
  std::vector<Key> reads;
  pool->collect_reads(reads);
  CHECK(std::ranges::find(reads, Key::intern("wanted")) != reads.end());
}

// --- figures ---

TEST_CASE("a profile counts runs, items and rows, and is among the services") {
  Bench bench;
  const auto profile = bench.make(make_expr("Profile", {make_expr("Pow")}));
  run_all(*profile, {number(1), number(2)});
  run_all(*profile, {number(3)});
  const auto* service = dynamic_cast<const Profiled*>(bench.scope.services().back().get());
  REQUIRE(service != nullptr);
  const RunFigures figures = service->figures();
  CHECK(figures.node == "node");
  CHECK(figures.backend == "Pow");
  CHECK(figures.run.count == 2);
  CHECK(figures.num_items == 3);
  CHECK(figures.num_rows == 3);
  CHECK(figures.num_raised == 0);
  CHECK(figures.run.p50_ms <= figures.run.max_ms);
}

TEST_CASE("a run that raises counts, and raises") {
  Bench bench;
  const auto profile = bench.make(make_expr("Profile", {make_expr("TestBroken")}));
  CHECK_THROWS(run_all(*profile, {number(1)}));
  const auto* service = dynamic_cast<const Profiled*>(bench.scope.services().back().get());
  CHECK(service->figures().run.count == 1);
  CHECK(service->figures().num_raised == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
