// Conditions and what divides batches: without a pipeline, a thread or the host language.
#include "core/condition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>

#include "builtin/batch_parts.h"
#include "core/error.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("conditions");

// Holds for numbers above 10; raises for negative ones.
class Big final : public Condition {
 public:
  explicit Big(Backends branches = {}) : Condition(std::move(branches)) {}
  bool holds(const Item& item) const override {
    const int64_t number = item.data().as_int();
    if (number < 0) throw std::runtime_error("negative");
    return number > 10;
  }
};

// Remembers the batches it ran, and gives `mark`.
class Marker final : public Backend {
 public:
  explicit Marker(int64_t mark, BatchRange range = {}) : mark_(mark), range_(range) {}
  void forward(Batch batch) override {
    sizes.push_back(batch.size());
    for (Item* item : batch) item->set_result(Value(mark_));
  }
  BatchRange batch_range() const override { return range_; }

  std::vector<size_t> sizes;

 private:
  int64_t mark_;
  BatchRange range_;
};

struct Items {
  explicit Items(const std::vector<int64_t>& numbers) {
    for (int64_t number : numbers) {
      items.emplace_back().dict.put(keys::data, Value(number));
      batch.push_back(&items.back());
    }
  }
  // -1: no result; -2: an error.
  std::vector<int64_t> results() const {
    std::vector<int64_t> results;
    for (const Item& item : items) {
      const Value* result = item.dict.find(keys::result);
      results.push_back(item.error != nullptr ? -2 : result == nullptr ? -1 : result->as_int());
    }
    return results;
  }

  std::deque<Item> items;
  std::vector<Item*> batch;
};

using Results = std::vector<int64_t>;

TEST_CASE("alone it lets items pass or ends them without a result") {
  Items items({3, 20, -1});
  items.items[0].set_result(Value(int64_t{99}));
  Big().forward(items.batch);
  CHECK(items.results() == Results{-1, 20, -2});
  CHECK(Big().traits().may_skip);
}

TEST_CASE("with one branch the others pass unchanged, with two they take the second") {
  auto large = std::make_shared<Marker>(1);
  auto small = std::make_shared<Marker>(0);
  Items one({3, 20, 30, -1});
  Big({large}).forward(one.batch);
  CHECK(one.results() == Results{3, 1, 1, -2});
  Items two({3, 20, 30, -1});
  Big({large, small}).forward(two.batch);
  CHECK(two.results() == Results{0, 1, 1, -2});
  CHECK(large->sizes == std::vector<size_t>{2, 2});
  CHECK(small->sizes == std::vector<size_t>{1});
  CHECK_FALSE(Big({large, small}).traits().may_skip);
}

TEST_CASE("an item that has failed before is asked nothing and stays failed") {
  Items items({20});
  items.items[0].error = std::make_exception_ptr(std::runtime_error("before"));
  auto large = std::make_shared<Marker>(1);
  Big({large}).forward(items.batch);
  CHECK(large->sizes.empty());
  CHECK(describe(items.items[0].error) == "before");
}

TEST_CASE("a part below the min of its branch fails, the other runs") {
  auto pairs = std::make_shared<Marker>(1, BatchRange{2, 8});
  auto small = std::make_shared<Marker>(0);
  Items items({20, 1, 2});
  Big big({pairs, small});
  CHECK(big.batch_range() == BatchRange{2, 8});
  big.forward(items.batch);
  CHECK(items.results() == Results{-2, 0, 0});
  CHECK(code_of(items.items[0].error) == "request-too-small");
}

TEST_CASE("branches without a common range are a build error") {
  const auto one = std::make_shared<Marker>(0, BatchRange{1, 1});
  const auto pairs = std::make_shared<Marker>(0, BatchRange{2, 8});
  CHECK_THROWS_AS(Big({one, pairs}), Error);
}

// --- chance ---

std::shared_ptr<Condition> make_random(double probability, int64_t seed, int instance = 0,
                                       const char* node = "node") {
  Scope scope(std::make_shared<PipelineLoad>());
  const Dict params;
  BuildContext context{
      .scope = scope, .node_name = node, .node_params = params, .instance_index = instance};
  const Expr expr =
      make_expr("Random", {}, {{"probability", Value(probability)}, {"seed", Value(seed)}});
  return std::dynamic_pointer_cast<Condition>(build(expr, context));
}

