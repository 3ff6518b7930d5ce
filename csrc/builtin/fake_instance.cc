// `FakeInstance[A, B, ...]`: several backends that do the same for batches of different sizes look
// like one. A batch goes to the child with the smallest `max` that takes it.
#include <algorithm>

#include "builtin/container.h"
#include "core/error.h"

namespace hami {
namespace {

class FakeInstance final : public Container {
 public:
  explicit FakeInstance(Build& build) : Container(build) {
    // Best fit first; where two are alike, the one that is written first.
    std::ranges::stable_sort(children_, {},
                             [](const auto& child) { return child->batch_range().max; });
    for (const auto& child : children_) ranges_.push_back(child->batch_range());
    range_ = whole_range();
  }

  BatchRange batch_range() const override { return range_; }
  // Whichever child runs, the batch is of one group for it.
  size_t group_of(const Item& item) const override {
    size_t group = 0;
    for (const auto& child : children_) {
      group = group * 0x9E3779B97F4A7C15ULL + child->group_of(item);
    }
    return group;
  }

  void forward(Batch batch) override {
    const int64_t rows = num_rows(batch);
    for (size_t i = 0; i < children_.size(); ++i) {
      if (fits(ranges_[i], rows)) return children_[i]->forward(batch);
    }
    throw Error(ErrorKind::kRequest, "request-too-small",
                "no backend of this `FakeInstance` takes " + std::to_string(rows) + " rows",
                "add one with a smaller `min`");
  }

 private:
  static bool fits(const BatchRange& range, int64_t rows) {
    return range.min <= rows && rows <= range.max;
  }

  // From the smallest `min` to the largest `max`, with a child for every number between.
  BatchRange whole_range() const {
    std::vector<BatchRange> ordered = ranges_;
    std::ranges::sort(ordered, {}, &BatchRange::min);
    BatchRange whole = ordered[0];
    for (const BatchRange& range : ordered) {
      if (range.min - 1 > whole.max) {
        throw Error(
            ErrorKind::kBuild, "build-batch-range",
            "no backend of this `FakeInstance` takes " + std::to_string(whole.max + 1) +
                (range.min - 1 == whole.max + 1 ? "" : " to " + std::to_string(range.min - 1)) +
                " rows",
            "close the gap between their ranges");
      }
      whole.max = std::max(whole.max, range.max);
    }
    return whole;
  }

  std::vector<BatchRange> ranges_;
  BatchRange range_;
};

HAMI_REGISTER(FakeInstance, .family = "wiring",
              .doc = "Several backends as one instance: the smallest that takes the batch runs it.",
              .min_children = 1, .max_children = -1);

}  // namespace
}  // namespace hami
