// The walk of a request through the graph. Every backend here runs in place, so no test needs a
// second thread.
#include <doctest/doctest.h>

#include "plan_maker.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("graph");

Value number(int64_t value) { return Value(value); }

TEST_CASE("a chain hands each result on as data") {
  PlanMaker plan;
  int last = plan.add("n0", "Pow");
  last = plan.add("n1", "Pow", {last});
  plan.add("n2", "Identity", {last});
  CHECK(result_of(run(plan.build(), number(2))) == 16);
}

TEST_CASE("a chain of a thousand nodes in place needs no deep stack") {
  PlanMaker plan;
  int last = plan.add("n0", "Identity");
  for (int i = 1; i < 1000; ++i) last = plan.add("n" + std::to_string(i), "Identity", {last});
  CHECK(result_of(run(plan.build(), number(7))) == 7);
}

TEST_CASE("a diamond joins what its map names") {
  PlanMaker plan;
  const int a = plan.add("a", "Identity");
  const int b = plan.add("b", "Pow", {a});
  const int c = plan.add("c", "Identity", {a});
  const int d = plan.add("d", "Identity", {b, c});
  plan.map(d, {{b, "result", "data"}, {c, "result", "other"}});
  const auto request = run(plan.build(), number(5));
  CHECK(result_of(request) == 25);
  CHECK_FALSE(request->output.has(Key("other")));
}

TEST_CASE("a map reaches back to any earlier node and to the input") {
  PlanMaker plan;
  const int a = plan.add("a", "Pow");
  const int b = plan.add("b", "Pow", {a});
  const int c = plan.add("c", "Pow", {b});
  SUBCASE("an earlier node") {
    plan.map(c, {{a, "result", "data"}});
    CHECK(result_of(run(plan.build(), number(2))) == 16);
  }
  SUBCASE("the caller's own keys") {
    plan.map(c, {{MapEdge::kInput, "data", "data"}});
    CHECK(result_of(run(plan.build(), number(2))) == 4);
  }
}

TEST_CASE("a mapped key that is absent names node, source and key") {
  PlanMaker plan;
  const int a = plan.add("a", "Pow");
  const int b = plan.add("b", "Identity", {a});
  plan.map(b, {{a, "label", "data"}});
  const auto request = run(plan.build(), number(2));
  CHECK(code_of(request->error) == "request-missing-key");
  CHECK(describe(request->error).find("node `b` maps key `label` from `a`") == 0);
}

TEST_CASE("keys written on the way reach the caller, also past a map") {
  PlanMaker plan;
  const int a = plan.add("a", "TestNote");
  const int b = plan.add("b", "Pow", {a});
  const int c = plan.add("c", "Pow", {b});
  plan.map(c, {{b, "result", "data"}});
  const auto request = run(plan.build(), number(2));
  CHECK(result_of(request) == 16);
  CHECK(request->output.find(Key("note"))->as_int() == 2);
  CHECK_FALSE(request->output.has(keys::data));
}

TEST_CASE("later nodes win over earlier ones when both write a key") {
  PlanMaker plan;
  const int a = plan.add("a", "TestNote");
  const int b = plan.add("b", "Pow", {a});
  plan.add("c", "TestNote", {b});
  CHECK(run(plan.build(), number(3))->output.find(Key("note"))->as_int() == 9);
}

TEST_CASE("a node without a result is an error that names it") {
  PlanMaker plan;
  const int a = plan.add("quiet", "TestSilent");
  SUBCASE("at the end") {}
  SUBCASE("inside") { plan.add("b", "Identity", {a}); }
  const auto request = run(plan.build(), number(1));
  CHECK(code_of(request->error) == "request-missing-result");
  CHECK(describe(request->error).find("`quiet`") != std::string::npos);
}

TEST_CASE("an `or` node runs where there is no result, and is passed by where there is one") {
  for (const char* first : {"TestSilent", "Identity"}) {
    PlanMaker plan;
    const int a = plan.add("a", first);
    const int b = plan.add("b", "Pow", {a});
    plan.at(b).is_or = true;
    plan.add("c", "Identity", {b});
    const bool is_silent = first == std::string("TestSilent");
    CHECK(result_of(run(plan.build(), number(3))) == (is_silent ? 9 : 3));
  }
}

