// A task without a graph: remembers how it ended.
#pragma once

#include "schedule/task.h"

namespace hami {

class FakeTask final : public Task {
 public:
  explicit FakeTask(int64_t data = 0, size_t group_key = 0, int64_t num_rows = 1) {
    dict.put(keys::data, Value(data));
    group = group_key;
    rows = num_rows;
  }
  void finish() noexcept override { ++num_finished; }
  std::function<void()> early_failure(std::exception_ptr) override {
    return [] {};
  }
  bool is_abandoned() const noexcept override { return is_gone; }

  int num_finished = 0;
  bool is_gone = false;
};

inline TimePoint at_ms(int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

}  // namespace hami