std::vector<bool> draw(const Condition& random, int count = 2000) {
  std::vector<bool> drawn;
  const Item item;
  for (int i = 0; i < count; ++i) drawn.push_back(random.holds(item));
  return drawn;
}

TEST_CASE("streams are the same again, and differ by seed, instance and node") {
  const auto drawn = draw(*make_random(0.5, 7));
  CHECK(drawn == draw(*make_random(0.5, 7)));
  CHECK(drawn != draw(*make_random(0.5, 8)));
  CHECK(drawn != draw(*make_random(0.5, 7, 1)));
  CHECK(drawn != draw(*make_random(0.5, 7, 0, "other")));
}

TEST_CASE("the share of items is the probability") {
  for (double probability : {0.0, 0.01, 0.3, 0.5, 0.99, 1.0}) {
    const auto drawn = draw(*make_random(probability, 1), 20000);
    const auto held = static_cast<double>(std::ranges::count(drawn, true)) / 20000;
    const double deviation = std::sqrt(probability * (1 - probability) / 20000);
    CHECK(std::abs(held - probability) <= 5 * deviation);
  }
}

TEST_CASE("a prefix that names no condition is a build error") {
  PlanMaker plan;
  Expr stage = make_expr("Pow");
  stage.condition = std::make_shared<Expr>(make_expr("Identity"));
  plan.add_expr("node", make_node_expr("node", make_expr("S", {std::move(stage)})));
  try {
    plan.build();
    FAIL("built");
  } catch (const Error& error) {
    CHECK(error.code() == "build-no-condition");
  }
}

// --- dividing a batch ---

std::vector<std::vector<int64_t>> divide(const std::vector<int64_t>& rows, size_t num_parts,
                                         BatchRange range) {
  Items items(rows);
  for (size_t i = 0; i < rows.size(); ++i) items.items[i].rows = rows[i];
  std::vector<std::vector<int64_t>> parts;
  for (const Batch& part : divide_batch(items.batch, num_parts, range)) {
    parts.emplace_back();
    for (const Item* item : part) parts.back().push_back(item->rows);
  }
  return parts;
}

using Parts = std::vector<std::vector<int64_t>>;
const BatchRange kAny{};

TEST_CASE("parts are about equal") {
  CHECK(divide({1, 1, 1, 1}, 2, kAny) == Parts{{1, 1}, {1, 1}});
  CHECK(divide({1, 1, 1, 1, 1}, 2, kAny) == Parts{{1, 1}, {1, 1, 1}});
  CHECK(divide({1, 1}, 4, kAny) == Parts{{1}, {1}});
  CHECK(divide({7}, 4, kAny) == Parts{{7}});
  CHECK(divide({4, 1, 1, 1, 1}, 2, kAny) == Parts{{4}, {1, 1, 1, 1}});
}

TEST_CASE("no part exceeds max, and few rows stay together for min") {
  CHECK(divide({3, 3, 2}, 2, {1, 4}) == Parts{{3}, {3}, {2}});
  CHECK(divide({1, 1, 1, 1, 1}, 4, {2, 4}) == Parts{{1, 1}, {1, 1, 1}});
  CHECK(divide({1}, 4, {2, 4}) == Parts{{1}});
}

TEST_CASE("every item is in one part, in order, whatever the rows") {
  uint64_t state = 1;
  const auto next = [&](int64_t limit) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int64_t>(state >> 33) % limit;
  };
  for (int round = 0; round < 2000; ++round) {
    const int64_t max = 1 + next(8);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i <= next(20); ++i) rows.push_back(1 + next(max));
    const auto num_parts = static_cast<size_t>(1 + next(6));
    std::vector<int64_t> joined;
    for (const auto& part : divide(rows, num_parts, {1, max})) {
      int64_t sum = 0;
      for (int64_t more : part) sum += more;
      REQUIRE(sum <= max);
      REQUIRE_FALSE(part.empty());
      joined.insert(joined.end(), part.begin(), part.end());
    }
    REQUIRE(joined == rows);
  }
}

TEST_CASE("rows beyond counting do not overflow") {
  const int64_t huge = BatchRange::kAny / 4;
  CHECK(divide({huge, huge, huge}, 3, kAny) == Parts{{huge}, {huge}, {huge}});
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
