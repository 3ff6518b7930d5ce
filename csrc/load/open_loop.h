// `OpenLoop`: requests that are sent at times drawn before, whatever the answers do. Latency counts
// from the time at which a request was to be sent: a target that stalls makes all requests late
// that were due meanwhile, and all of them are in the record. Leaving them out is what Gil Tene
// calls coordinated omission.
#pragma once

#include <atomic>
#include <memory>

#include "load/arrivals.h"
#include "load/load_tally.h"
#include "load/load_time.h"

namespace hami {

class OpenLoop;

// One request of an open loop, until it has ended.
struct OpenCall {
  std::shared_ptr<OpenLoop> loop;
  int64_t number;
  TimePoint due;

  // Its answer has come. Once, on any thread.
  void end(const std::exception_ptr& error) const noexcept;
  // Nobody waits for the answer any more.
  bool is_moot() const noexcept;
};

// Where an open loop sends its requests; from one thread.
class OpenTarget {
 public:
  virtual ~OpenTarget() = default;
  // Starts a call and does not wait for it: `call.end` follows. Throws what refuses the call, which
  // then is not ended.
  virtual void start(const OpenCall& call) = 0;
  // Whether no further call can succeed. Asked after an error.
  virtual bool is_gone() noexcept { return false; }
};

class OpenLoop final : public std::enable_shared_from_this<OpenLoop> {
 public:
  struct Limits {
    double rate_per_s = 1;
    Arrivals::Kind arrivals = Arrivals::Kind::kPoisson;
    uint64_t seed = 0;
    int64_t num_requests = std::numeric_limits<int64_t>::max();
    Duration duration = Duration::max();
    // Of requests without an answer: one more than that is refused.
    int64_t max_in_flight = std::numeric_limits<int64_t>::max();
    // How long answers are waited for after the last request.
    Duration timeout = Duration::max();
  };

  explicit OpenLoop(Limits limits, LoadTime& time = MachineTime::instance());

  // Sends the requests and waits for their answers, on this thread.
  void run(OpenTarget& target) noexcept;
  // Sends nothing more, and waits for nothing. Any thread.
  void stop() noexcept;

  bool was_cut_short() const noexcept { return stopped_.is_set(); }
  const LoadTally& tally() const noexcept { return tally_; }
  // REQUIRES: `run` has returned. What has no answer counts as failed with `unanswered`.
  LoadFigures figures(const std::exception_ptr& unanswered);

 private:
  friend struct OpenCall;
  // Returns whether further calls make sense.
  bool send(OpenTarget& target, int64_t number, TimePoint due) noexcept;
  std::exception_ptr start(OpenTarget& target, const OpenCall& call) const noexcept;
  void end(const OpenCall& call, const std::exception_ptr& error) noexcept;
  void leave() noexcept;

  const Limits limits_;
  LoadTime& time_;
  LoadTally tally_;
  Event stopped_;
  // Nothing is under way, and nothing more will be sent.
  Event idle_;
  // The sender is one of them.
  std::atomic<int64_t> num_inside_{1};
  std::atomic<bool> is_over_{false};
  int64_t num_sent_ = 0;
  TimePoint start_{};
  TimePoint planned_end_{};
};

}  // namespace hami
