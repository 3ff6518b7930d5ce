// The backends of the tests, compiled by every compiler that is there. PREFIX keeps the classes of
// one compiler apart from those of another in the same process.
#include <dlfcn.h>
#include <hami/hami.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Multiplies an array or a number.
class Scale final : public hami::Backend {
 public:
  void init(const hami::Params& params) override {
    factor_ = params.get<double>("factor");
    max_ = params.find<int64_t>("max").value_or(1);
    if (params.get<std::string>("mode") == "broken") {
      throw hami::Error("the mode `broken` does not work", "use another mode");
    }
  }
  hami::BatchRange batch_range() const override { return {1, max_}; }
  void forward(hami::Batch& batch) override {
    hami::for_each_item(batch, [this](hami::Item& item) { item.set_result(scale(item)); });
  }

 private:
  hami::Value scale(const hami::Item& item) const {
    const auto data = item.get<hami::Value>("data");
    if (!data.is(hami::Kind::kTensor)) return factor_ * data.as_float();
    const hami::Tensor in = data.as_tensor();
    const auto values = in.elements<const float>();
    const hami::Tensor out = hami::Tensor::allocate(in.dtype(), in.shape());
    const auto scaled = out.elements<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      scaled[i] = static_cast<float>(factor_) * values[i];
    }
    return out;
  }

  double factor_ = 1;
  int64_t max_ = 1;
};

// Fails in the way that `data` names; the items beside it must not suffer.
class Fail final : public hami::Backend {
 public:
  hami::BatchRange batch_range() const override { return {1, 8}; }
  void forward(hami::Batch& batch) override {
    std::vector<hami::Value> results;
    for (hami::Item item : batch) {
      const auto how = item.get<std::string>("data");
      if (how == "throw") throw std::runtime_error("thrown by the plugin");
      if (how == "number") throw 7;  // NOLINT: anything can be thrown
      if (how == "request") throw hami::RequestError("the request is bad", "send a better one");
      if (how == "memory") throw std::bad_alloc();
      if (how == "deep") throw_deeply(10);
      if (how == "item") item.fail("this item is bad", "leave it out");
      if (how == "backend") item.fail_backend("this item broke the backend");
      if (how == "type") static_cast<void>(item.get<int64_t>("data"));
      if (how == "missing") static_cast<void>(item.get<int64_t>("nothing"));
      if (how == "many") return batch.set_results(std::vector<hami::Value>(batch.size() + 1));
      if (how == "few") return batch.set_results({});
      if (how == "unset") return;
      results.emplace_back("ok " + how);
    }
    batch.set_results(results);
  }

 private:
  static void throw_deeply(int depth) {
    const std::string local(100, 'x');  // something to unwind
    if (depth == 0) throw std::out_of_range("thrown ten frames deep");
    throw_deeply(depth - 1);
  }
};

// Gives a value back in the form that `data` asks for.
class Echo final : public hami::Backend {
 public:
  void forward(hami::Batch& batch) override {
    hami::for_each_item(batch, [](hami::Item& item) {
      if (item.has("wanted")) return item.set_result(wanted(item));
      item.set_result(item.get<hami::Value>("data"));
    });
  }

 private:
  static hami::Value wanted(const hami::Item& item) {
    const auto form = item.get<std::string>("wanted");
    const auto data = item.get<hami::Value>("data");
    if (form == "kind") return static_cast<int32_t>(data.kind());
    if (form == "type") return data.type_name();
    if (form == "sum") {
      const hami::List list = data.as_list();
      double sum = 0;
      for (size_t i = 0; i < list.size(); ++i) sum += list[i].as_float();
      return sum;
    }
    if (form == "keys") {
      std::vector<hami::Value> keys;
      for (const std::string& key : data.as_dict().keys()) keys.emplace_back(key);
      return hami::Value::list(keys);
    }
    if (form == "table") {
      hami::Table table;
      table.set("none", hami::Value());
      table.set("bytes", hami::Value::bytes("a\0b", 3));
      table.set("text", "grüße");
      table.set("true", true);
      return table;
    }
    throw hami::RequestError("`" + form + "` is no form");
  }
};

std::atomic<int64_t> num_released{0};

// Arrays across the border without copies.
class Arrays final : public hami::Backend {
 public:
  void forward(hami::Batch& batch) override {
    hami::for_each_item(batch, [this](hami::Item& item) { item.set_result(run(item)); });
  }

