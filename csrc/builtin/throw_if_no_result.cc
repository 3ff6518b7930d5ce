// `ThrowIfNoResult[X]`: an item to which X gives no result fails. Alone in a chain it fails the
// items that come without one: `S[A, ThrowIfNoResult]`.
#include "builtin/container.h"
#include "core/error.h"

namespace hami {
namespace {

class ThrowIfNoResult final : public Container {
 public:
  explicit ThrowIfNoResult(Build& build) : Container(build), node_name_(build.node_name()) {}

  void forward(Batch batch) override {
    if (!children_.empty()) children_[0]->forward(batch);
    for (Item* item : batch) {
      if (item->error == nullptr && !item->dict.has(keys::result)) item->error = missing();
    }
  }
  Traits traits() const override {
    Traits traits = Container::traits();
    traits.may_skip = false;
    return traits;
  }
  size_t group_of(const Item& item) const override {
    return children_.empty() ? 0 : children_[0]->group_of(item);
  }
  bool judges_results() const override { return children_.empty(); }

 private:
  std::exception_ptr missing() const {
    return std::make_exception_ptr(Error(
        ErrorKind::kRequest, "request-missing-result",
        "an item of node " + backticked(node_name_) + " has no `result` where it must have one",
        "send it only what its conditions let pass, or add `(or)X` before"));
  }

  const std::string node_name_;
};

HAMI_REGISTER(ThrowIfNoResult, .family = "flow", .doc = "Fails the items that have no result.",
              .max_children = 1);

}  // namespace
}  // namespace hami
