// `Benchmark(num_clients, num_requests, ...)[X]`: the result is what X did under load. Clients,
// each a thread, call X with copies of the item: each the next one as soon as the last has returned
// (a closed loop), or, with `rate_per_s`, whoever is free at times that were drawn before (an open
// loop). The loops are those of csrc/load.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>

#include "builtin/copies.h"
#include "builtin/worker_threads.h"
#include "core/error.h"
#include "core/split_mix.h"
#include "load/closed_loop.h"
#include "load/open_loop.h"

namespace hami {
namespace {

// Copies of one item for a backend that is called by several clients.
class ItemCalls {
 public:
  ItemCalls(const Item& item, const Backends& backends) : original_(item), backends_(backends) {}

  std::exception_ptr call(size_t client) const noexcept {
    Item item;
    item.dict = original_.dict;
    item.base = original_.base;
    item.rows = original_.rows;
    item.has_batch_axis = original_.has_batch_axis;
    Item* const batch[] = {&item};
    try {
      backends_[client % backends_.size()]->forward(batch);
    } catch (...) {
      return std::current_exception();
    }
    return item.error;
  }

 private:
  const Item& original_;
  const Backends& backends_;
};

class ClosedCalls final : public ClosedTarget {
 public:
  explicit ClosedCalls(const ItemCalls& calls) : calls_(calls) {}
  std::exception_ptr call(size_t client, int64_t) noexcept override { return calls_.call(client); }

 private:
  const ItemCalls& calls_;
};

// Calls that wait for a free client, first come, first served.
class OpenCalls final : public OpenTarget {
 public:
  explicit OpenCalls(const ItemCalls& calls) : calls_(calls) {}

  void start(const OpenCall& call) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(call);
    }
    changed_.notify_one();
  }
  // On the thread of a client, until `finish`.
  void serve(size_t client) noexcept {
    while (const std::optional<OpenCall> call = take()) call->end(calls_.call(client));
  }
  // No further call follows.
  void finish() noexcept {
    {
      const std::lock_guard lock(mutex_);
      is_finished_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::optional<OpenCall> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_finished_ || !waiting_.empty(); });
    if (waiting_.empty()) return {};
    OpenCall call = std::move(waiting_.front());
    waiting_.pop_front();
    return call;
  }

  const ItemCalls& calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<OpenCall> waiting_;
  bool is_finished_ = false;
};

