// Values, keys and dicts.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/dict.h"
#include "core/tensor.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("values");

// Says through a flag when it is gone.
class Tracked final : public Any {
 public:
  explicit Tracked(bool& is_gone) : is_gone_(is_gone) { is_gone = false; }
  ~Tracked() override { is_gone_ = true; }
  std::string type_name() const override { return "tracked"; }

 private:
  bool& is_gone_;
};

TEST_CASE("a value knows its kind and its type's name") {
  CHECK(Value().is_none());
  CHECK(Value(true).type_name() == "bool");
  CHECK(Value(int64_t{3}).as_int() == 3);
  CHECK(Value(2.5).as_float() == 2.5);
  CHECK(Value::str(std::string("é")).as_text() == "é");
  CHECK(Value::bytes(make_ref<Bytes>(std::string("a\0b", 3))).as_text().size() == 3);
  CHECK(Value(make_ref<List>()).type_name() == "list");
  CHECK(Value(make_ref<Table>()).type_name() == "dict");
  CHECK(Value(Tensor::allocate({DType::kInt, 8}, {2, 3})).type_name() == "int8[2x3]");
}

TEST_CASE("text and bytes of the same characters stay different") {
  CHECK(Value::str(std::string("a")).kind() != Value::bytes(make_ref<Bytes>("a")).kind());
}

TEST_CASE("of several threads that name an origin the first one wins, and the others' go") {
  for (int round = 0; round < 100; ++round) {
    constexpr int kNumThreads = 4;
    bool is_gone[kNumThreads];
    std::vector<Ref<Object>> origins;
    for (bool& flag : is_gone) origins.push_back(make_ref<Tracked>(flag));
    auto text = make_ref<Text>("name");
    std::vector<std::thread> threads;
    for (Ref<Object>& origin : origins) {
      threads.emplace_back([&text, &origin] {
        text->set_origin(std::move(origin));
        CHECK(text->origin() != nullptr);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(std::ranges::count(is_gone, false) == 1);
    text = nullptr;
    CHECK(std::ranges::count(is_gone, false) == 0);
  }
}

TEST_CASE("an object lives as long as the last value that shares it") {
  bool is_gone = false;
  {
    Value copy;
    {
      const Value value(Ref<Any>(make_ref<Tracked>(is_gone)));
      copy = value;
    }
    CHECK_FALSE(is_gone);
    CHECK(copy.type_name() == "tracked");
  }
  CHECK(is_gone);
}

TEST_CASE("text that views foreign memory keeps its owner alive") {
  bool is_gone = false;
  {
    auto owner = make_ref<Tracked>(is_gone);
    const Value text = Value::str(make_ref<Text>("view", Ref<Object>(owner)));
    owner = nullptr;
    CHECK_FALSE(is_gone);
    CHECK(text.as_text() == "view");
  }
  CHECK(is_gone);
}

TEST_CASE("interned keys are one object, and equal the same text from elsewhere") {
  const Key key = Key::intern("data");
  CHECK(key.object() == keys::data.object());
  CHECK(key == Key("data"));
  CHECK(Key("") == Key::intern(""));
  CHECK_FALSE(key == Key("Data"));
}

TEST_CASE("a dict keeps the order of first insertion and tells missing from None") {
  Dict dict;
  dict.put(keys::data, Value(int64_t{1}));
  dict.put(keys::context, Value());
  dict.put(keys::data, Value(int64_t{2}));
  CHECK(dict.size() == 2);
  CHECK(dict.begin()->key == keys::data);
  CHECK(dict.find(keys::data)->as_int() == 2);
  CHECK(dict.find(keys::context)->is_none());
  CHECK(dict.find(keys::result) == nullptr);
}

TEST_CASE("only what a node set counts as written") {
  Dict dict;
  dict.put(keys::data, Value(int64_t{1}));
  dict.set(keys::result, Value(int64_t{2}));
  for (const auto& entry : dict) CHECK(entry.is_written() == (entry.key == keys::result));
  dict.put(keys::result, Value(int64_t{3}));
  CHECK_FALSE((dict.begin() + 1)->is_written());
}

TEST_CASE("erasing tells whether the key was there") {
  Dict dict;
  dict.set(keys::result, Value());
  CHECK(dict.erase(keys::result));
  CHECK_FALSE(dict.erase(keys::result));
  CHECK(dict.size() == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
