// `WorkerThreads`: a fixed number of threads that one backend owns. Made with it, they sleep until
// there is work, and are joined with it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace hami {

class WorkerThreads {
 public:
  using Work = std::function<void(size_t index)>;

  // Starts the threads, called `name.0`, `name.1`, ... Throws a build error when one of them cannot
  // be started; those that could have ended then.
  WorkerThreads(size_t num_threads, const std::string& name);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  size_t size() const noexcept { return threads_.size(); }

  // Calls `work(index)` on the first `num_threads` threads, once each and at the same time, and
  // returns when all have ended. REQUIRES: one caller at a time, and `work` does not throw.
  void run(size_t num_threads, const Work& work);

 private:
  void serve(size_t index);
  void end();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const Work* work_ = nullptr;
  std::vector<bool> has_work_;
  size_t num_running_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hami
