// `Send` puts the data of a request into a queue of the pipeline, `Recv` takes an element out.
// Neither holds a thread while it waits; among those who wait, the first to come is the first to
// go, whatever their priority.
#include <utility>

#include "core/failure.h"
#include "graph/dispatcher.h"
#include "graph/queue_operator.h"

namespace hami {
namespace {

class Send final : public QueueOperator {
 public:
  explicit Send(Build& build) : QueueOperator(build) {}

 private:
  void enter(Queue& queue, Ref<Wait> wait, const Visit& visit) override {
    wait->value = visit.data();
    queue.push(std::move(wait));
  }
  void carry_on(Visit& visit, Value value) override {
    visit.set_result(std::move(value));
    visit.finish();
  }
};

// Hands the answer of the element's own request to the one that received it.
class Received final : public Completion {
 public:
  explicit Received(Visit& receiver) : receiver_(receiver), request_(receiver.request) {}

  void on_answered(Request& element) noexcept override {
    const std::shared_ptr<Pipeline> alive = request_->pipeline;
    alive->add_inside(1);
    receiver_.error = element.error;
    receiver_.site = element.site;
    // Taken out of the element's request, which other threads may still hold for a moment.
    const Dict output = std::exchange(element.output, {});
    if (const Value* result = output.find(keys::result)) receiver_.set_result(*result);
    receiver_.finish();
  }
  bool is_moot() const noexcept override { return request_->is_abandoned(); }

 private:
  Visit& receiver_;  // gone with the answer
  const Ref<Request> request_;
};

class Recv final : public QueueOperator {
 public:
  explicit Recv(Build& build)
      : QueueOperator(build), enters_target_(build.params().is_set("target")) {}

  void collect_reads(std::vector<Key>&) const override {}

 private:
  void enter(Queue& queue, Ref<Wait> wait, const Visit&) override { queue.pop(std::move(wait)); }

  void carry_on(Visit& visit, Value value) override {
    if (enters_target_) return enter_target(visit, std::move(value));
    visit.set_result(std::move(value));
    visit.finish();
  }

  static void enter_target(Visit& visit, Value element) {
    const std::shared_ptr<Pipeline> alive = visit.request->pipeline;
    const int target = alive->node(visit.node).plan->foreach_target;
    auto child = make_ref<Request>(alive, alive->node(target).plan->region);
    child->input.put(keys::data, std::move(element));
    if (const Value* context = visit.dict.find(keys::context)) {
      child->input.put(keys::context, *context);
    }
    child->priority = visit.priority;
    child->deadline = visit.deadline;
    child->completion = std::make_shared<Received>(visit);
    if (visit.trace_id != 0) child->trace_submit(Clock::now(), visit.trace_id);
    const Ref<Request> children[] = {std::move(child)};
    alive->dispatcher().enter(children, false);
    // The child stands in the place of its parent, which may have ended by now.
    alive->add_inside(-1);
  }

  const bool enters_target_;
};

std::vector<Param> params_of_recv() {
  std::vector<Param> params = QueueOperator::params();
  params.insert(params.begin() + 1,
                {.name = "target",
                 .type = "str",
                 .doc = "the first node of a subgraph that the element goes through"});
  return params;
}

const Registration registration_of_send{
    BackendClass{.name = "Send",
                 .family = "queues",
                 .doc = "Puts the data into a queue, and waits without a thread while it is full.",
                 .params = QueueOperator::params(),
                 .is_operator = true,
                 .create = create_queue_operator<Send>}};

const Registration registration_of_recv{
    BackendClass{.name = "Recv",
                 .family = "queues",
                 .doc = "Takes an element out of a queue, and waits without a thread for one.",
                 .params = params_of_recv(),
                 .is_operator = true,
                 .create = create_queue_operator<Recv>}};

// The family's older name.
const Registration registration_of_src_queue{BackendClass{.name = "SrcQueue",
                                                          .family = "queues",
                                                          .doc = "The same as `Recv`.",
                                                          .params = params_of_recv(),
                                                          .is_operator = true,
                                                          .is_hidden = true,
                                                          .create = create_queue_operator<Recv>}};

}  // namespace
}  // namespace hami
