#include "schedule/return_estimator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace hami {
namespace {

double nanoseconds(Duration duration) noexcept { return static_cast<double>(duration.count()); }

bool looks_for_more(size_t num_ends) noexcept {
  constexpr size_t kFirst = 4;
  constexpr size_t kSeldom = 64;
  constexpr size_t kVerySeldom = 4096;
  return num_ends <= kFirst || num_ends % kVerySeldom == 0 ||
         (num_ends >= kSeldom && std::has_single_bit(num_ends));
}

}  // namespace

void RecentMedian::add(Duration value) noexcept {
  values_[num_added_++ % kNumValues] = value;
  const size_t count = std::min(num_added_, kNumValues);
  auto sorted = values_;
  const auto median = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), median, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  median_ = *median;
}

Duration ReturnEstimator::grace() const noexcept {
  // Whoever is left behind waits for a whole run, and its place in that run stays empty: against
  // long runs a little more patience costs nothing.
  const Duration part_of_run(static_cast<Duration::rep>(while_running_.whole / 8));
  return std::max({kLeastGrace, 4 * gaps_.get(), std::min(part_of_run, kLongestReturn)});
}

Duration ReturnEstimator::grace_after_end() const noexcept {
  if (is_gathering()) return kLongestReturn;
  return std::max(grace(), delays_.get() + delays_.get() / 2);
}

bool ReturnEstimator::is_worthwhile() const noexcept {
  // Less than half of them come back, or as many would come without a batch that has ended: then an
  // item that waits for them loses more than the batch gains.
  return 2 * returns_.part >= returns_.whole && while_waiting_.part * while_running_.whole >=
                                                    2 * while_running_.part * while_waiting_.whole;
}

double ReturnEstimator::share() const noexcept {
  return returns_.whole > 0 ? returns_.part / returns_.whole : 1;
}

void ReturnEstimator::on_arrival(TimePoint now, bool has_company) noexcept {
  // Gaps count within a burst only: an arrival at an empty queue says nothing about the next one.
  if (has_company) {
    gaps_.add(std::max(now - last_arrival_, Duration::zero()));
  } else {
    is_waiting_ = false;  // whoever waited has gone without a run
  }
  last_arrival_ = now;
  note_delay(now);
  if (num_running_ > 0) ++num_meanwhile_;
  if (is_waiting_) ++num_came_;
  if (counts_as_new_) return;
  if (num_expected_ > 0) --num_expected_;
  if (num_away_ > 0) --num_away_;
}

void ReturnEstimator::note_delay(TimePoint now) noexcept {
  // Who comes is taken for the one who was answered first. Only the first of a batch tells how long
  // the way back is; the others follow at the pace of the gaps.
  const size_t oldest = num_ends_ > ends_.size() ? num_ends_ - ends_.size() : 0;
  for (size_t i = oldest; i < num_ends_; ++i) {
    End& end = ends_[i % ends_.size()];
    if (end.num_away == 0 || now - end.time > 2 * kLongestReturn) continue;
    --end.num_away;
    if (std::exchange(end.is_first, false) && now >= end.time) {
      delays_.add(std::min(now - end.time, kLongestReturn));
    }
    return;
  }
}

void ReturnEstimator::on_wait(TimePoint now) noexcept {
  if (std::exchange(is_waiting_, true)) return;
  wait_began_ = now;
  num_came_ = 0;
  num_wanted_ = num_away_;
}

void ReturnEstimator::end_wait(TimePoint now, bool is_in_vain) noexcept {
  is_waiting_ = false;
  if (is_in_vain) forget();
  if (is_gathering()) {
    --num_trials_left_;
    return;
  }
  const auto came = static_cast<double>(num_came_);
  // A wait that brought what it was for counts as if everybody had come, so that a share that was
  // set too low grows again.
  const auto wanted = is_in_vain ? static_cast<double>(std::max(num_wanted_, num_came_)) : came;
  returns_.add(came, wanted);
  while_waiting_.add(came, nanoseconds(now - wait_began_));
  if (num_trials_left_ > 0) --num_trials_left_;
}

void ReturnEstimator::on_start(TimePoint now, bool is_in_vain) noexcept {
  if (is_waiting_) end_wait(now, is_in_vain);
  if (num_running_++ > 0) return;
  run_began_ = now;
  num_meanwhile_ = 0;
}

void ReturnEstimator::on_end(int64_t num_items, TimePoint now) noexcept {
  if (--num_running_ == 0) {
    while_running_.add(static_cast<double>(num_meanwhile_), nanoseconds(now - run_began_));
  }
  ends_[num_ends_++ % ends_.size()] = {now, num_items, true};
  if (is_worthwhile()) {
    num_away_ += num_items;
    num_expected_ += std::lround(share() * static_cast<double>(num_items));
    counts_as_new_ = looks_for_more(num_ends_);
    return;
  }
  if (num_trials_left_ == 0 && ++num_passed_ >= pause_) {
    num_passed_ = 0;
    num_trials_left_ = kTrial;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  if (num_trials_left_ > 0) {
    num_away_ += num_items;
    num_expected_ += num_items;
  } else {
    forget();
  }
  counts_as_new_ = is_gathering() || looks_for_more(num_ends_);
}

}  // namespace hami