#include "builtin/worker_threads.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "core/error.h"

namespace hami {
namespace {

// The kernel keeps 15 characters of a thread's name.
void name_this_thread(const std::string& name, size_t index) {
  const std::string suffix = "." + std::to_string(index);
  pthread_setname_np(pthread_self(), (name.substr(0, 15 - suffix.size()) + suffix).c_str());
}

}  // namespace

WorkerThreads::WorkerThreads(size_t num_threads, const std::string& name) : has_work_(num_threads) {
  try {
    for (size_t i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this, name, i] {
        name_this_thread(name, i);
        serve(i);
      });
    }
  } catch (const std::system_error& error) {
    end();
    throw Error(ErrorKind::kBuild, "build-thread",
                "thread " + std::to_string(threads_.size()) + " of " + backticked(name) +
                    " cannot be started: " + error.what(),
                "ask for fewer threads, or raise the limits of the process");
  }
}

WorkerThreads::~WorkerThreads() { end(); }

void WorkerThreads::end() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerThreads::run(size_t num_threads, const Work& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  num_running_ = num_threads;
  std::fill_n(has_work_.begin(), num_threads, true);
  wake_.notify_all();
  done_.wait(lock, [this] { return num_running_ == 0; });
}

void WorkerThreads::serve(size_t index) {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return is_ending_ || has_work_[index]; });
    if (!has_work_[index]) return;
    has_work_[index] = false;
    const Work& work = *work_;
    lock.unlock();
    work(index);
    lock.lock();
    if (--num_running_ == 0) done_.notify_one();
  }
}

}  // namespace hami
