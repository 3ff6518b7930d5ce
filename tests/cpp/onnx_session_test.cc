// Loading and describing models: the laws of Library and Session.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/onnxruntime/describe.h"
#include "backends/onnxruntime/element_type.h"
#include "backends/onnxruntime/session.h"
#include "onnx_fixture.h"

namespace hami::onnxruntime {
namespace {

using namespace testing;  // NOLINT: the fixture of these tests

std::shared_ptr<Session> open(const std::string& name, int num_threads = 1) {
  return Session::open({.model = model_path(name), .intra_op_threads = num_threads});
}

Ref<EngineDescription> described(const std::string& name, bool has_batch_axis = true,
                                 const std::vector<std::string>& outputs = {}) {
  auto session = open(name);
  return describe(*session, select_outputs(*session, outputs), has_batch_axis);
}

std::string write_file(const std::string& name, const std::string& content) {
  const auto path = std::filesystem::path(model_path("mlp")).parent_path() / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What is written to the error stream of the process while `call` runs.
template <class Call>
std::string stderr_of(Call call) {
  const std::string path = model_path("captured");
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  dup2(file, STDERR_FILENO);
  close(file);
  call();
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  return content_of(path);
}

TEST_SUITE_BEGIN("onnxruntime");

TEST_CASE("a session names the inputs and outputs of its model with types and shapes") {
  auto session = open("two_inputs");
  REQUIRE(session->inputs().size() == 2);
  CHECK(session->inputs()[0].name == "a:0");
  CHECK(session->inputs()[1].name == "b:0");
  CHECK(session->inputs()[0].dtype == DType{DType::kFloat, 32});
  CHECK(session->inputs()[0].shape == Shape{-1, 3});
  REQUIRE(session->outputs().size() == 2);
  CHECK(session->outputs()[1].name == "product:0");
}

TEST_CASE("a session runs on the memory of its inputs") {
  auto session = open("double");
  auto x = floats({2, 2}, {1, 2, 3, 4});
  const size_t outputs[] = {0};
  const auto results = session->run({&x, 1}, outputs);
  REQUIRE(results.size() == 1);
  CHECK(results[0]->shape() == Shape{2, 2});
  CHECK(numbers_of(*results[0]) == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("results outlive their session") {
  auto session = open("double");
  auto x = floats({1, 2}, {1, 2});
  const size_t outputs[] = {0};
  auto results = session->run({&x, 1}, outputs);
  session.reset();
  CHECK(numbers_of(*results[0]) == std::vector<float>{2, 4});
}

TEST_CASE("an output that is an input does not share its memory") {
  auto session = open("passed_through");
  auto x = floats({1, 2}, {1, 2});
  const size_t outputs[] = {0};
  auto results = session->run({&x, 1}, outputs);
  CHECK(results[0]->data() != x->data());
  x->data_as<float>()[0] = 100;
  CHECK(numbers_of(*results[0]) == std::vector<float>{1, 2});
}

TEST_CASE("instances of one model and the same options share a session") {
  auto first = open("mlp");
  CHECK(open("mlp") == first);
  CHECK(
      Session::open(
          {.model = model_path(
               "../" + std::filesystem::path(model_path("mlp")).parent_path().filename().string() +
               "/mlp")}) == first);
  CHECK(open("mlp", 2) != first);
  CHECK(open("mlp_fixed4") != first);
}

TEST_CASE("a session ends with its last user") {
  std::weak_ptr<Session> session = open("mlp");
  CHECK(session.expired());
}

TEST_CASE("a changed file is another model") {
  const std::string path = write_file("changing.onnx", content_of(model_path("mlp")));
  auto first = Session::open({.model = path});
  write_file("changing.onnx", content_of(model_path("double")));
  auto second = Session::open({.model = path});
  CHECK(first != second);
  CHECK(second->inputs()[0].shape == Shape{-1, 2});
}

TEST_CASE("sessions may be opened and run on many threads at once") {
  std::vector<std::thread> threads;
  std::vector<int> is_right(8, 0);
  for (size_t i = 0; i < is_right.size(); ++i) {
    threads.emplace_back([&, i] {
      auto session = open("double");
      auto x = floats({1, 2}, {static_cast<float>(i), 0});
      const size_t outputs[] = {0};
      int num_right = 0;
      for (int round = 0; round < 50; ++round) {
        const auto results = session->run({&x, 1}, outputs);
        num_right += results[0]->data_as<float>()[0] == 2 * static_cast<float>(i) ? 1 : 0;
      }
      is_right[i] = num_right == 50 ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::count(is_right, 1) == 8);
}

TEST_CASE("a missing, empty or damaged model file is a build error that names it") {
  const std::string whole = content_of(model_path("mlp"));
  const std::string missing = model_path("no_such_model");
  CHECK(contains(error_of([&] { Session::open({.model = missing}); }).message(),
                 hami::backticked(missing) + " does not exist"));
  struct Case {
    std::string content, code, part;
  };
  const std::vector<Case> cases = {
      {"", "model-file", "is empty"},
      {"no model at all", "model-load", "does not load"},
      {whole.substr(0, whole.size() / 2), "model-load", "does not load"},
      {whole.substr(0, 10), "model-load", "does not load"},
  };
  for (const Case& one : cases) {
    const std::string path = write_file("bad.onnx", one.content);
    const Error error = error_of([&] { Session::open({.model = path}); });
    CHECK(error.kind() == ErrorKind::kBuild);
    CHECK(error.code() == one.code);
    CHECK(contains(error.message(), hami::backticked(path) + " " + one.part));
    CHECK(!contains(error.message(), "\n"));
    CHECK(!error.help().empty());
  }
  const std::string folder = std::filesystem::path(missing).parent_path();
  CHECK(contains(error_of([&] { Session::open({.model = folder}); }).message(), "is a folder"));
}

TEST_CASE("a model cut at any place is an error, never a crash") {
  const std::string whole = content_of(model_path("two_inputs"));
  for (size_t size = 1; size < whole.size(); size += 7) {
    const std::string path = write_file("cut.onnx", whole.substr(0, size));
    try {
      Session::open({.model = path});  // some cuts leave a smaller model
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBuild);
    }
  }
}

TEST_CASE("a model with names that are no text is a build error in text") {
  std::string content = content_of(model_path("two_inputs"));
  for (size_t at = content.find("a:0"); at != std::string::npos; at = content.find("a:0")) {
    content[at] = '\x81';
  }
  const std::string path = write_file("names.onnx", content);
  const Error error = error_of([&] { Session::open({.model = path}); });
  CHECK(error.code() == "model-load");
  CHECK(contains(error.message(), "?:0"));
  CHECK(!contains(error.message(), "\x81"));
}

TEST_CASE("a failing run is a request error with the message of the engine in one line") {
  auto session = open("tokens");
  auto ids = Tensor::allocate({DType::kInt, 64}, {1, 1});
  ids->data_as<int64_t>()[0] = 99;
  const size_t outputs[] = {0};
  const Error error = error_of([&] { session->run({&ids, 1}, outputs); });
  CHECK(error.kind() == ErrorKind::kRequest);
  CHECK(error.code() == "engine-run");
  CHECK(contains(error.message(), "out of data bounds"));
  CHECK(!contains(error.message(), "\n"));
}

TEST_CASE("the engine prints nothing") {
  const std::string printed = stderr_of([] {
    const std::string path = write_file("noisy.onnx", "no model at all");
    CHECK_THROWS_AS(Session::open({.model = path}), Error);
    auto session = open("double_misdeclared");  // the engine would warn of the wrong shape
    auto x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
    const size_t outputs[] = {0};
    session->run({&x, 1}, outputs);
  });
  CHECK(printed.empty());
}

TEST_CASE("element types translate both ways") {
  for (int code = 0; code < 25; ++code) {
    const std::optional<DType> dtype = dtype_of(code);
    if (dtype) CHECK(element_type_of(*dtype) == code);
    CHECK(!element_type_name(code).empty());
  }
  CHECK(dtype_of(1) == DType{DType::kFloat, 32});
  CHECK(!dtype_of(8));
  CHECK(!dtype_of(-1));
  CHECK(!dtype_of(1000));
  CHECK(element_type_name(8) == "string");
  CHECK(element_type_name(1000) == "type 1000");
}

TEST_CASE("axis 0 counts rows where it is dynamic, or equal for all inputs") {
  struct Case {
    std::string model;
    std::vector<bool> inputs;
    std::vector<bool> outputs;
    std::optional<int64_t> fixed_rows;
  };
  const std::vector<Case> cases = {
      {"double", {true}, {true}, {}},
      {"double_unnamed", {true}, {true}, {}},
      {"double_rank1", {true}, {true}, {}},
      {"double_misdeclared", {true}, {true}, {}},
      {"double_scalar", {false}, {false}, {}},
      {"double_fixed1", {true}, {true}, 1},
      {"mlp_fixed4", {true}, {true}, 4},
      {"two_inputs", {true, true}, {true, true}, {}},
      {"scaled", {true, false}, {true}, {}},
      {"scaled_row", {true, false}, {true}, {}},
      {"mean", {true}, {false}, {}},
      {"mean_fixed4", {true}, {false}, 4},
      {"total", {true}, {true, false}, {}},
      {"flattened", {true}, {false}, 2},
      {"product", {false, false}, {false}, {}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.model);
    const auto description = described(one.model);
    REQUIRE(description->inputs.size() == one.inputs.size());
    REQUIRE(description->outputs.size() == one.outputs.size());
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      CHECK(description->inputs[i].has_rows == one.inputs[i]);
    }
    for (size_t i = 0; i < one.outputs.size(); ++i) {
      CHECK(description->outputs[i].has_rows == one.outputs[i]);
    }
    CHECK(description->fixed_rows == one.fixed_rows);
  }
}

TEST_CASE("nothing has rows when the user says that there is no batch axis") {
  const auto description = described("mlp_fixed4", false);
  CHECK(!description->inputs[0].has_rows);
  CHECK(!description->outputs[0].has_rows);
  CHECK(!description->fixed_rows);
}

TEST_CASE("outputs are chosen by name, in the order asked for") {
  const auto description = described("two_inputs", true, {"product:0", "sum:0"});
  REQUIRE(description->outputs.size() == 2);
  CHECK(description->outputs[0].name == "product:0");
  const Error error = error_of([] { described("two_inputs", true, {"sum"}); });
  CHECK(error.code() == "model-output");
  CHECK(contains(error.message(), "`sum`"));
  CHECK(contains(error.help(), "`sum:0`, `product:0`"));
}

TEST_CASE("inputs and outputs that no array holds are build errors") {
  const Error text = error_of([] { described("text_input"); });
  CHECK(text.code() == "model-type");
  CHECK(contains(text.message(), "input `words`"));
  CHECK(contains(text.message(), "`string`"));
  const Error list = error_of([] { described("list_output"); });
  CHECK(contains(list.message(), "output `rows`"));
  CHECK(contains(list.help(), "`outputs`"));
  CHECK(described("list_output", true, {"y"})->outputs.size() == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::onnxruntime
