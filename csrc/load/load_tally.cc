#include "load/load_tally.h"

#include <algorithm>

namespace hami {
namespace {
// More callers than that share parts, which then cost them a little and not the memory of each.
constexpr size_t kMostParts = 64;
}  // namespace

LoadTally::LoadTally(size_t num_callers)
    : num_parts_(std::clamp<size_t>(num_callers, 1, kMostParts)),
      parts_(std::make_unique<Part[]>(num_parts_)) {}

void LoadTally::add(size_t caller, int64_t number, TimePoint end, Duration latency,
                    const std::exception_ptr& error) noexcept {
  Part& part = parts_[caller % num_parts_];
  if (error == nullptr) {
    part.latency.add(latency);
  } else {
    num_errors_.fetch_add(1, std::memory_order_relaxed);
    keep_error(number, error);
  }
  TimePoint last = part.last_end.load(std::memory_order_relaxed);
  while (last < end && !part.last_end.compare_exchange_weak(last, end, std::memory_order_relaxed)) {
  }
  part.num_ended.fetch_add(1, std::memory_order_release);
}

void LoadTally::add_unanswered(int64_t num_unanswered, int64_t number,
                               const std::exception_ptr& error) {
  num_errors_.fetch_add(num_unanswered, std::memory_order_relaxed);
  parts_[0].num_ended.fetch_add(num_unanswered, std::memory_order_release);
  keep_error(number, error);
}

void LoadTally::keep_error(int64_t number, const std::exception_ptr& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (number >= first_failed_) return;
  first_failed_ = number;
  first_error_ = error;
}

int64_t LoadTally::num_ended() const noexcept {
  int64_t num_ended = 0;
  for (size_t i = 0; i < num_parts_; ++i) {
    num_ended += parts_[i].num_ended.load(std::memory_order_acquire);
  }
  return num_ended;
}

TimePoint LoadTally::last_end() const noexcept {
  TimePoint last = TimePoint::min();
  for (size_t i = 0; i < num_parts_; ++i) {
    last = std::max(last, parts_[i].last_end.load(std::memory_order_relaxed));
  }
  return last;
}

LoadFigures LoadTally::figures(Duration duration) const {
  LoadFigures figures;
  figures.seconds = std::chrono::duration<double>(duration).count();
  FineLatencyHistogram all;
  for (size_t i = 0; i < num_parts_; ++i) all.merge(parts_[i].latency);
  figures.latency = all.percentiles();
  figures.lateness = lateness_.percentiles();
  figures.num_errors = num_errors();
  figures.num_requests = figures.latency.count + figures.num_errors;
  const std::lock_guard lock(mutex_);
  figures.first_error = first_error_;
  return figures;
}

}  // namespace hami
