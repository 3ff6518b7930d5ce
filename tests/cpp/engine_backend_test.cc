// `EngineBackend` with a model of the test's own: what it is given, on the host and on a device,
// and that every item gets its rows.
#include "engine/engine_backend.h"

#include <algorithm>

#include "core/device_arrays.h"
#include "onnx_fixture.h"

namespace hami::engine {
namespace {

using namespace onnxruntime::testing;  // NOLINT: the fixture of these tests

constexpr DType kFloat32{DType::kFloat, 32};
constexpr Device kCuda{2, 0};

// What a model was given, in order.
struct Log {
  std::vector<std::vector<Ref<Tensor>>> runs;
  std::vector<std::pair<size_t, int64_t>> joins;  // number of parts, rows wanted
  Ref<Tensor> staging;
  int num_turns = 0;
  bool has_turn = false;
};

// y = x for a description of one input and one output.
class Echo final : public Model {
 public:
  explicit Echo(Log& log) : log_(log) {}
  struct LoggedTurn final : Turn {
    explicit LoggedTurn(Log& log) : log(log) {
      ++log.num_turns;
      log.has_turn = true;
    }
    ~LoggedTurn() override { log.has_turn = false; }
    Log& log;
  };
  std::unique_ptr<Turn> take_turn() override { return std::make_unique<LoggedTurn>(log_); }
  std::vector<Ref<Tensor>> run(std::span<const Ref<Tensor>> inputs) override {
    log_.runs.emplace_back(inputs.begin(), inputs.end());
    CHECK(log_.has_turn == !inputs[0]->device().is_cpu());
    auto result = Tensor::allocate(inputs[0]->dtype(), inputs[0]->shape());
    inputs[0]->copy_to(result->data());
    return {moved(result, inputs[0]->device())};
  }
  Ref<Tensor> staging(size_t, size_t size_bytes) override {
    if (log_.staging != nullptr) REQUIRE(log_.staging->size_bytes() >= size_bytes);
    return log_.staging;
  }
  Ref<Tensor> join(std::span<const DevicePart> parts, int64_t num_rows) override {
    log_.joins.emplace_back(parts.size(), num_rows);
    CHECK(log_.has_turn);
    auto whole = Tensor::allocate(kFloat32, {num_rows, 2});
    char* to = whole->data_as<char>();
    for (const DevicePart& part : parts) {
      CHECK(part.lacks_rows == (part.tensor->rank() == 1));
      part.tensor->copy_to(to);
      to += part.tensor->size_bytes();
    }
    return moved(whole, kCuda);
  }
  bool is_known_whole(size_t) const noexcept override { return false; }
  void learn_whole(size_t) noexcept override { FAIL("every output has rows"); }

  // Memory of the host that says it lies on a device.
  static Ref<Tensor> moved(const Ref<Tensor>& tensor, Device device) {
    return make_ref<Tensor>(tensor->data(), tensor->dtype(), tensor->shape(), tensor->strides(),
                            tensor->owner(), device);
  }

