// Reading a dict by type: what fits, and errors that say what was wanted and got.
#include "core/typed_dict.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("typed_dict");

const Key kKey = Key::intern("key");

Dict with(Value value) {
  Dict dict;
  dict.put(kKey, std::move(value));
  return dict;
}

template <class Call>
std::exception_ptr error_in(Call call) {
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

Value table() {
  auto made = make_ref<Table>();
  made->dict.put(kKey, Value(int64_t{1}));
  return Value(std::move(made));
}

TEST_CASE("every type is read as itself") {
  CHECK(TypedDict(with(Value(int64_t{5})), "X").get<int64_t>(kKey) == 5);
  CHECK(TypedDict(with(Value(2.5)), "X").get<double>(kKey) == 2.5);
  CHECK(TypedDict(with(Value(int64_t{5})), "X").get<double>(kKey) == 5.0);
  CHECK(TypedDict(with(Value(true)), "X").get<bool>(kKey));
  const Dict text = with(Value::str(std::string("words")));
  CHECK(TypedDict(text, "X").get<std::string_view>(kKey) == "words");
  const Dict bytes = with(Value::bytes(make_ref<Bytes>(std::string("\0\1", 2))));
  const auto read = TypedDict(bytes, "X").get<std::span<const std::byte>>(kKey);
  REQUIRE(read.size() == 2);
  CHECK(read[1] == std::byte{1});
  const Dict tensor = with(Value(Tensor::allocate({DType::kInt, 64}, {2, 3})));
  CHECK(TypedDict(tensor, "X").get<Tensor>(kKey).shape() == Shape{2, 3});
  auto list = make_ref<List>();
  list->values.resize(4);
  const Dict listed = with(Value(list));
  CHECK(&TypedDict(listed, "X").get<List>(kKey) == list.get());
  const Dict nested = with(table());
  CHECK(TypedDict(nested, "X").get<Dict>(kKey).size() == 1);
}

TEST_CASE("a wrong type is a request error that names reader, key, wanted and got") {
  const Dict dict = with(Value(true));
  const TypedDict typed(dict, "Crop");
  const auto check = [](const std::exception_ptr& error, const char* wanted) {
    CHECK(code_of(error) == "request-type");
    CHECK(describe(error) == std::string("`Crop` needs ") + wanted + " under `key`, got `bool`");
  };
  check(error_in([&] { typed.get<int64_t>(kKey); }), "an int");
  check(error_in([&] { typed.get<double>(kKey); }), "a number");
  check(error_in([&] { typed.get<std::string_view>(kKey); }), "text");
  check(error_in([&] { typed.get<std::span<const std::byte>>(kKey); }), "bytes");
  check(error_in([&] { typed.get<Tensor>(kKey); }), "an array");
  check(error_in([&] { typed.get<List>(kKey); }), "a list");
  check(error_in([&] { typed.get<Dict>(kKey); }), "a dict");
  check(error_in([&] { typed.find<Dict>(kKey); }), "a dict");
  check(error_in([&] { typed.refuse(kKey, "a picture"); }), "a picture");
}

TEST_CASE("an int is no bool, a float no int, and text no bytes") {
  const Dict integer = with(Value(int64_t{1}));
  CHECK(code_of(error_in([&] { TypedDict(integer, "X").get<bool>(kKey); })) == "request-type");
  const Dict real = with(Value(1.0));
  CHECK(code_of(error_in([&] { TypedDict(real, "X").get<int64_t>(kKey); })) == "request-type");
  const Dict text = with(Value::str(std::string("a")));
  CHECK(code_of(error_in([&] { TypedDict(text, "X").get<std::span<const std::byte>>(kKey); })) ==
        "request-type");
}

TEST_CASE("get needs the key, find does not") {
  const Dict empty;
  const TypedDict typed(empty, "X");
  CHECK(code_of(error_in([&] { typed.get<int64_t>(kKey); })) == "request-missing-key");
  CHECK(code_of(error_in([&] { typed.refuse(kKey, "a"); })) == "request-missing-key");
  CHECK_FALSE(typed.find<int64_t>(kKey));
  CHECK(typed.find<Tensor>(kKey) == nullptr);
  const Dict none = with(Value());
  CHECK_FALSE(TypedDict(none, "X").find<double>(kKey));
  CHECK(code_of(error_in([&] { TypedDict(none, "X").get<double>(kKey); })) == "request-type");
  const Dict there = with(Value(int64_t{3}));
  CHECK(TypedDict(there, "X").find<int64_t>(kKey) == 3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
