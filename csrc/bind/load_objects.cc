#include "bind/load_objects.h"

#include <pybind11/stl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bind/fork_guard.h"
#include "bind/gil.h"
#include "bind/guarded.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "bind/pipeline_object.h"
#include "bind/request_reader.h"
#include "graph/pipeline_target.h"
#include "load/closed_loop.h"
#include "load/load_threads.h"
#include "load/open_loop.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class LoadSamples {
 public:
  explicit LoadSamples(const py::object& pipeline) : pipeline_(core_pipeline(pipeline)) {}

  void add(const py::dict& dict) {
    if (birth_.is_in_child()) raise(ForkGuard::error());
    LoadSample sample = guarded([&] { return read_sample(*pipeline_, dict.ptr()); });
    const std::lock_guard lock(mutex_);
    samples_.push_back(std::move(sample));
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return samples_.size();
  }
  const std::shared_ptr<Pipeline>& pipeline() const noexcept { return pipeline_; }
  std::vector<LoadSample> samples() const {
    const std::lock_guard lock(mutex_);
    return samples_;
  }

 private:
  const std::shared_ptr<Pipeline> pipeline_;
  const ForkGuard birth_;
  mutable std::mutex mutex_;
  std::vector<LoadSample> samples_;
};

struct RunOptions {
  size_t num_callers = 0;  // 0: an open loop
  ClosedLoop::Limits closed;
  OpenLoop::Limits open;
  PipelineTarget::Choice choice;
};

// One round of either loop, shared with its threads.
class Round {
 public:
  Round(const LoadSamples& samples, const RunOptions& options)
      : target_(samples.pipeline(), samples.samples(), options.choice, options.num_callers,
                options.open.timeout) {
    if (options.num_callers > 0) {
      closed_.emplace(options.num_callers, options.closed);
    } else {
      open_ = std::make_shared<OpenLoop>(options.open);
    }
  }

  void run(size_t index) noexcept { closed_ ? closed_->run(index, target_) : open_->run(target_); }
  void begin() noexcept {
    if (closed_) closed_->begin();
  }
  void stop() noexcept {
    closed_ ? closed_->stop() : open_->stop();
    target_.cancel();
  }
  const LoadTally& tally() const { return closed_ ? closed_->tally() : open_->tally(); }
  bool was_cut_short() const { return closed_ ? closed_->was_cut_short() : open_->was_cut_short(); }
  LoadFigures figures() {
    const std::exception_ptr unanswered = target_.unanswered();
    return closed_ ? closed_->figures(unanswered) : open_->figures(unanswered);
  }

 private:
  PipelineTarget target_;
  std::optional<ClosedLoop> closed_;
  std::shared_ptr<OpenLoop> open_;
};

py::object to_dict(const Percentiles& percentiles) {
  py::dict dict;
  if (percentiles.count == 0) return dict;
  dict["p50"] = percentiles.p50_ms;
  dict["p90"] = percentiles.p90_ms;
  dict["p99"] = percentiles.p99_ms;
  dict["p99.9"] = percentiles.p999_ms;
  dict["mean"] = percentiles.mean_ms;
  dict["max"] = percentiles.max_ms;
  return dict;
}

class LoadRun {
 public:
  LoadRun(const LoadSamples& samples, const RunOptions& options)
      : is_open_(options.num_callers == 0), round_(std::make_shared<Round>(samples, options)) {
    const std::exception_ptr error = error_of([&] {
      const GilRelease no_gil;
      threads_ = std::make_unique<LoadThreads>(
          std::max<size_t>(options.num_callers, 1),
          [round = round_](size_t index) { round->run(index); }, [this] { round_->stop(); });
      round_->begin();
    });
    if (error != nullptr) raise(error);
  }
  ~LoadRun() {
    if (birth_.is_in_child()) {  // its threads stayed in the parent
      static_cast<void>(threads_.release());
      return;
    }
    const GilRelease no_gil;
    round_->stop();
    threads_.reset();
  }

  // Waits for at most `seconds`; returns whether the round is over. Raises what a signal raises.
  bool wait(double seconds) {
    if (birth_.is_in_child()) raise(ForkGuard::error());
    Event::Wake wake{};
    {
      const GilRelease no_gil;
      wake = threads_->ended().wait(Clock::now() + to_duration(seconds));
    }
    // Results of a pipeline in C++ are dropped here, since nobody else takes the GIL.
    drain_released();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return wake == Event::Wake::kSet;
  }
  void stop() {
    const GilRelease no_gil;
    round_->stop();
  }
  py::tuple progress() const {
    return py::make_tuple(round_->tally().num_ended(), round_->tally().num_errors());
  }
  py::dict figures() const {
    const LoadFigures figures = round_->figures();
    py::dict row;
    row["seconds"] = figures.seconds;
    row["num_requests"] = figures.num_requests;
    row["num_errors"] = figures.num_errors;
    row["first_error"] = figures.first_error == nullptr ? py::object(py::none())
                                                        : py::str(describe(figures.first_error));
    row["latency_ms"] = to_dict(figures.latency);
    row["lateness_ms"] = is_open_ ? to_dict(figures.lateness) : py::none();
    return row;
  }
  bool was_cut_short() const { return round_->was_cut_short(); }

 private:
  const bool is_open_;
  const std::shared_ptr<Round> round_;
  const ForkGuard birth_;
  std::unique_ptr<LoadThreads> threads_;
};

std::shared_ptr<LoadRun> start_run(const LoadSamples& samples, size_t num_callers,
                                   double rate_per_s, bool is_poisson,
                                   std::optional<double> duration_s,
                                   std::optional<int64_t> num_requests, uint64_t seed,
                                   bool is_random, int64_t max_in_flight, double timeout_s) {
  RunOptions options;
  options.num_callers = num_callers;
  if (duration_s) options.closed.duration = to_duration(*duration_s);
  if (num_requests) options.closed.num_requests = *num_requests;
  options.open = {.rate_per_s = rate_per_s,
                  .arrivals = is_poisson ? Arrivals::Kind::kPoisson : Arrivals::Kind::kFixed,
                  .seed = seed,
                  .num_requests = options.closed.num_requests,
                  .duration = options.closed.duration,
                  .max_in_flight = max_in_flight,
                  .timeout = to_duration(timeout_s)};
  options.choice = {is_random ? PipelineTarget::Order::kRandom : PipelineTarget::Order::kGiven,
                    seed};
  return std::make_shared<LoadRun>(samples, options);
}

}  // namespace

void define_load(py::module_& module) {
  py::class_<LoadSamples>(module, "LoadSamples", "Dicts that requests are made of.")
      .def(py::init<const py::object&>(), py::arg("pipeline"))
      .def("add", method(&LoadSamples::add), py::arg("request"))
      .def("__len__", method(&LoadSamples::size));
  py::class_<LoadRun, std::shared_ptr<LoadRun>>(module, "LoadRun",
                                                "One round of load on a pipeline.")
      .def(py::init(&start_run), py::arg("samples"), py::kw_only(), py::arg("num_callers"),
           py::arg("rate_per_s"), py::arg("is_poisson"), py::arg("duration_s"),
           py::arg("num_requests"), py::arg("seed"), py::arg("is_random"), py::arg("max_in_flight"),
           py::arg("timeout_s"))
      .def("wait", method(&LoadRun::wait), py::arg("seconds"))
      .def("stop", method(&LoadRun::stop))
      .def("progress", method(&LoadRun::progress))
      .def("figures", method(&LoadRun::figures))
      .def_property_readonly("was_cut_short", method(&LoadRun::was_cut_short));
}

}  // namespace hami::bind
