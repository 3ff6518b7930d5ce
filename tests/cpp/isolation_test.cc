// One bad item must not fail its batch mates.
#include "schedule/isolation.h"

#include <doctest/doctest.h>

#include <deque>
#include <stdexcept>

#include "core/error.h"
#include "fake_task.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("isolation");

// Raises when a negative number is in the batch; spoils `data` of every item before it does.
class Picky final : public Backend {
 public:
  void forward(Batch batch) override {
    ++num_runs;
    for (Item* item : batch) {
      const int64_t number = item->data().as_int();
      item->dict.put(keys::data, Value(int64_t{-99}));
      if (number < 0) raise();
      item->set_result(Value(number * number));
    }
  }
  void raise() const {
    if (error_kind == "count") {
      throw Error(ErrorKind::kRequest, "backend-result-count", "wrong count");
    }
    if (error_kind == "memory") throw std::bad_alloc();
    throw std::runtime_error("negative");
  }

  int num_runs = 0;
  std::string error_kind;
};

struct Outcome {
  std::deque<FakeTask> tasks;
  Picky backend;

  void run(const std::vector<int64_t>& numbers, bool isolates = true, std::string error = "") {
    backend.error_kind = std::move(error);
    std::vector<Task*> batch;
    for (int64_t number : numbers) batch.push_back(&tasks.emplace_back(number));
    run_batch(backend, batch, isolates);
  }
  std::vector<int64_t> results() const {
    std::vector<int64_t> results;
    for (const FakeTask& task : tasks) {
      const Value* result = task.dict.find(keys::result);
      results.push_back(task.error != nullptr ? -1 : result->as_int());
    }
    return results;
  }
};

TEST_CASE("a good batch runs once") {
  Outcome outcome;
  outcome.run({1, 2, 3});
  CHECK(outcome.results() == std::vector<int64_t>{1, 4, 9});
  CHECK(outcome.backend.num_runs == 1);
}

TEST_CASE("only the bad item fails, and the others run on what they came with") {
  Outcome outcome;
  outcome.run({1, 2, -1, 3});
  CHECK(outcome.results() == std::vector<int64_t>{1, 4, -1, 9});
}

TEST_CASE("one bad item costs at most 2 log2(n) + 1 further runs, wherever it is") {
  for (size_t place = 0; place < 16; ++place) {
    Outcome outcome;
    std::vector<int64_t> numbers(16, 2);
    numbers[place] = -1;
    outcome.run(numbers);
    CHECK(outcome.backend.num_runs - 1 <= 2 * 4 + 1);
    for (size_t i = 0; i < 16; ++i) CHECK(outcome.results()[i] == (i == place ? -1 : 4));
  }
}

TEST_CASE("a batch of bad items fails item by item") {
  Outcome outcome;
  outcome.run({-1, -2, -3});
  CHECK(outcome.results() == std::vector<int64_t>{-1, -1, -1});
}

TEST_CASE("without isolation the whole batch fails after one run") {
  Outcome outcome;
  outcome.run({1, -1}, false);
  CHECK(outcome.results() == std::vector<int64_t>{-1, -1});
  CHECK(outcome.backend.num_runs == 1);
}

TEST_CASE("a batch is not run again out of memory, or when the backend broke its contract") {
  for (const char* error : {"memory", "count"}) {
    Outcome outcome;
    outcome.run({1, -1, 2}, true, error);
    CHECK(outcome.results() == std::vector<int64_t>{-1, -1, -1});
    CHECK(outcome.backend.num_runs == 1);
  }
}

TEST_CASE("an item whose caller has gone drops out between runs") {
  Outcome outcome;
  std::vector<Task*> batch;
  for (int64_t number : {1, 2, -1, 3}) batch.push_back(&outcome.tasks.emplace_back(number));
  outcome.tasks[3].is_gone = true;
  run_batch(outcome.backend, batch, true);
  CHECK(outcome.tasks[3].dict.find(keys::result) == nullptr);
  CHECK(outcome.tasks[0].dict.find(keys::result)->as_int() == 1);
  CHECK(outcome.tasks[2].error != nullptr);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
