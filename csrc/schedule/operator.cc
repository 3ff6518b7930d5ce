#include "schedule/operator.h"

#include <atomic>
#include <memory>

namespace hami {
namespace {

// Carries an item of a synchronous caller through an operator.
class BorrowedTask final : public Task {
 public:
  BorrowedTask(Item& item, std::atomic<size_t>& num_left, Event& all_done)
      : item_(item), num_left_(num_left), all_done_(all_done) {
    dict = item.dict;
    base = item.base;
    rows = item.rows;
    has_batch_axis = item.has_batch_axis;
    partials = item.partials;
  }

  void finish() noexcept override {
    item_.dict = std::move(dict);
    item_.error = error;
    if (num_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) all_done_.set();
  }
  // The synchronous caller waits in any case; it sees the error of the run itself.
  std::function<void()> early_failure(std::exception_ptr) override {
    return [] {};
  }
  bool is_abandoned() const noexcept override { return false; }

 private:
  Item& item_;
  std::atomic<size_t>& num_left_;
  Event& all_done_;
};

}  // namespace

void Operator::forward(Batch batch) {
  std::atomic<size_t> num_left{batch.size()};
  Event all_done;
  std::vector<std::unique_ptr<BorrowedTask>> tasks;
  std::vector<Task*> started;
  for (Item* item : batch) {
    tasks.push_back(std::make_unique<BorrowedTask>(*item, num_left, all_done));
    started.push_back(tasks.back().get());
  }
  start(started);
  // Signals are the concern of the thread that called the pipeline, not of this one.
  while (all_done.wait() != Event::Wake::kSet) {
  }
}

}  // namespace hami