class Benchmark final : public Backend {
 public:
  explicit Benchmark(Build& build)
      : num_requests_(build.params().get_int("num_requests")),
        num_warmups_(build.params().get_int("num_warmups")),
        num_rounds_(build.params().get_int("repeats")),
        rate_per_s_(build.params().get_float("rate_per_s")),
        arrivals_(build.params().get_str("arrivals") == "fixed" ? Arrivals::Kind::kFixed
                                                                : Arrivals::Kind::kPoisson),
        seed_(static_cast<uint64_t>(build.params().get_int("seed"))),
        num_clients_(static_cast<size_t>(build.params().get_int("num_clients"))),
        backends_(build_for_clients(build)),
        // The sender of an open loop is one more.
        threads_(num_clients_ + (rate_per_s_ > 0 ? 1 : 0), build.node_name() + ".bench") {}

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
    const ItemCalls calls(item, backends_);
    if (num_warmups_ > 0) run(calls, num_warmups_, 0);
    std::vector<LoadFigures> rounds;
    for (int64_t round = 1; round <= num_rounds_; ++round) {
      rounds.push_back(run(calls, num_requests_, round));
    }
    return report(rounds);
  }

  LoadFigures run(const ItemCalls& calls, int64_t num_requests, int64_t round) {
    return rate_per_s_ > 0 ? run_open(calls, num_requests, round) : run_closed(calls, num_requests);
  }

  LoadFigures run_closed(const ItemCalls& calls, int64_t num_requests) {
    ClosedLoop loop(num_clients_, {.num_requests = num_requests});
    ClosedCalls target(calls);
    loop.begin();
    threads_.run(num_clients_, [&](size_t client) { loop.run(client, target); });
    return loop.figures({});
  }

  LoadFigures run_open(const ItemCalls& calls, int64_t num_requests, int64_t round) {
    const auto loop = std::make_shared<OpenLoop>(
        OpenLoop::Limits{.rate_per_s = rate_per_s_,
                         .arrivals = arrivals_,
                         .seed = split_mix(seed_) + static_cast<uint64_t>(round),
                         .num_requests = num_requests});
    OpenCalls target(calls);
    threads_.run(num_clients_ + 1, [&](size_t index) {
      if (index < num_clients_) return target.serve(index);
      loop->run(target);
      target.finish();
    });
    return loop->figures({});
  }

  static Value report(const std::vector<LoadFigures>& rounds) {
    auto table = make_ref<Table>();
    const auto put = [&](const char* name, Value value) {
      table->dict.put(Key::intern(name), std::move(value));
    };
    int64_t num_requests = 0;
    int64_t num_errors = 0;
    double seconds = 0;
    std::exception_ptr first_error;
    auto rates = make_ref<List>();
    for (const LoadFigures& round : rounds) {
      num_requests += round.num_requests;
      num_errors += round.num_errors;
      seconds += round.seconds;
      if (first_error == nullptr) first_error = round.first_error;
      rates->values.push_back(Value(round.throughput_per_s()));
    }
    put("requests", Value(num_requests));
    put("errors", Value(num_errors));
    put("seconds", Value(seconds));
    put("requests_per_s", mean(rounds, [](const LoadFigures& r) { return r.throughput_per_s(); }));
    put("requests_per_s_of_rounds", Value(std::move(rates)));
    put("mean_ms", mean_latency(rounds, &Percentiles::mean_ms));
    put("p50_ms", mean_latency(rounds, &Percentiles::p50_ms));
    put("p90_ms", mean_latency(rounds, &Percentiles::p90_ms));
    put("p99_ms", mean_latency(rounds, &Percentiles::p99_ms));
    put("p99.9_ms", mean_latency(rounds, &Percentiles::p999_ms));
    put("max_ms", mean_latency(rounds, &Percentiles::max_ms));
    put("first_error", first_error == nullptr ? Value() : Value::str(describe(first_error)));
    return Value(std::move(table));
  }

  // Over the rounds in which a call succeeded; None where there is none.
  static Value mean_latency(const std::vector<LoadFigures>& rounds, double Percentiles::* figure) {
    std::vector<LoadFigures> successful;
    std::ranges::copy_if(rounds, std::back_inserter(successful),
                         [](const LoadFigures& round) { return round.latency.count > 0; });
    return mean(successful, [&](const LoadFigures& round) { return round.latency.*figure; });
  }

  template <class Figure>
  static Value mean(const std::vector<LoadFigures>& rounds, Figure figure) {
    double sum = 0;
    for (const LoadFigures& round : rounds) sum += figure(round);
    return rounds.empty() ? Value() : Value(sum / static_cast<double>(rounds.size()));
  }

  const int64_t num_requests_;
  const int64_t num_warmups_;
  const int64_t num_rounds_;
  const double rate_per_s_;
  const Arrivals::Kind arrivals_;
  const uint64_t seed_;
  const size_t num_clients_;
  const Backends backends_;
  WorkerThreads threads_;  // last: ends first
};

HAMI_REGISTER(
    Benchmark, .family = "measuring",
    .doc = "Calls its child again and again with the item, and reports rate and latency.",
    .params = {{.name = "num_clients",
                .type = "int",
                .doc = "threads that call at the same time",
                .default_value = Value(int64_t{4}),
                .min = 1,
                .max = 1024},
               {.name = "num_requests",
                .type = "int",
                .doc = "calls for each item in each round",
                .default_value = Value(int64_t{100}),
                .min = 1,
                .max = 10000000},
               {.name = "rate_per_s",
                .type = "float",
                .doc = "calls at this rate, which wait for a free client (an open loop); 0: as "
                       "many as the clients make",
                .default_value = Value(0.0),
                .unit = "1/s",
                .min = 0,
                .max = 10000000},
               {.name = "arrivals",
                .type = "str",
                .doc = "gaps between the calls of an open loop",
                .default_value = Value::str("poisson"),
                .choices = {"poisson", "fixed"}},
               {.name = "num_warmups",
                .type = "int",
                .doc = "calls before the first round, which are not counted",
                .default_value = Value(int64_t{0}),
                .min = 0,
                .max = 10000000},
               {.name = "repeats",
                .type = "int",
                .doc = "rounds; figures are means over them",
                .default_value = Value(int64_t{1}),
                .min = 1,
                .max = 1000},
               {.name = "seed",
                .type = "int",
                .doc = "of the gaps; the same one the same again",
                .default_value = Value(int64_t{0})}},
    .min_children = 1, .max_children = 1);

}  // namespace
}  // namespace hami