TEST_CASE("an `or` node that passes a result by still lets a join behind it run") {
  PlanMaker plan;
  const int a = plan.add("a", "Pow");
  const int b = plan.add("b", "TestBroken", {a});
  plan.at(b).is_or = true;
  const int c = plan.add("c", "Identity", {b});
  plan.map(c, {{a, "result", "data"}});
  CHECK(result_of(run(plan.build(), number(3))) == 9);
}

TEST_CASE("an `or` node with a map runs on what the map says, or is passed by") {
  for (const char* first : {"TestSilent", "Pow"}) {
    PlanMaker plan;
    const int a = plan.add("a", first);
    const int b = plan.add("b", "TestNote", {a});
    plan.at(b).is_or = true;
    plan.map(b, {{MapEdge::kInput, "data", "data"}});
    plan.add("c", "Identity", {b});
    const auto request = run(plan.build(), number(3));
    const bool is_silent = first == std::string("TestSilent");
    CHECK(result_of(request) == (is_silent ? 3 : 9));
    CHECK(request->output.has(Key("note")) == is_silent);
  }
}

TEST_CASE("an error ends the request at once and names where it happened") {
  PlanMaker plan;
  const int a = plan.add("a", "Identity");
  const int b = plan.add("bad", "TestBroken", {a});
  plan.add("c", "Identity", {b});
  const auto request = run(plan.build(), number(1));
  CHECK(code_of(request->error) == "test-broken");
  REQUIRE(request->site != nullptr);
  CHECK(request->site->node == "bad");
  CHECK(request->site->backend == "TestBroken");
}

TEST_CASE("one failing branch fails the request, whatever the other does") {
  PlanMaker plan;
  const int a = plan.add("a", "Identity");
  const int b = plan.add("b", "TestBroken", {a});
  const int c = plan.add("c", "Pow", {a});
  const int d = plan.add("d", "Identity", {b, c});
  plan.map(d, {{c, "result", "data"}});
  CHECK(code_of(run(plan.build(), number(1))->error) == "test-broken");
}

TEST_CASE("of several leaves the named one answers") {
  PlanMaker plan;
  const int a = plan.add("a", "Identity");
  const int b = plan.add("b", "Pow", {a});
  plan.add("c", "Identity", {a});
  plan.plan.regions[0].output = b;
  CHECK(result_of(run(plan.build(), number(4))) == 16);
}

TEST_CASE("with several entries the request names one") {
  PlanMaker plan;
  const int a = plan.add("a", "Pow");
  const int b = plan.add("b", "Identity");
  const int c = plan.add("c", "Identity", {a, b});
  plan.map(c, {{a, "result", "data"}, {b, "result", "data"}});
  auto pipeline = plan.build();
  const auto enter = [&](int root) {
    auto request = make_ref<Request>(pipeline, 0);
    request->input.put(keys::data, number(3));
    request->may_run_inline = true;
    request->root = root;
    const Ref<Request> requests[] = {request};
    pipeline->submit(requests);
    return request;
  };
  CHECK(result_of(enter(pipeline->find_root("a"))) == 9);
  CHECK(result_of(enter(pipeline->find_root("b"))) == 3);
  CHECK_THROWS_AS(enter(-1), const Error&);
  CHECK_THROWS_AS(pipeline->find_root("c"), const Error&);
}

TEST_CASE("with fanout every entry starts") {
  PlanMaker plan;
  const int a = plan.add("a", "Pow");
  const int b = plan.add("b", "Identity");
  const int c = plan.add("c", "Identity", {a, b});
  plan.map(c, {{a, "result", "data"}, {b, "result", "other"}});
  plan.plan.settings.fans_out_to_roots = true;
  CHECK(result_of(run(plan.build(), number(3))) == 9);
}

TEST_CASE("a graph that has ended holds nobody: no request, no item inside") {
  PlanMaker plan;
  const int a = plan.add("a", "Identity");
  const int b = plan.add("b", "TestBroken", {a});
  const int c = plan.add("c", "Pow", {a});
  const int d = plan.add("d", "Identity", {b, c});
  plan.map(d, {{c, "result", "data"}});
  auto pipeline = plan.build();
  for (int i = 0; i < 10; ++i) run(pipeline, number(1));
  CHECK(pipeline->num_requests() == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
