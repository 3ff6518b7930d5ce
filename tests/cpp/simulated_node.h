// A node without threads in simulated time: the queue, the decision and the estimator as the
// dispatcher puts them together, with callers who come as a test says.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "fake_task.h"
#include "schedule/batch_policy.h"
#include "schedule/return_estimator.h"

namespace hami {

struct SimulatedNode {
  // The times from the end of a batch until each of its callers comes back; empty if they never do.
  using ComeBack = std::function<std::vector<Duration>(size_t num_callers)>;

  Duration run_time = std::chrono::milliseconds(2);
  Duration timeout = std::chrono::milliseconds(4);
  int64_t max = 16;
  size_t num_instances = 1;
  ComeBack come_back;

  struct Figures {
    int64_t num_items = 0;
    int64_t num_batches = 0;
    Duration wait{};       // of all items, in the queue
    Duration held_back{};  // the part of it during which an instance was free
    Duration duration{};
    double mean_batch() const {
      return double(num_items) / double(std::max<int64_t>(num_batches, 1));
    }
    Duration mean_wait() const { return wait / std::max<int64_t>(num_items, 1); }
    Duration mean_held_back() const { return held_back / std::max<int64_t>(num_items, 1); }
    double items_per_ms() const {
      return double(num_items) / std::chrono::duration<double, std::milli>(duration).count();
    }
  };
  Figures figures;

  void arrive_at(TimePoint time) { arrivals_.push(time); }

  // Lets so many items run and counts only those.
  const Figures& run(int64_t num_items) {
    figures = {};
    const TimePoint began = now_;
    running_.resize(num_instances);
    while (figures.num_items < num_items && step()) {
    }
    figures.duration = now_ - began;
    return figures;
  }
  TimePoint now() const { return now_; }
  ReturnEstimator& returns() { return returns_; }

 private:
  struct Running {
    std::vector<Task*> tasks;
    TimePoint end = TimePoint::max();
  };

  bool step() {
    TimePoint next = alarm_;
    if (!arrivals_.empty()) next = std::min(next, arrivals_.top());
    for (const Running& one : running_) next = std::min(next, one.end);
    if (next == TimePoint::max()) return false;
    const bool is_free = std::ranges::any_of(running_, &std::vector<Task*>::empty, &Running::tasks);
    if (is_free) figures.held_back += (next - now_) * static_cast<int64_t>(queue_.size());
    now_ = next;
    for (Running& one : running_) {
      if (one.end == now_) end(one);
    }
    while (!arrivals_.empty() && arrivals_.top() == now_) {
      arrivals_.pop();
      arrive();
    }
    dispatch();
    return true;
  }

  void arrive() {
    if (unused_.empty()) unused_.push_back(&tasks_.emplace_back());
    Task& task = *unused_.back();
    unused_.pop_back();
    task.arrival = last_arrival_ = last_change_ = now_;
    task.order = now_.time_since_epoch().count();
    returns_.on_arrival(now_, !queue_.empty());
    queue_.push(task);
  }

  void end(Running& one) {
    one.end = TimePoint::max();
    const std::vector<Task*> tasks = std::exchange(one.tasks, {});
    returns_.on_end(std::ssize(tasks), now_);
    last_end_ = last_change_ = now_;
    unused_.insert(unused_.end(), tasks.begin(), tasks.end());
    if (!come_back) return;
    for (const Duration delay : come_back(tasks.size())) arrivals_.push(now_ + delay);
  }

  void dispatch() {
    alarm_ = TimePoint::max();
    const std::vector<BatchRange> all(num_instances, BatchRange{1, max});
    while (!queue_.empty()) {
      std::vector<size_t> free;
      size_t num_inside = queue_.size();
      for (size_t i = 0; i < num_instances; ++i) {
        if (running_[i].tasks.empty()) free.push_back(i);
        num_inside += running_[i].tasks.size();
      }
      const TimePoint patient_until =
          std::max(last_arrival_ + returns_.grace(), last_end_ + returns_.grace_after_end());
      const Decision decision = decide({.queue = queue_,
                                        .now = now_,
                                        .free = std::span(all).first(free.size()),
                                        .free_instances = free,
                                        .all = all,
                                        .num_inside = static_cast<int64_t>(num_inside),
                                        .timeout = timeout,
                                        .num_expected = returns_.num_expected(),
                                        .grace = patient_until - last_change_,
                                        .last_change = last_change_,
                                        .last_end = last_end_});
      if (decision.action == Decision::Action::kWait) {
        if (decision.release == Release::kEveryoneHere) returns_.on_wait(now_);
        alarm_ = decision.until;
      }
      if (decision.action != Decision::Action::kRun) return;
      Running& one = running_[free[decision.instance]];
      one.tasks = queue_.pop(decision.group, decision.count);
      one.end = now_ + run_time;
      returns_.on_start(now_, decision.release != Release::kFull && returns_.num_expected() > 0);
      figures.num_items += std::ssize(one.tasks);
      ++figures.num_batches;
      for (const Task* task : one.tasks) figures.wait += now_ - task->arrival;
    }
  }

  TimePoint now_{std::chrono::seconds(1)};
  TimePoint alarm_ = TimePoint::max();
  TimePoint last_arrival_{}, last_end_{}, last_change_{};
  std::priority_queue<TimePoint, std::vector<TimePoint>, std::greater<>> arrivals_;
  std::vector<Running> running_;
  std::deque<FakeTask> tasks_;
  std::vector<Task*> unused_;
  BatchQueue queue_;
  ReturnEstimator returns_;
};

}  // namespace hami
