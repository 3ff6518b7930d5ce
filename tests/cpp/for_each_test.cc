// ForEach: a list becomes requests of a subgraph, and one list again.
#include <doctest/doctest.h>

#include "core/failure.h"
#include "core/tensor.h"
#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("for_each");

Value list_of(std::vector<Value> values) {
  auto list = make_ref<List>();
  list->values = std::move(values);
  return Value(std::move(list));
}

Value numbers(std::initializer_list<int64_t> values) {
  std::vector<Value> list;
  for (int64_t value : values) list.emplace_back(value);
  return list_of(std::move(list));
}

// main: ForEach -> Identity; subgraph: `element` -> ... (region 1)
std::shared_ptr<Pipeline> for_each(const std::string& element, const std::string& on_error = "fail",
                                   int64_t max = 1) {
  PlanMaker plan;
  const auto text = [](const std::string& value) { return Value::str(value); };
  const int each = plan.add_expr(
      "each", make_expr("ForEach", {}, {{"target", text("part")}, {"on_error", text(on_error)}}));
  plan.add("after", "Identity", {each});
  plan.at(each).foreach_target =
      plan.add_expr("part", make_node_expr("part", make_expr(element), max), {}, 1);
  return plan.build();
}

std::vector<int64_t> ints_of(const Ref<Request>& request) {
  REQUIRE(request->error == nullptr);
  std::vector<int64_t> ints;
  for (const Value& value : request->output.find(keys::result)->as_list().values) {
    ints.push_back(value.is(Value::Kind::kInt) ? value.as_int() : -1);
  }
  return ints;
}

TEST_CASE("results come back in order, and an empty list gives an empty list") {
  const auto pipeline = for_each("Pow");
  CHECK(ints_of(run(pipeline, numbers({3, 1, 2}))) == std::vector<int64_t>{9, 1, 4});
  CHECK(ints_of(run(pipeline, numbers({}))).empty());
}

TEST_CASE("axis 0 of an array counts as the list") {
  auto array = Tensor::allocate({DType::kInt, 64}, {2, 3});
  const auto request = run(for_each("Identity"), Value(array));
  const auto& rows = request->output.find(keys::result)->as_list().values;
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].as_tensor().shape() == Shape{3});
  CHECK(rows[1].as_tensor().data() == array->data_as<int64_t>() + 3);
}

TEST_CASE("anything but a list is the request's error") {
  const auto pipeline = for_each("Pow");
  CHECK(code_of(run(pipeline, Value(int64_t{3}))->error) == "request-type");
  CHECK(code_of(run(pipeline, Value(Tensor::allocate({}, {})))->error) == "request-type");
}

TEST_CASE("an element that fails fails the whole, with the first error in order") {
  const auto request = run(for_each("Pow"), list_of({Value(int64_t{1}), Value(true), Value()}));
  CHECK(describe(request->error).find("got `bool`") != std::string::npos);
  CHECK(request->site->node == "part");
}

TEST_CASE("failed elements are kept as errors or dropped on request") {
  const auto input = list_of({Value(int64_t{2}), Value(true), Value(int64_t{3})});
  CHECK(ints_of(run(for_each("Pow", "drop"), input)) == std::vector<int64_t>{4, 9});
  const auto kept = run(for_each("Pow", "keep"), input);
  CHECK(ints_of(kept) == std::vector<int64_t>{4, -1, 9});
  const Value& failed = kept->output.find(keys::result)->as_list().values[1];
  CHECK(dynamic_cast<const Failure*>(&failed.as_any()) != nullptr);
}

TEST_CASE("a list inside a list goes through one ForEach after the other") {
  PlanMaker plan;
  const auto to = [](const std::string& target) {
    return make_expr("ForEach", {}, {{"target", Value::str(target)}});
  };
  const int outer = plan.add_expr("outer", to("inner"));
  const int inner = plan.add_expr("inner", to("part"), {}, 1);
  plan.at(outer).foreach_target = inner;
  plan.at(inner).foreach_target =
      plan.add_expr("part", make_node_expr("part", make_expr("Pow")), {}, 2);
  const auto request = run(plan.build(), list_of({numbers({1, 2}), numbers({}), numbers({3})}));
  const auto& lists = request->output.find(keys::result)->as_list().values;
  REQUIRE(lists.size() == 3);
  CHECK(lists[0].as_list().values[1].as_int() == 4);
  CHECK(lists[1].as_list().values.empty());
  CHECK(lists[2].as_list().values[0].as_int() == 9);
}

TEST_CASE("the children of one parent share batches") {
  const auto pipeline = for_each("Identity", "fail", 4);
  CHECK(ints_of(run(pipeline, numbers({0, 1, 2, 3, 4, 5, 6, 7}), false)).size() == 8);
  for (const NodeStats& node : pipeline->stats()) {
    if (node.node != "part") continue;
    CHECK(node.batch_rows == std::map<int64_t, int64_t>{{4, 2}});
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
