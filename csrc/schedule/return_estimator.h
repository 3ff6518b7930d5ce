// `ReturnEstimator`: who of the callers that were just answered is expected back at once, and how
// long to wait for them. Callers in a loop come back within microseconds, those behind HTTP within
// a millisecond or two, and others never. It learns which from what came and when. Plain data
// without a lock or a clock; the dispatcher tells it what happens.
#pragma once

#include <array>
#include <cstdint>

#include "core/event.h"

namespace hami {

// The median of the last 16 durations.
class RecentMedian {
 public:
  void add(Duration value) noexcept;
  Duration get() const noexcept { return median_; }

 private:
  static constexpr size_t kNumValues = 16;
  std::array<Duration, kNumValues> values_{};
  size_t num_added_ = 0;
  Duration median_{};
};

class ReturnEstimator {
 public:
  static constexpr Duration kLeastGrace = std::chrono::microseconds(200);
  static constexpr Duration kLongestReturn = std::chrono::milliseconds(2);

  // An item enters the queue, which `has_company` in it already.
  void on_arrival(TimePoint now, bool has_company) noexcept;
  // The batching decision waits for those who are expected.
  void on_wait(TimePoint now) noexcept;
  // A batch starts: `is_in_vain` if not all came who were waited for.
  void on_start(TimePoint now, bool is_in_vain) noexcept;
  // A batch of so many items ends; their callers get their answers next.
  void on_end(int64_t num_items, TimePoint now) noexcept;

  int64_t num_expected() const noexcept { return num_expected_; }
  // How long after the last arrival, and after the last end of a batch, the next is waited for.
  Duration grace() const noexcept;
  Duration grace_after_end() const noexcept;
  // Whether waiting pays at present.
  bool is_worthwhile() const noexcept;

 private:
  // Recent sums: each new entry counts for an eighth.
  struct Recent {
    double part = 0;
    double whole = 0;
    void add(double new_part, double new_whole) noexcept {
      part += (new_part - part) / 8;
      whole += (new_whole - whole) / 8;
    }
  };
  struct End {
    TimePoint time;
    int64_t num_away = 0;  // of its items, those whose callers have not come back
    bool is_first = false;
  };

  // Of those who are answered, the part that is expected.
  double share() const noexcept;
  void end_wait(TimePoint now, bool is_in_vain) noexcept;
  void note_delay(TimePoint now) noexcept;
  void forget() noexcept { num_expected_ = num_away_ = 0; }

  int64_t num_expected_ = 0;
  int64_t num_away_ = 0;  // those that `num_expected_` is a share of

  // The present wait, and what waits have brought: they begin as if all came at once.
  bool is_waiting_ = false;
  TimePoint wait_began_{};
  int64_t num_came_ = 0;
  int64_t num_wanted_ = 0;
  Recent returns_{16, 16};       // those who came, of those who were waited for
  Recent while_waiting_{16, 0};  // arrivals, in nanoseconds

  int64_t num_running_ = 0;
  TimePoint run_began_{};
  int64_t num_meanwhile_ = 0;  // arrivals since
  Recent while_running_{0, 1e6};

  // Where waiting does not pay it is tried again now and then: callers who come one by one are
  // first gathered, with patience, and then it is seen whether they stay together.
  static constexpr int64_t kTrial = 14;
  static constexpr int64_t kGathering = 2;
  bool is_gathering() const noexcept { return num_trials_left_ > kTrial - kGathering; }
  static constexpr int64_t kLeastPause = 64;
  static constexpr int64_t kLongestPause = 1024;
  int64_t num_trials_left_ = 0;
  int64_t pause_ = kLeastPause;
  int64_t num_passed_ = 0;

  // Who comes for the first time is taken for one who comes back, so that two groups of callers who
  // take turns can look like one. After the first ends, and seldom later, arrivals count as new.
  bool counts_as_new_ = false;

  RecentMedian gaps_;
  RecentMedian delays_;
  TimePoint last_arrival_{};
  std::array<End, 8> ends_{};  // the latest ones, as a ring
  size_t num_ends_ = 0;
};

}  // namespace hami