 private:
  hami::Value run(const hami::Item& item) {
    const auto how = item.get<std::string>("how");
    if (how == "released") return num_released.load();
    if (how == "kept") return kept_->elements<const float>()[0];
    if (how == "own") {
      auto* const memory = new std::vector<int32_t>{1, 2, 3, 4, 5, 6};
      const int64_t shape[] = {2, 3};
      return hami::Tensor::adopt(memory->data(), hami::DType::of<int32_t>(), shape, [memory] {
        delete memory;
        ++num_released;
      });
    }
    const auto tensor = item.get<hami::Tensor>("data");
    if (how == "address") return reinterpret_cast<int64_t>(tensor.data());
    if (how == "strides") return describe(tensor);
    if (how == "write") return tensor.elements<float>()[0] = 1;
    if (how == "read_only") return tensor.is_read_only();
    // Out and in again: the result looks at the caller's memory.
    if (how == "through") return hami::Tensor::from_dlpack(tensor.to_dlpack());
    if (how == "keep") {
      kept_ = std::make_unique<hami::Tensor>(tensor);
      return true;
    }
    throw hami::RequestError("`" + how + "` is no way");
  }

  static hami::Value describe(const hami::Tensor& tensor) {
    std::vector<hami::Value> strides;
    for (const int64_t stride : tensor.strides()) strides.emplace_back(stride);
    return hami::Value::list(strides);
  }

  std::unique_ptr<hami::Tensor> kept_;
};

// Whether this thread has Python's lock; and meets the run of another instance, which can only come
// if nobody holds it.
class Meet final : public hami::Backend {
 public:
  void forward(hami::Batch& batch) override {
    using Check = int (*)();
    const auto check = reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
    static std::mutex mutex;
    static std::condition_variable changed;
    static int num_here = 0;
    std::unique_lock lock(mutex);
    const int needed = num_here / 2 * 2 + 2;
    ++num_here;
    changed.notify_all();
    const bool met =
        changed.wait_for(lock, std::chrono::seconds(20), [&] { return num_here >= needed; });
    for (hami::Item item : batch) {
      hami::Table table;
      table.set("met", met);
      table.set("has_gil", check == nullptr ? -1 : check());
      table.set("node", node_name());
      table.set("instance", instance_index());
      item.set_result(table);
    }
  }
};

// Must not run an item twice: a bad one fails its whole batch. Tells how often it has run.
class Once final : public hami::Backend {
 public:
  hami::BatchRange batch_range() const override { return {1, 4}; }
  void forward(hami::Batch& batch) override {
    ++num_runs_;
    for (hami::Item item : batch) {
      if (item.get<int64_t>("data") < 0) throw std::runtime_error("once and no more");
      item.set_result(num_runs_);
    }
  }

 private:
  int num_runs_ = 0;
};

// Tells the number of items and of rows of its run.
class Count final : public hami::Backend {
 public:
  void init(const hami::Params& params) override { max_ = params.get<int64_t>("max"); }
  hami::BatchRange batch_range() const override { return {1, max_}; }
  void forward(hami::Batch& batch) override {
    for (hami::Item item : batch) {
      item.set("num_items", batch.size());
      item.erase("marker");
      item.set_result(batch.num_rows());
    }
  }

 private:
  int64_t max_ = 1;
};

HAMI_REGISTER_BACKEND(Scale, .name = PREFIX "Scale", .doc = "Multiplies.",
                      .params = {
                          {.name = "factor",
                           .type = "float",
                           .doc = "what to multiply with",
                           .default_value = 2.0,
                           .unit = "times",
                           .min = -100,
                           .max = 100},
                          {.name = "max", .type = "int", .doc = "most rows of one run", .min = 1},
                          {.name = "mode",
                           .type = "str",
                           .doc = "how",
                           .default_value = "fast",
                           .choices = {"fast", "slow", "broken"}}});
HAMI_REGISTER_BACKEND(Fail, .name = PREFIX "Fail", .doc = "Fails.");
HAMI_REGISTER_BACKEND(Echo, .name = PREFIX "Echo", .doc = "Gives back.",
                      .reads = {"data", "wanted"});
HAMI_REGISTER_BACKEND(Arrays, .name = PREFIX "Arrays", .doc = "Passes arrays.",
                      .reads = {"data", "how"});
HAMI_REGISTER_BACKEND(Once, .name = PREFIX "Once", .doc = "Runs once.", .is_idempotent = false);
HAMI_REGISTER_BACKEND(Meet, .name = PREFIX "Meet", .doc = "Waits for another run.");
HAMI_REGISTER_BACKEND(Count, .name = PREFIX "Count", .doc = "Counts.",
                      .params = {{.name = "max",
                                  .type = "int",
                                  .doc = "most rows of one run",
                                  .is_required = true,
                                  .min = 1}},
                      .reads = {"data", "marker"});

}  // namespace
