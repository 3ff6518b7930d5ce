// `Random(probability, seed)`: holds for a share of the items, chosen by chance.
#include <atomic>

#include "core/condition.h"
#include "core/split_mix.h"
#include "plan/build.h"

namespace hami {
namespace {

// Every `Random` of a pipeline draws from a stream of its own, which depends on nothing but the
// seed, the node's name, the number of the instance and the place in the expression.
uint64_t stream_of(Build& build) {
  static const Key count_key = Key::intern("num_random");
  const Value* known = build.options().find(count_key);
  const int64_t place = known == nullptr ? 0 : known->as_int();
  build.options().put(count_key, Value(place + 1));
  uint64_t stream = split_mix(static_cast<uint64_t>(build.params().get_int("seed")) + kGoldenGamma);
  for (const char character : build.node_name()) {
    stream = split_mix(stream + static_cast<unsigned char>(character) + kGoldenGamma);
  }
  stream = split_mix(stream + static_cast<uint64_t>(build.instance_index()) + kGoldenGamma);
  return split_mix(stream + static_cast<uint64_t>(place) + kGoldenGamma);
}

class Random final : public Condition {
 public:
  explicit Random(Build& build)
      : Condition(build.children()),
        probability_(build.params().get_float("probability")),
        stream_(stream_of(build)) {}

  // The n-th question gets the n-th number of the stream, whichever thread asks.
  bool holds(const Item&) const override {
    const uint64_t turn = num_asked_.fetch_add(1, std::memory_order_relaxed) + 1;
    const auto high_bits = static_cast<double>(split_mix(stream_ + turn * kGoldenGamma) >> 11);
    return high_bits * 0x1p-53 < probability_;  // 53 bits make a number in [0, 1)
  }

 private:
  const double probability_;
  const uint64_t stream_;
  mutable std::atomic<uint64_t> num_asked_{0};
};

HAMI_REGISTER(Random, .family = "flow", .doc = "Holds for a share of the items, chosen by chance.",
              .params = {{.name = "probability",
                          .type = "float",
                          .doc = "share of the items for which it holds",
                          .default_value = Value(0.5),
                          .min = 0,
                          .max = 1},
                         {.name = "seed",
                          .type = "int",
                          .doc = "another seed chooses other items; the same one the same again",
                          .default_value = Value(int64_t{0})}},
              .max_children = 2, .is_condition = true);

}  // namespace
}  // namespace hami
