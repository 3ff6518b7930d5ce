// The table that plugins get, used as a plugin uses it, and the tensors that cross; made for the
// sanitizers, which see both sides here.
#include <doctest/doctest.h>
#include <hami/abi.h>

#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/registry.h"
#include "plugin/call.h"
#include "plugin/declarations.h"
#include "plugin/host.h"
#include "plugin/library_file.h"
#include "plugin/tensors.h"
#include "plugin/values.h"

namespace hami::plugin {
namespace {

TEST_SUITE_BEGIN("plugin");

hami_text text(std::string_view view) { return lend(view); }
hami_dict* handle(Dict& dict) { return reinterpret_cast<hami_dict*>(&dict); }

std::string last_error() { return std::string(view(host().last_error())); }

// An array that counts how often it was ended.
struct Array {
  Array() {
    managed.dlpack_major = HAMI_DLPACK_MAJOR;
    managed.context = this;
    managed.deleter = [](hami_managed_tensor* self) {
      ++static_cast<Array*>(self->context)->num_ended;
    };
    managed.tensor = {memory, 1, 0, 2, DType::kInt, 32, 1, shape, nullptr, 0};
  }

  int32_t memory[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  int num_ended = 0;
  hami_managed_tensor managed{};
};

TEST_CASE("every kind of value crosses and comes back as what it was") {
  auto list = make_ref<List>();
  list->values.push_back(Value(int64_t{1}));
  auto table = make_ref<Table>();
  const Value values[] = {Value(),
                          Value(true),
                          Value(int64_t{-5}),
                          Value(2.5),
                          Value::str(std::string("words")),
                          Value::bytes(make_ref<Bytes>(std::string("\0\1", 2))),
                          Value(Tensor::allocate({DType::kFloat, 32}, {2})),
                          Value(list),
                          Value(table)};
  for (const Value& value : values) {
    const Value back = take(lend(value));
    CHECK(back.kind() == value.kind());
    CHECK(back.object() == value.object());
  }
  CHECK(take(lend(values[2])).as_int() == -5);
  CHECK(take(lend(values[3])).as_float() == 2.5);
  CHECK(take(lend(values[1])).as_bool());
}

TEST_CASE("a value that lies about its kind is refused") {
  Dict dict;
  const Value tensor(Tensor::allocate({DType::kFloat, 32}, {2}));
  constexpr int32_t kOthers[] = {HAMI_STR, HAMI_BYTES, HAMI_LIST, HAMI_TABLE, HAMI_OPAQUE, 10, -1};
  for (const int32_t kind : kOthers) {
    hami_value lie = lend(tensor);
    lie.kind = kind;
    CHECK(host().dict_set(handle(dict), text("x"), &lie) == HAMI_BAD_VALUE);
    CHECK(last_error().find("kind") != std::string::npos);
  }
  hami_value hollow{};
  hollow.kind = HAMI_TENSOR;
  CHECK(host().dict_set(handle(dict), text("x"), &hollow) == HAMI_BAD_VALUE);
  CHECK(dict.size() == 0);
}

TEST_CASE("a dict is read by key and by index, and written") {
  Dict dict;
  dict.put(Key("a"), Value(int64_t{1}));
  const hami_value two = lend(Value(int64_t{2}));
  CHECK(host().dict_set(handle(dict), text("b"), &two) == HAMI_OK);
  CHECK(host().dict_set(handle(dict), text("a"), &two) == HAMI_OK);
  CHECK(host().dict_size(handle(dict)) == 2);
  hami_text key{};
  hami_value value{};
  REQUIRE(host().dict_at(handle(dict), 0, &key, &value) == HAMI_OK);
  CHECK(view(key) == "a");
  CHECK(value.integer == 2);
  CHECK(host().dict_at(handle(dict), 2, &key, &value) == HAMI_NOT_FOUND);
  CHECK(host().dict_get(handle(dict), text("c"), &value) == HAMI_NOT_FOUND);
  CHECK(dict.find(Key("a"))->as_int() == 2);
}

TEST_CASE("text without an object is copied, text with one is shared") {
  Dict dict;
  std::string mine = "short-lived";
  hami_value value{};
  value.kind = HAMI_STR;
  value.text = text(mine);
  REQUIRE(host().dict_set(handle(dict), text("a"), &value) == HAMI_OK);
  mine.assign(mine.size(), 'x');
  CHECK(dict.find(Key("a"))->as_text() == "short-lived");
  hami_value made{};
  REQUIRE(host().text_new(HAMI_STR, text("made"), &made) == HAMI_OK);
  REQUIRE(host().dict_set(handle(dict), text("b"), &made) == HAMI_OK);
  host().release(made.object);
  CHECK(dict.find(Key("b"))->as_text() == "made");
  CHECK(host().text_new(HAMI_INT, text("made"), &made) == HAMI_BAD_VALUE);
}

TEST_CASE("a value that is retained outlives the dict it came from") {
  hami_value value{};
  {
    Dict dict;
    dict.put(Key("a"), Value::str(std::string(1000, 'y')));
    REQUIRE(host().dict_get(handle(dict), text("a"), &value) == HAMI_OK);
    host().retain(value.object);
  }
  CHECK(view(value.text) == std::string(1000, 'y'));
  host().release(value.object);
}

TEST_CASE("lists and dicts are made and looked into") {
  const Value one(int64_t{1});
  const hami_value values[] = {lend(one), lend(one)};
  hami_value list{};
  REQUIRE(host().list_new(values, 2, &list) == HAMI_OK);
  CHECK(host().list_size(list.object) == 2);
  hami_value element{};
  CHECK(host().list_at(list.object, 1, &element) == HAMI_OK);
  CHECK(element.integer == 1);
  CHECK(host().list_at(list.object, 2, &element) == HAMI_NOT_FOUND);
  CHECK(host().table_dict(list.object) == nullptr);

  hami_value table{};
  hami_dict* dict = nullptr;
  REQUIRE(host().table_new(&table, &dict) == HAMI_OK);
  CHECK(host().dict_set(dict, text("list"), &list) == HAMI_OK);
  host().release(list.object);
  CHECK(host().dict_size(host().table_dict(table.object)) == 1);
  CHECK(host().list_size(table.object) == 0);
  CHECK(host().list_at(table.object, 0, &element) == HAMI_BAD_VALUE);
  hami_value name{};
  REQUIRE(host().type_name(&table, &name) == HAMI_OK);
  CHECK(view(name.text) == "dict");
  host().release(name.object);
  host().release(table.object);
}

TEST_CASE("an array of a plugin is ended once, when its last user has gone") {
  Array array;
  hami_value value{};
  REQUIRE(host().tensor_import(&array.managed, &value) == HAMI_OK);
  Ref<Tensor> row;
  {
    const Value taken = take(value);
    host().release(value.object);
    CHECK(taken.as_tensor().data() == array.memory);
    CHECK(taken.as_tensor().strides() == Shape{3, 1});
    row = taken.as_tensor().row(1);
  }
  CHECK(array.num_ended == 0);
  CHECK(row->data_as<int32_t>()[2] == 6);
  std::thread([&row] { row = nullptr; }).join();
  CHECK(array.num_ended == 1);
}

TEST_CASE("an array that is refused is ended all the same") {
  const auto refused = [](auto change) {
    Array array;
    change(array.managed);
    hami_value value{};
    CHECK(host().tensor_import(&array.managed, &value) == HAMI_BAD_VALUE);
    CHECK(array.num_ended == 1);
    CHECK(last_error().find("the tensor") == 0);
  };
  refused([](auto& managed) { managed.dlpack_major = 2; });
  refused([](auto& managed) { managed.tensor.type_lanes = 4; });
  refused([](auto& managed) { managed.tensor.type_bits = 4; });
  refused([](auto& managed) { managed.tensor.type_bits = 0; });
  refused([](auto& managed) { managed.tensor.type_code = 77; });
  refused([](auto& managed) { managed.tensor.num_dims = -1; });
  refused([](auto& managed) { managed.tensor.num_dims = 1'000'000; });
  refused([](auto& managed) { managed.tensor.shape = nullptr; });
  refused([](auto& managed) { managed.tensor.shape[1] = -3; });
  refused([](auto& managed) { managed.tensor.data = nullptr; });
  refused([](auto& managed) {
    managed.tensor.shape[0] = int64_t{1} << 40;
    managed.tensor.shape[1] = int64_t{1} << 40;
  });
  hami_value value{};
  CHECK(host().tensor_import(nullptr, &value) == HAMI_BAD_VALUE);
}

TEST_CASE("an empty array needs no memory, a scalar no shape, and no deleter is none to call") {
  Array array;
  array.managed.tensor.shape[0] = 0;
  array.managed.tensor.data = nullptr;
  CHECK(import_tensor(&array.managed)->size() == 0);
  CHECK(array.num_ended == 1);
  Array scalar;
  scalar.managed.tensor.num_dims = 0;
  scalar.managed.tensor.shape = nullptr;
  scalar.managed.tensor.byte_offset = 8;
  scalar.managed.deleter = nullptr;
  scalar.managed.flags = HAMI_TENSOR_READ_ONLY;
  const auto tensor = import_tensor(&scalar.managed);
  CHECK(tensor->data_as<int32_t>()[0] == 3);
  CHECK(tensor->is_read_only());
}

TEST_CASE("an exported array keeps its memory until it is ended, on any thread") {
  hami_managed_tensor* managed = nullptr;
  {
    const Value value(Tensor::allocate({DType::kInt, 16}, {4}));
    std::memset(value.as_tensor().data(), 1, 8);
    const hami_value lent = lend(value);
    REQUIRE(host().tensor_export(lent.object, &managed) == HAMI_OK);
  }
  CHECK(managed->dlpack_major == HAMI_DLPACK_MAJOR);
  CHECK(static_cast<int16_t*>(managed->tensor.data)[3] == 0x0101);
  CHECK(managed->tensor.shape[0] == 4);
  std::thread([managed] { managed->deleter(managed); }).join();
  const hami_value text_value = give(Value::str(std::string("t")));
  hami_tensor seen{};
  CHECK(host().tensor_export(text_value.object, &managed) == HAMI_BAD_VALUE);
  CHECK(host().tensor_view(text_value.object, &seen) == HAMI_BAD_VALUE);
  host().release(text_value.object);
}

TEST_CASE("new arrays have the asked type and shape") {
  int64_t shape[] = {3, 0, 2};
  hami_tensor like{nullptr, 1, 0, 3, DType::kBfloat, 16, 1, shape, nullptr, 0};
  hami_value value{};
  REQUIRE(host().tensor_new(&like, &value) == HAMI_OK);
  hami_tensor seen{};
  CHECK(host().tensor_view(value.object, &seen) == HAMI_OK);
  CHECK(seen.num_dims == 3);
  CHECK(seen.type_code == DType::kBfloat);
  CHECK(host().tensor_is_read_only(value.object) == 0);
  host().release(value.object);
  shape[1] = int64_t{1} << 60;
  CHECK(host().tensor_new(&like, &value) == HAMI_BAD_VALUE);
}

TEST_CASE("results of another number than items change no item") {
  Item first;
  Item second;
  Item* const items[] = {&first, &second};
  const std::string node = "node";
  Call call{.node = node, .items = items};
  const hami_value one = lend(Value(int64_t{1}));
  const hami_value values[] = {one, one, one};
  CHECK(host().set_results(call.handle(), values, 3) == HAMI_BAD_VALUE);
  CHECK(call.num_results == 3);
  CHECK_FALSE(first.dict.has(keys::result));
  CHECK(host().set_results(call.handle(), values, 2) == HAMI_OK);
  CHECK(second.dict.find(keys::result)->as_int() == 1);
  CHECK(host().item_at(call.handle(), 2) == nullptr);
  CHECK(view(host().node_name(call.handle())) == "node");
}

// --- declarations
// ----------------------------------------------------------------------------------

hami_status create(const void*, hami_call*, const hami_dict*, void**) { return HAMI_OK; }
void destroy(void*) {}
hami_status forward(void*, hami_call*) { return HAMI_OK; }

TEST_CASE("a declaration becomes one of the registry with all that it says") {
  const char* const choices[] = {"a", "b"};
  hami_param param{};
  param.size = sizeof(param);
  param.name = "mode";
  param.type = "str";
  param.unit = "mm";
  param.default_value = lend(Value());
  param.has_max = 1;
  param.max = 4;
  param.choices = choices;
  param.num_choices = 2;
  const hami_param* const params[] = {&param};
  hami_backend_class declared{};
  declared.size = sizeof(declared);
  declared.name = "Declared";
  declared.params = params;
  declared.num_params = 1;
  declared.create = &create;
  declared.destroy = &destroy;
  declared.forward = &forward;
  const hami_backend_class* const classes[] = {&declared};
  hami_plugin plugin{};
  plugin.size = sizeof(plugin);
  plugin.classes = classes;
  plugin.num_classes = 1;

  const std::vector<BackendClass> read = classes_of(plugin, "/x.so");
  REQUIRE(read.size() == 1);
  CHECK(read[0].name == "Declared");
  CHECK(read[0].family == "plugin");
  CHECK(read[0].home == "/x.so");
  REQUIRE(read[0].params.size() == 1);
  CHECK(read[0].params[0].unit == "mm");
  CHECK(read[0].params[0].choices == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(read[0].params[0].min);
  CHECK(read[0].params[0].max == 4.0);

  param.name = "bad name";
  CHECK_THROWS_AS(classes_of(plugin, "/x.so"), Error);
}

TEST_CASE("of two lists of classes with one name in common the second is not added at all") {
  const auto named = [](const char* name) { return BackendClass{.name = name}; };
  Registry registry;
  CHECK(registry.add_all({named("A"), named("B")}) == nullptr);
  const BackendClass* known = registry.add_all({named("C"), named("B")});
  REQUIRE(known != nullptr);
  CHECK(known->name == "B");
  CHECK(registry.find("C") == nullptr);
  CHECK(registry.all().size() == 2);
}

TEST_CASE("a file that is no whole library is known before it is mapped") {
  CHECK(problem_of_library("/no/such/file") != "");
  CHECK(problem_of_library("/etc/hostname") == "it is no shared library");
  CHECK(problem_of_library("/tmp") != "");
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::plugin
