// `LoadThreads`: the threads of one round. They are joined when all have ended; those that are held
// inside code of the user are left to end alone, as an instance is when a pipeline closes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/event.h"

namespace hami {

class LoadThreads {
 public:
  // Must own what it needs, and not throw.
  using Work = std::function<void(size_t index)>;

  // Starts threads that call `work(0)`, `work(1)`, ... once each. When one of them cannot be
  // started, calls `give_up`, waits for the others, and throws a build error.
  LoadThreads(size_t num_threads, Work work, const std::function<void()>& give_up);
  ~LoadThreads();
  LoadThreads(const LoadThreads&) = delete;
  LoadThreads& operator=(const LoadThreads&) = delete;

  // Set when all have ended.
  Event& ended() noexcept { return shared_->ended; }

 private:
  struct Shared {
    Work work;
    std::atomic<size_t> num_running;
    Event ended;
  };

  void join();

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::thread> threads_;
};

}  // namespace hami
