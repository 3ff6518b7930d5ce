// Backends that only the tests use: they fail, stay silent, or wait at a gate.
#include "test_backends.h"

#include "core/error.h"
#include "plan/build.h"

namespace hami {

Gate& Gate::instance() {
  static Gate gate;
  return gate;
}

void Gate::pass() {
  std::unique_lock lock(mutex_);
  ++num_waiting_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return is_open_; });
  --num_waiting_;
}

void Gate::await_waiting(int num_waiting) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_waiting_ >= num_waiting; });
}

void Gate::set_open(bool is_open) {
  std::lock_guard lock(mutex_);
  is_open_ = is_open;
  changed_.notify_all();
}

namespace {

class TestSilent final : public InlineBackend {
 public:
  explicit TestSilent(Build&) {}
  void forward(Batch) override {}
};

class TestBroken final : public InlineBackend {
 public:
  explicit TestBroken(Build&) {}
  void forward(Batch) override {
    throw Error(ErrorKind::kRequest, "test-broken", "this backend always fails");
  }
};

class TestUnbuildable final : public InlineBackend {
 public:
  explicit TestUnbuildable(Build&) {
    throw Error(ErrorKind::kBuild, "test-unbuildable", "this backend cannot be made");
  }
  void forward(Batch) override {}
};

class TestGated final : public Backend {
 public:
  explicit TestGated(Build&) {}
  void forward(Batch batch) override {
    Gate::instance().pass();
    for (Item* item : batch) item->set_result(item->data());
  }
};

// Writes its own data under `note` as well.
class TestNote final : public InlineBackend {
 public:
  explicit TestNote(Build&) {}
  void forward(Batch batch) override {
    for (Item* item : batch) {
      item->dict.set(Key::intern("note"), item->data());
      item->set_result(item->data());
    }
  }
};

HAMI_REGISTER(TestSilent, .family = "test", .doc = "Sets no result.");
HAMI_REGISTER(TestBroken, .family = "test", .doc = "Always raises.");
HAMI_REGISTER(TestUnbuildable, .family = "test", .doc = "Cannot be made.");
HAMI_REGISTER(TestGated, .family = "test", .doc = "Waits at the gate.");
HAMI_REGISTER(TestNote, .family = "test", .doc = "Writes a further key.");

}  // namespace
}  // namespace hami
