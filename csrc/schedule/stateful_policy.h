// `StatefulPolicy`: the batching decision for backends that keep state per request id. All items of
// one id go to the instance that holds its state, in order, and at most one of them into a batch.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "schedule/batch_policy.h"

namespace hami {

// What is known of one request id. A state ends with the item that says so, or after a time
// without items.
struct SequenceState {
  std::string key;
  Value request_id;
  size_t instance = 0;
  std::deque<const Task*> queued;  // in the order in which they must run
  bool is_running = false;
  TimePoint idle_since{};
  std::optional<std::list<SequenceState*>::iterator> idle_place;
};

class StatefulPolicy final : public BatchPolicy {
 public:
  using OnStateEnd = std::function<void(const Value& request_id)>;

  // `instances` are the ranges of the node's instances; an idle state ends after `ttl`.
  StatefulPolicy(std::vector<BatchRange> instances, Duration ttl, OnStateEnd on_state_end);

  // A batch waits for all live ids of its instance, up to the timeout.
  Decision decide(const BatchState& state) override;
  // Whatever the scheduler says of an item, it needs the state that those before it leave, in its
  // group or in one of another shape.
  bool can_run(const Task& task) const override { return task.sequence->queued.front() == &task; }
  bool sees_everything() const noexcept override { return true; }
  void on_arrival(Task& task, TimePoint now) override;
  void on_leave(const Task& task, TimePoint now) override;
  void on_start(std::span<Task* const> tasks) override;
  void on_end(std::span<Task* const> tasks, TimePoint now) override;
  void collect_reads(std::vector<Key>& reads) const override;

  size_t num_states() const noexcept { return states_.size(); }

 private:
  struct Instance {
    BatchRange range;
    int64_t num_live = 0;                   // states it holds
    int64_t num_ready = 0;                  // those with an item in the queue
    TimePoint complete = TimePoint::min();  // when all of them had one the last time
  };
  struct Batch;

  SequenceState& find_or_begin(const Task& task);
  // The instance with the fewest states, of those that take so many rows.
  size_t place_for(int64_t rows) const;
  Batch batch_of(const BatchQueue::Group& group) const;
  // The decision for one group alone; idle while it must wait for others or for its instance.
  struct Choice {
    Decision decision;
    const Task* head = nullptr;  // the first of those that would run

    bool runs() const noexcept;
    bool is_before(const Choice& other) const noexcept;
  };
  Choice choice_of(const BatchState& state, BatchQueue::Group& group);
  void leave_queue(const Task& task);
  // Notes that nothing of the sequence is here any more.
  void rest(SequenceState& state, TimePoint now);
  void end(SequenceState& state);
  void forget(SequenceState& state);
  void end_idle(TimePoint now);

  std::vector<Instance> instances_;
  const Duration ttl_;
  const OnStateEnd on_state_end_;
  std::unordered_map<std::string, SequenceState> states_;
  std::list<SequenceState*> idle_;  // the longest idle first
};

}  // namespace hami
