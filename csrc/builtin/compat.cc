// Rarely used names of the family, so that its texts run here. They are left out of the default
// listing; what they do has a better name elsewhere, or is for trying things out.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "builtin/container.h"
#include "builtin/written_key.h"
#include "core/error.h"

namespace hami {
namespace {

constexpr const char* kFamily = "compatibility";

void pass(Batch batch) {
  for_each_item(batch, [](Item& item) { item.set_result(item.data()); });
}

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// One line at once, so that lines of several threads do not mix.
void print_line(std::string line) {
  for (char& character : line) {
    if (static_cast<unsigned char>(character) < ' ') character = '?';
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// All children get the same data; the result is the list of their results.
class Tuple final : public Container {
 public:
  explicit Tuple(Build& build) : Container(build) {}

  void forward(Batch batch) override {
    std::vector<Item*> items(batch.begin(), batch.end());
    std::vector<std::vector<Value>> results(items.size());
    for (const auto& child : children_) {
      forward_by_group(*child, items);
      size_t num_left = 0;
      for (size_t i = 0; i < items.size(); ++i) {
        const Value* result = items[i]->dict.find(keys::result);
        if (items[i]->error != nullptr || result == nullptr) continue;
        results[i].push_back(*result);
        items[i]->dict.erase(keys::result);
        if (num_left != i) {
          items[num_left] = items[i];
          results[num_left] = std::move(results[i]);
        }
        ++num_left;
      }
      items.resize(num_left);
      results.resize(num_left);
      if (items.empty()) return;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      auto list = make_ref<hami::List>();
      list->values = std::move(results[i]);
      items[i]->set_result(Value(std::move(list)));
    }
  }
};

class Placeholder final : public InlineBackend {
 public:
  explicit Placeholder(Build&) {}
  void forward(Batch batch) override { pass(batch); }
};

// Its children exist, and that is all.
class Init final : public Container {
 public:
  explicit Init(Build& build) : Container(build) {}
  void forward(Batch batch) override { pass(batch); }
  BatchRange batch_range() const override { return {}; }
  Traits traits() const override { return {.is_inline = true, .is_reentrant = true}; }
  size_t group_of(const Item&) const override { return 0; }
};

class AddInt final : public InlineBackend {
 public:
  explicit AddInt(Build& build) : value_(build.params().get_int("value")) {}
  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) { item.set_result(add(item.data())); });
  }

 private:
  Value add(const Value& data) const {
    int64_t sum = 0;
    if (!data.is(Value::Kind::kInt) || __builtin_add_overflow(data.as_int(), value_, &sum)) {
      const bool is_int = data.is(Value::Kind::kInt);
      throw Error(ErrorKind::kRequest, "request-type",
                  is_int ? "the sum of " + backticked(std::to_string(data.as_int())) + " and " +
                               backticked(std::to_string(value_)) + " does not fit into 64 bits"
                         : "`AddInt` adds to an int, got " + backticked(data.type_name()),
                  "put a whole number of 64 bits under `data`");
    }
    return Value(sum);
  }

  const int64_t value_;
};

class RuntimeError final : public InlineBackend {
 public:
  explicit RuntimeError(Build& build) : message_(build.params().get_str("message")) {}
  void forward(Batch batch) override {
    for_each_item(batch, [this](Item&) { throw std::runtime_error(message_); });
  }

 private:
  const std::string message_;
};

class PrintKeys final : public InlineBackend {
 public:
  explicit PrintKeys(Build& build) : node_name_(build.node_name()) {}
  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) {
      std::string line = node_name_ + ":";
      for (const auto& entry : item.dict) line += " " + backticked(entry.key.text());
      print_line(std::move(line));
      item.set_result(item.data());
    });
  }

 private:
  const std::string node_name_;
};

class TimeStamp final : public InlineBackend {
 public:
  explicit TimeStamp(Build& build) : key_(written_key(build)) {}
  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) {
      item.set_result(item.data());
      item.dict.set(key_, Value(seconds_since_epoch()));
    });
  }

 private:
  const Key key_;
};

class LogTime final : public InlineBackend {
 public:
  explicit LogTime(Build& build)
      : label_(build.params().find_str("label").value_or(build.node_name())) {}
  void forward(Batch batch) override {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.6f", seconds_since_epoch());
    for_each_item(batch, [&](Item& item) {
      print_line(label_ + ": " + seconds);
      item.set_result(item.data());
    });
  }

 private:
  const std::string label_;
};

HAMI_REGISTER(Tuple, .family = kFamily, .doc = "The list of what its children make of the data.",
              .min_children = 1, .max_children = -1, .is_hidden = true);
HAMI_REGISTER(Placeholder, .family = kFamily, .doc = "The result is the data.", .is_hidden = true);
HAMI_REGISTER(Init, .family = kFamily, .doc = "Builds its children; the result is the data.",
              .max_children = -1, .is_hidden = true);
HAMI_REGISTER(AddInt, .family = kFamily, .doc = "Adds a number to the data.",
              .params = {{.name = "value",
                          .type = "int",
                          .doc = "what is added",
                          .default_value = Value(int64_t{1})}},
              .is_hidden = true);
HAMI_REGISTER(RuntimeError, .family = kFamily, .doc = "Fails every item.",
              .params = {{.name = "message",
                          .type = "str",
                          .doc = "what the error says",
                          .default_value = Value::str(std::string("RuntimeError"))}},
              .is_hidden = true);
HAMI_REGISTER(PrintKeys, .family = kFamily,
              .doc = "Prints the keys that the core knows of an item to the error stream.",
              .is_hidden = true);
HAMI_REGISTER(TimeStamp, .family = kFamily,
              .doc = "Sets a key to the seconds since 1970; the caller gets it too.",
              .params = {{.name = "key", .type = "str", .doc = "the key", .is_required = true}},
              .is_hidden = true);
HAMI_REGISTER(LogTime, .family = kFamily,
              .doc = "Prints the seconds since 1970 to the error stream.",
              .params = {{.name = "label",
                          .type = "str",
                          .doc = "what stands before them; without it the node's name"}},
              .is_hidden = true);

const Registration registration_of_launch{
    BackendClass{.name = "Launch",
                 .family = kFamily,
                 .doc = "Calls its child.",
                 .min_children = 1,
                 .max_children = 1,
                 .is_hidden = true,
                 .create = [](Build& build) { return build.child(0); }}};

}  // namespace
}  // namespace hami
