// The gate at which `TestGated` waits, so that tests decide when a run ends.
#pragma once

#include <condition_variable>
#include <mutex>

namespace hami {

class Gate {
 public:
  static Gate& instance();
  void pass();
  // Returns once so many runs wait at the gate.
  void await_waiting(int num_waiting);
  void set_open(bool is_open);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_waiting_ = 0;
  bool is_open_ = false;
};

}  // namespace hami
