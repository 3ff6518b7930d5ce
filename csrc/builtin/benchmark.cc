// `Benchmark(num_clients, num_requests)[X]`: the result is what X did under load. Clients, each a
// thread, call X with copies of the item, the next one as soon as the last has returned (a closed
// loop), until `num_requests` calls are made.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "builtin/copies.h"
#include "builtin/worker_threads.h"
#include "core/error.h"
#include "core/event.h"

namespace hami {
namespace {

struct Tally {
  std::vector<double> latencies_ms;
  int64_t num_errors = 0;
  // The failed call with the smallest number, so that runs with one client always name the same.
  int64_t first_failed = std::numeric_limits<int64_t>::max();
  std::exception_ptr error;

  void add(int64_t number, double latency_ms, std::exception_ptr failure) {
    latencies_ms.push_back(latency_ms);
    if (failure == nullptr) return;
    ++num_errors;
    take_error(number, std::move(failure));
  }
  void merge(Tally&& other) {
    latencies_ms.insert(latencies_ms.end(), other.latencies_ms.begin(), other.latencies_ms.end());
    num_errors += other.num_errors;
    take_error(other.first_failed, std::move(other.error));
  }

 private:
  void take_error(int64_t number, std::exception_ptr failure) {
    if (number >= first_failed) return;
    first_failed = number;
    error = std::move(failure);
  }
};

// The smallest value that at least `percent` of all values do not exceed (nearest rank).
double percentile(const std::vector<double>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

class Benchmark final : public Backend {
 public:
  explicit Benchmark(Build& build)
      : num_requests_(build.params().get_int("num_requests")),
        backends_(build_for_clients(build)),
        threads_(static_cast<size_t>(build.params().get_int("num_clients")),
                 build.node_name() + ".bench") {}

  BatchRange batch_range() const override { return backends_[0]->batch_range(); }
  Traits traits() const override {
    return {.is_idempotent = backends_[0]->traits().is_idempotent,
            .reads_everything = backends_[0]->traits().reads_everything};
  }
  // Items are measured one after the other.
  size_t group_of(const Item&) const override { return 0; }
  void collect_reads(std::vector<Key>& reads) const override { backends_[0]->collect_reads(reads); }
  int container_depth() const override { return backends_[0]->container_depth(); }

  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) { item.set_result(measure(item)); });
  }

 private:
  // One for all where that is allowed, else one for each client.
  static Backends build_for_clients(Build& build) {
    auto first = build_copies(build, 1);
    if (first[0]->is_shareable()) return first;
    first.clear();
    return build_copies(build, static_cast<size_t>(build.params().get_int("num_clients")));
  }

  Value measure(const Item& item) {
    std::vector<Tally> tallies(threads_.size());
    std::atomic<int64_t> next{0};
    const TimePoint start = Clock::now();
    threads_.run(threads_.size(), [&](size_t client) {
      Backend& backend = *backends_[client % backends_.size()];
      for (int64_t number = next++; number < num_requests_; number = next++) {
        call(backend, item, number, tallies[client]);
      }
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    Tally all;
    for (Tally& tally : tallies) all.merge(std::move(tally));
    return report(std::move(all), seconds);
  }

  static void call(Backend& backend, const Item& original, int64_t number, Tally& tally) {
    Item item;
    item.dict = original.dict;
    item.base = original.base;
    item.rows = original.rows;
    item.has_batch_axis = original.has_batch_axis;
    Item* const batch[] = {&item};
    const TimePoint start = Clock::now();
    try {
      backend.forward(batch);
    } catch (...) {
      item.error = std::current_exception();
    }
    const std::chrono::duration<double, std::milli> latency = Clock::now() - start;
    tally.add(number, latency.count(), item.error);
  }

  Value report(Tally all, double seconds) const {
    std::ranges::sort(all.latencies_ms);
    auto table = make_ref<Table>();
    const auto put = [&](const char* name, Value value) {
      table->dict.put(Key::intern(name), std::move(value));
    };
    put("requests", Value(num_requests_));
    put("errors", Value(all.num_errors));
    put("seconds", Value(seconds));
    put("requests_per_s", Value(static_cast<double>(num_requests_) / std::max(seconds, 1e-9)));
    put("p50_ms", Value(percentile(all.latencies_ms, 50)));
    put("p90_ms", Value(percentile(all.latencies_ms, 90)));
    put("p99_ms", Value(percentile(all.latencies_ms, 99)));
    put("first_error", all.error == nullptr ? Value() : Value::str(describe(all.error)));
    return Value(std::move(table));
  }

  const int64_t num_requests_;
  const Backends backends_;
  WorkerThreads threads_;  // last: ends first
};

HAMI_REGISTER(Benchmark, .family = "measuring",
              .doc = "Calls its child again and again with the item, and reports rate and latency.",
              .params = {{.name = "num_clients",
                          .type = "int",
                          .doc = "threads that call at the same time",
                          .default_value = Value(int64_t{4}),
                          .min = 1,
                          .max = 1024},
                         {.name = "num_requests",
                          .type = "int",
                          .doc = "calls for each item",
                          .default_value = Value(int64_t{100}),
                          .min = 1,
                          .max = 10000000}},
              .min_children = 1, .max_children = 1);

}  // namespace
}  // namespace hami
