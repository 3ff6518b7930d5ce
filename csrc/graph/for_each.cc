// `ForEach`: every element of a list, or of axis 0 of an array, becomes a request of its own that
// enters the subgraph at `target`; the results come back as one list in order. The parent waits
// without a thread, and its children batch with everybody else's.
#include <atomic>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/failure.h"
#include "core/tensor.h"
#include "core/typed_dict.h"
#include "graph/control_operator.h"
#include "graph/dispatcher.h"
#include "graph/pipeline.h"
#include "plan/build.h"

namespace hami {
namespace {

enum class OnError { kFail, kKeep, kDrop };

OnError parse_on_error(const std::string& text) {
  if (text == "keep") return OnError::kKeep;
  return text == "drop" ? OnError::kDrop : OnError::kFail;
}

std::vector<Value> elements_of(const Dict& dict, const Key& key) {
  const Value* value = dict.find(key);
  if (value != nullptr && value->is(Value::Kind::kList)) return value->as_list().values;
  if (value == nullptr || !value->is(Value::Kind::kTensor) || value->as_tensor().rank() == 0) {
    TypedDict(dict, "ForEach").refuse(key, "a list or an array of rows");
  }
  std::vector<Value> rows;
  const Tensor& tensor = value->as_tensor();
  for (int64_t i = 0; i < tensor.shape()[0]; ++i) rows.emplace_back(tensor.row(i));
  return rows;
}

bool is_cancellation(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& own) {
    return own.kind() == ErrorKind::kCancelled;
  } catch (...) {
    return false;
  }
}

// The children of one parent, until the last of them has its answer.
class ForEachRun {
 public:
  ForEachRun(Visit& parent, size_t num_children, OnError on_error)
      : parent_(parent),
        request_(parent.request),
        on_error_(on_error),
        children_(num_children),
        num_left_(num_children) {}

  // Also asked by those who saw a child open a moment ago, when the parent's visit may be over.
  bool is_moot() const noexcept {
    return is_cancelled_.load(std::memory_order_acquire) || request_->is_abandoned();
  }

  void on_child_answered(size_t index, Request& child) noexcept {
    Outcome& outcome = children_[index];
    outcome.error = child.error;
    outcome.site = child.site;
    // Taken out of the child, which other threads may still hold for a moment.
    const Dict output = std::exchange(child.output, {});
    if (const Value* result = output.find(keys::result)) outcome.result = *result;
    if (outcome.error != nullptr && on_error_ == OnError::kFail) {
      is_cancelled_.store(true, std::memory_order_release);
      parent_.request->pipeline->note_early_answer();  // of the siblings, as good as answered
    }
    if (num_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish();
  }

 private:
  struct Outcome {
    Value result;
    std::exception_ptr error;
    FailureSite::Shared site;
  };

  void finish() noexcept {
    parent_.request->pipeline->add_inside(1);
    auto list = make_ref<List>();
    for (Outcome& outcome : children_) {
      if (outcome.error == nullptr) {
        list->values.push_back(std::move(outcome.result));
      } else if (on_error_ == OnError::kKeep) {
        list->values.emplace_back(Ref<Any>(make_ref<Failure>(outcome.error, outcome.site)));
      } else if (on_error_ == OnError::kFail && !is_cancellation(outcome.error)) {
        // The first in order, whichever came first in time.
        parent_.error = outcome.error;
        parent_.site = outcome.site;
        break;
      }
    }
    const bool was_cancelled = is_cancelled_.load(std::memory_order_acquire);
    if (parent_.error == nullptr && was_cancelled) parent_.error = children_[0].error;
    parent_.set_result(Value(std::move(list)));
    parent_.finish();
  }

  Visit& parent_;
  const Ref<Request> request_;
  const OnError on_error_;
  std::vector<Outcome> children_;
  std::atomic<size_t> num_left_;
  std::atomic<bool> is_cancelled_{false};
};

class Child final : public Completion {
 public:
  Child(std::shared_ptr<ForEachRun> run, size_t index) : run_(std::move(run)), index_(index) {}
  void on_answered(Request& request) noexcept override { run_->on_child_answered(index_, request); }
  bool is_moot() const noexcept override { return run_->is_moot(); }

 private:
  const std::shared_ptr<ForEachRun> run_;
  const size_t index_;
};

class ForEach final : public ControlOperator {
 public:
  explicit ForEach(Build& build)
      : key_(Key::intern(build.params().get_str("key"))),
        on_error_(parse_on_error(build.params().get_str("on_error"))) {
    for (const Value& key : build.params().get_list("pass")) {
      pass_.push_back(Key::intern(key.as_text()));
      if (pass_.back() != keys::data && pass_.back() != keys::result) continue;
      throw Error(ErrorKind::kBuild, "build-foreach-pass",
                  "`pass` cannot name " + backticked(key.as_text()) +
                      ": in a child `data` is the element and `result` is what becomes of it",
                  "copy it to a key of another name, and pass that one");
    }
  }

  void start_one(Task& task) override { send_children(static_cast<Visit&>(task)); }

  void collect_reads(std::vector<Key>& reads) const override {
    reads.push_back(key_);
    reads.insert(reads.end(), pass_.begin(), pass_.end());
  }
  int container_depth() const override { return 1; }

 private:
  void send_children(Visit& parent) {
    std::vector<Value> elements = elements_of(parent.dict, key_);
    if (elements.empty()) {
      parent.set_result(Value(make_ref<List>()));
      return parent.finish();
    }
    Pipeline& pipeline = *parent.request->pipeline;
    const int target = pipeline.node(parent.node).plan->foreach_target;
    auto run = std::make_shared<ForEachRun>(parent, elements.size(), on_error_);
    std::vector<Ref<Request>> children;
    for (size_t i = 0; i < elements.size(); ++i) {
      auto child = make_ref<Request>(parent.request->pipeline, pipeline.node(target).plan->region);
      child->input.put(keys::data, std::move(elements[i]));
      copy(keys::context, parent, *child);
      for (const Key& key : pass_) copy(key, parent, *child);
      child->priority = parent.priority;
      child->deadline = parent.deadline;
      child->completion = std::make_shared<Child>(run, i);
      if (parent.trace_id != 0) child->trace_submit(Clock::now(), parent.trace_id);
      children.push_back(std::move(child));
    }
    const std::shared_ptr<Pipeline> alive = parent.request->pipeline;
    alive->dispatcher().enter(children, false);
    // The children stand in the parent's place, which may have ended by now.
    alive->add_inside(-1);
  }

  static void copy(const Key& key, const Visit& parent, Request& child) {
    if (const Value* value = parent.dict.find(key)) child.input.put(key, *value);
  }

  const Key key_;
  const OnError on_error_;
  std::vector<Key> pass_;
};

HAMI_REGISTER(ForEach, .family = "flow",
              .doc = "Sends each element of a list through a subgraph and collects the results.",
              .params = {{.name = "target",
                          .type = "str",
                          .doc = "the first node of the subgraph",
                          .is_required = true},
                         {.name = "key",
                          .type = "str",
                          .doc = "the key that holds the list",
                          .default_value = Value::str(std::string("data"))},
                         {.name = "on_error",
                          .type = "str",
                          .doc = "what an element that fails does to the whole",
                          .default_value = Value::str(std::string("fail")),
                          .choices = {"fail", "keep", "drop"}},
                         {.name = "pass",
                          .type = "list",
                          .doc = "further keys of the request that every element takes along"}},
              .is_operator = true);

}  // namespace
}  // namespace hami
