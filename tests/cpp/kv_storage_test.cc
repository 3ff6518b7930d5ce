// The storage of a pipeline: by request and key, from any thread.
#include "core/kv_storage.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "core/dict.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("kv_storage");

Value id(int64_t number) { return Value(number); }
Value id(const char* text) { return Value::str(std::string(text)); }

TEST_CASE("what was set is got until it is erased") {
  KVStorage storage;
  CHECK_FALSE(storage.get(id(1), "k"));
  storage.set(id(1), "k", Value(int64_t{5}));
  storage.set(id(1), "k", Value(int64_t{6}));
  storage.set(id(1), "other", Value(true));
  storage.set(id(2), "k", Value(false));
  CHECK(storage.get(id(1), "k")->as_int() == 6);
  CHECK(storage.has(id(1), "other"));
  CHECK(storage.size() == 3);
  CHECK(storage.erase(id(1), "k")->as_int() == 6);
  CHECK_FALSE(storage.erase(id(1), "k"));
  CHECK_FALSE(storage.erase(id(9), "k"));
  CHECK(storage.size() == 2);
}

TEST_CASE("erase_all takes what one request left and nothing else") {
  KVStorage storage;
  for (int64_t request = 0; request < 40; ++request) {
    for (const char* key : {"a", "b", "c"}) storage.set(id(request), key, Value(request));
  }
  CHECK(storage.erase_all(id(7)) == 3);
  CHECK(storage.erase_all(id(7)) == 0);
  CHECK(storage.size() == 39 * 3);
  CHECK(storage.has(id(8), "a"));
  storage.clear();
  CHECK(storage.size() == 0);
}

TEST_CASE("ids of different types are different requests") {
  KVStorage storage;
  storage.set(id(1), "k", Value(int64_t{1}));
  storage.set(id("1"), "k", Value(int64_t{2}));
  storage.set(Value::bytes(make_ref<Bytes>(std::string("1"))), "k", Value(int64_t{3}));
  storage.set(id(""), "", Value(int64_t{4}));
  CHECK(storage.size() == 4);
  CHECK(storage.get(id("1"), "k")->as_int() == 2);
}

TEST_CASE("anything else is no id") {
  KVStorage storage;
  for (const Value& wrong : {Value(), Value(1.5), Value(true), Value(make_ref<List>())}) {
    const auto error = [&] {
      try {
        storage.set(wrong, "k", Value());
      } catch (...) {
        return std::current_exception();
      }
      return std::exception_ptr();
    }();
    CHECK(code_of(error) == "request-id-type");
  }
  CHECK(storage.size() == 0);
}

// A value whose end uses the storage, as code of the host language may.
class Curious final : public Any {
 public:
  explicit Curious(KVStorage& storage) : storage_(storage) {}
  ~Curious() override { storage_.set(id(1), "left", Value(true)); }
  std::string type_name() const override { return "curious"; }

 private:
  KVStorage& storage_;
};

TEST_CASE("values are dropped with no lock held") {
  KVStorage storage;
  const auto put = [&] { storage.set(id(1), "k", Value(Ref<Any>(make_ref<Curious>(storage)))); };
  put();
  storage.set(id(1), "k", Value());
  CHECK(storage.has(id(1), "left"));
  storage.clear();
  put();
  storage.erase(id(1), "k");
  CHECK(storage.has(id(1), "left"));
  put();
  storage.erase_all(id(1));
  CHECK(storage.has(id(1), "left"));
  put();
  storage.clear();
  CHECK(storage.size() == 1);
}

TEST_CASE("threads do not disturb each other") {
  KVStorage storage;
  std::vector<std::thread> threads;
  for (int64_t index = 0; index < 8; ++index) {
    threads.emplace_back([&storage, index] {
      for (int64_t i = 0; i < 2000; ++i) {
        storage.set(id(index), std::to_string(i % 10), Value(i));
        storage.set(id("shared"), std::to_string(index), Value(i));
        if (i % 100 == 99) storage.erase_all(id(index));
      }
      storage.set(id(index), "last", Value(index));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(storage.size() == 16);
  CHECK(storage.get(id(3), "last")->as_int() == 3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
