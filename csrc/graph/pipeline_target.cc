#include "graph/pipeline_target.h"

#include <sstream>

#include "core/error.h"
#include "core/split_mix.h"

namespace hami {
namespace {

// Tells an open loop that the request has ended.
class OpenAnswer final : public Completion {
 public:
  explicit OpenAnswer(OpenCall call) : call_(std::move(call)) {}
  void on_answered(Request& request) noexcept override { call_.end(request.error); }
  bool is_moot() const noexcept override { return call_.is_moot(); }

 private:
  const OpenCall call_;
};

}  // namespace

PipelineTarget::PipelineTarget(std::shared_ptr<Pipeline> pipeline, std::vector<LoadSample> samples,
                               Choice choice, size_t num_callers, Duration timeout)
    : pipeline_(std::move(pipeline)),
      samples_(std::move(samples)),
      choice_(choice),
      timeout_(timeout),
      awaited_(num_callers) {}

size_t PipelineTarget::sample_of(int64_t number) const noexcept {
  const auto turn = static_cast<uint64_t>(number);
  if (choice_.order == Order::kGiven) return turn % samples_.size();
  return split_mix(split_mix(choice_.seed) + (turn + 1) * kGoldenGamma) % samples_.size();
}

Ref<Request> PipelineTarget::make(int64_t number, TimePoint sent) const {
  const LoadSample& sample = samples_[sample_of(number)];
  auto request = make_ref<Request>(pipeline_, 0);
  request->input = sample.input;
  request->base = sample.base;
  request->rows = sample.rows;
  request->priority = sample.priority;
  request->root = sample.root;
  if (sample.time_limit != Duration::max()) request->deadline = sent + sample.time_limit;
  return request;
}

std::exception_ptr PipelineTarget::call(size_t caller, int64_t number) noexcept {
  try {
    const Ref<Request> request = make(number, Clock::now());
    // As for a caller of the host language.
    request->may_run_inline = request->deadline == TimePoint::max();
    pipeline_->submit({&request, 1});
    const auto is_answered = [&] { return request->answered.is_set(); };
    if (!pipeline_->spin().until(is_answered)) await(*request, awaited_[caller]);
    return request->error;
  } catch (...) {
    return std::current_exception();
  }
}

void PipelineTarget::await(Request& request, Awaited& awaited) noexcept {
  request.retain();
  awaited.store(&request);
  // Whoever cancels sets the flag before it looks at what is awaited.
  if (is_cancelled_.load()) request.cancel();
  const TimePoint deadline = Clock::now() + timeout_;
  while (request.answered.wait(deadline) != Event::Wake::kSet) {
    if (Clock::now() >= deadline) request.fail(unanswered());
  }
  if (const Request* mine = awaited.exchange(nullptr)) mine->release();
}

void PipelineTarget::start(const OpenCall& call) {
  const Ref<Request> request = make(call.number, call.due);
  request->completion = std::make_shared<OpenAnswer>(call);
  pipeline_->submit({&request, 1});
}

void PipelineTarget::cancel() noexcept {
  is_cancelled_.store(true);
  for (Awaited& awaited : awaited_) {
    Request* const request = awaited.exchange(nullptr);
    if (request == nullptr) continue;
    request->cancel();
    request->release();
  }
}

std::exception_ptr PipelineTarget::unanswered() const {
  std::ostringstream seconds;
  seconds << std::chrono::duration<double>(timeout_).count();
  return std::make_exception_ptr(
      Error(ErrorKind::kDeadlineExceeded, "load-timeout",
            "no answer within " + backticked(seconds.str()) + " s",
            "see which node is busy in `pipe.stats()`, or raise `timeout_s`"));
}

}  // namespace hami
