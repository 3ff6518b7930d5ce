// `Queue` names a queue of the pipeline and its capacity, `Observer` says how much is in one. What
// goes in and out are `Send` and `Recv`, in graph/send_recv.cc.
#include "plan/build.h"

namespace hami {
namespace {

class NamedQueue final : public InlineBackend {
 public:
  explicit NamedQueue(Build& build) {
    const auto capacity = static_cast<size_t>(build.params().get_int("capacity"));
    build.scope().declare_queue(build.params().get_str("name"), capacity);
  }
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) { item.set_result(item.data()); });
  }
};

class Observer final : public InlineBackend {
 public:
  explicit Observer(Build& build)
      : queue_(build.scope().default_queue(build.params().get_str("queue"))) {}
  void forward(Batch batch) override {
    for (Item* item : batch) item->set_result(Value(static_cast<int64_t>(queue_->size())));
  }
  void collect_reads(std::vector<Key>&) const override {}

 private:
  const std::shared_ptr<Queue> queue_;
};

BackendClass named_queue_class(std::string name, std::string doc, bool is_hidden) {
  return {
      .name = std::move(name),
      .family = "queues",
      .doc = std::move(doc),
      .params = {{.name = "name", .type = "str", .doc = "the queue's name", .is_required = true},
                 {.name = "capacity",
                  .type = "int",
                  .doc = "most elements that it holds",
                  .default_value = Value(static_cast<int64_t>(Queue::kDefaultCapacity)),
                  .min = 1,
                  .max = 2147483647}},
      .is_hidden = is_hidden,
      .create = [](Build& build) { return std::make_shared<NamedQueue>(build); }};
}

const Registration registration_of_queue{
    named_queue_class("Queue", "Makes a queue of the pipeline; the data passes by.", false)};

// The family's older name.
const Registration registration_of_create_queue{
    named_queue_class("CreateQueue", "The same as `Queue`.", true)};

HAMI_REGISTER(
    Observer, .family = "queues",
    .doc = "The number of elements in a queue, none of which is taken.",
    .params = {{.name = "queue", .type = "str", .doc = "the queue's name", .is_required = true}});

}  // namespace
}  // namespace hami
