// `SharedInstancesState`: accepted where texts of the family write it. There, batcher and
// dispatcher had to be given a common view of which instances are free; here the dispatcher is the
// only one that knows, and `Batching` asks it, so there is nothing left to share.
#include "plan/build.h"

namespace hami {
namespace {

class SharedInstancesState final : public InlineBackend {
 public:
  explicit SharedInstancesState(Build&) {}
  void forward(Batch batch) override {
    for_each_item(batch, [](Item& item) { item.set_result(item.data()); });
  }
};

HAMI_REGISTER(SharedInstancesState, .family = "scheduling",
              .doc =
                  "Makes no difference here: the dispatcher's view of its instances is the only "
                  "one.",
              .is_hidden = true);

}  // namespace
}  // namespace hami
