#include "load/load_threads.h"

#include <pthread.h>

#include <string>
#include <system_error>

#include "core/error.h"

namespace hami {

LoadThreads::LoadThreads(size_t num_threads, Work work, const std::function<void()>& give_up) {
  shared_->work = std::move(work);
  shared_->num_running = num_threads;
  try {
    for (size_t i = 0; i < num_threads; ++i) {
      threads_.emplace_back([shared = shared_, i] {
        pthread_setname_np(pthread_self(), ("load." + std::to_string(i)).c_str());
        shared->work(i);
        if (shared->num_running.fetch_sub(1, std::memory_order_acq_rel) == 1) shared->ended.set();
      });
    }
  } catch (const std::system_error& error) {
    give_up();
    join();
    throw Error(ErrorKind::kBuild, "build-thread",
                "caller " + backticked(std::to_string(threads_.size())) +
                    " of a load cannot be started: " + error.what(),
                "ask for fewer callers, or raise the limits of the process");
  }
}

LoadThreads::~LoadThreads() {
  // Whoever is told to stop is out soon, unless user code holds it.
  ended().wait(Clock::now() + std::chrono::seconds(1));
  for (std::thread& thread : threads_) ended().is_set() ? thread.join() : thread.detach();
}

void LoadThreads::join() {
  // Whoever is told to stop is out soon, unless user code holds it.
  ended().wait(Clock::now() + std::chrono::seconds(1));
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace hami