 private:
  Log& log_;
};

Ref<Tensor> on_cuda(const Ref<Tensor>& tensor, int id = 0) {
  return Echo::moved(tensor, Device{2, id});
}

std::unique_ptr<EngineBackend> echo(Log& log, std::optional<Device> device = {},
                                    std::optional<int64_t> fixed_rows = {}) {
  auto description = make_ref<EngineDescription>();
  description->inputs = {{"x", kFloat32, {fixed_rows.value_or(-1), 2}, true}};
  description->outputs = {{"y", kFloat32, {fixed_rows.value_or(-1), 2}, true}};
  description->device = device;
  description->fixed_rows = fixed_rows;
  const RowRange rows{.max = fixed_rows.value_or(8)};
  return std::make_unique<EngineBackend>(std::make_unique<Echo>(log), description, rows, "echo");
}

TEST_SUITE_BEGIN("engine");

TEST_CASE("a lone contiguous array reaches the model where it is") {
  Log log;
  Items items;
  auto data = floats({2, 2}, {1, 2, 3, 4});
  items.add(data, 2);
  echo(log)->forward(items.batch());
  CHECK(log.runs.at(0).at(0)->data() == data->data());
}

TEST_CASE("rows of several items are gathered in one run, and each gets its own back") {
  Log log;
  Items items;
  Item& row = items.add(floats({2}, {1, 2}));
  Item& rows = items.add(floats({2, 2}, {3, 4, 5, 6}), 2);
  echo(log)->forward(items.batch());
  REQUIRE(log.runs.size() == 1);
  CHECK(log.runs[0][0]->shape() == Shape{3, 2});
  CHECK(tensor_of(row).shape() == Shape{2});
  CHECK(numbers_of(tensor_of(rows)) == std::vector<float>{3, 4, 5, 6});
}

TEST_CASE("with memory of its own a model finds every input there, lone arrays too") {
  Log log;
  log.staging = Tensor::allocate({DType::kUInt, 8}, {64});
  for (const int num_items : {1, 3}) {
    Items items;
    for (int i = 0; i < num_items; ++i) items.add(floats({2}, {1.0F * i, 2}));
    echo(log)->forward(items.batch());
    CHECK(log.runs.back()[0]->data() == log.staging->data());
    CHECK(tensor_of(*items.batch().back()).data_as<float>()[0] == 1.0F * (num_items - 1));
  }
}

TEST_CASE("a lone array on the device passes as it is, and its result stays there") {
  Log log;
  Items items;
  auto data = on_cuda(floats({2, 2}, {1, 2, 3, 4}));
  Item& item = items.add(data, 2);
  echo(log, kCuda)->forward(items.batch());
  CHECK(log.joins.empty());
  CHECK(log.runs.at(0).at(0)->data() == data->data());
  CHECK(log.runs[0][0]->device() == kCuda);
  CHECK(tensor_of(item).device() == kCuda);
}

TEST_CASE("arrays on the device are joined there, with and without a batch axis") {
  Log log;
  Items items;
  items.add(on_cuda(floats({2}, {1, 2})));
  Item& rows = items.add(on_cuda(floats({2, 2}, {3, 4, 5, 6})), 2);
  echo(log, kCuda)->forward(items.batch());
  CHECK(log.joins == std::vector<std::pair<size_t, int64_t>>{{2, 3}});
  CHECK(numbers_of(tensor_of(rows)) == std::vector<float>{3, 4, 5, 6});
}

TEST_CASE("a fixed batch on the device is filled up by the model") {
  Log log;
  Items items;
  items.add(on_cuda(floats({2}, {1, 2})));
  echo(log, kCuda, 4)->forward(items.batch());
  CHECK(log.joins == std::vector<std::pair<size_t, int64_t>>{{1, 4}});
}

TEST_CASE("arrays of the host and of the device never share a run") {
  Log log;
  Items items;
  items.add(floats({2}, {1, 2}));
  items.add(on_cuda(floats({2}, {3, 4})));
  items.add(floats({2}, {5, 6}));
  auto backend = echo(log, kCuda);
  CHECK(backend->group_of(*items.batch()[0]) != backend->group_of(*items.batch()[1]));
  CHECK(backend->group_of(*items.batch()[0]) == backend->group_of(*items.batch()[2]));
  backend->forward(items.batch());
  CHECK(log.runs.size() == 2);
  for (const Item* item : items.batch()) CHECK(item->error == nullptr);
}

TEST_CASE("an array on another device is refused with both names") {
  Log log;
  Items items;
  Item& other = items.add(on_cuda(floats({2}, {1, 2}), 1));
  echo(log, kCuda)->forward(items.batch());
  CHECK(error_of(other).code() == "input-device");
  CHECK(contains(error_of(other).message(), "on `cuda:0`, got an array on `cuda:1`"));
}

TEST_CASE("an engine of the host refuses arrays on a device") {
  Log log;
  Items items;
  Item& item = items.add(on_cuda(floats({2}, {1, 2})));
  echo(log)->forward(items.batch());
  CHECK(contains(error_of(item).message(), "in CPU memory, got an array on `cuda:0`"));
}

// --- the built-in backends on devices
// --------------------------------------------------------------

TEST_CASE("where nobody works on a device its arrays are refused, and not read") {
  const auto array = on_cuda(floats({2, 2}, {1, 2, 3, 4}));
  const Error error = error_of([&] { array->cast({DType::kFloat, 64}); });
  CHECK(error.code() == "tensor-device");
  CHECK(contains(error.message(), "`float32[2x2]` lies on `cuda:0`"));
}

TEST_CASE("pinned memory of the host is memory of the host") {
  const auto pinned = Echo::moved(floats({2}, {1, 2}), Device{3, 0});
  CHECK(pinned->device().is_cpu());
  CHECK(pinned->device().name() == "cpu");
  CHECK(pinned->cast({DType::kFloat, 64})->data_as<double>()[1] == 2);
}

class CountingArrays final : public DeviceArrays {
 public:
  Ref<Tensor> concatenate(std::span<const Ref<Tensor>> parts) const override {
    ++num_calls;
    return parts[0];
  }
  Ref<Tensor> cast(const Ref<Tensor>& tensor, DType) const override {
    ++num_calls;
    return tensor;
  }
  mutable int num_calls = 0;
};

TEST_CASE("arrays on a device are joined and run in one turn, those of the host without") {
  Log log;
  const auto backend = echo(log, kCuda);
  for (const bool is_on_device : {true, false}) {
    Items items;
    for (int i = 0; i < 3; ++i) {
      const auto row = floats({2}, {1.0F * i, 2});
      items.add(is_on_device ? on_cuda(row) : row);
    }
    backend->forward(items.batch());
    CHECK(log.num_turns == 1);
    CHECK(!log.has_turn);
  }
  CHECK(log.joins.size() == 1);
  CHECK(log.runs.size() == 2);
}

TEST_CASE("a strided array on a device becomes contiguous there") {
  auto counting = std::make_unique<CountingArrays>();
  const CountingArrays& calls = *counting;
  set_device_arrays(std::move(counting));
  const auto base = floats({2, 2}, {1, 2, 3, 4});
  const auto strided =
      make_ref<Tensor>(base->data(), kFloat32, Shape{2, 2}, Shape{1, 2}, base->owner(), kCuda);
  strided->contiguous();
  on_cuda(base)->contiguous();  // is so already
  CHECK(calls.num_calls == 1);
  set_device_arrays(nullptr);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::engine
