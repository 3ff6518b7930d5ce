// `Value`: one entry of a request's dict, in a form that C++ backends read without the GIL.
// Values are immutable and shared by reference count; copying one costs a counter at most, and
// any thread may do it. A value that came from the host language remembers the object it came
// from (its origin), so that the very same object goes back out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ref.h"

namespace hami {

class Dict;
class Tensor;

// Everything a Value refers to. `origin` is the host object this was made from, if any.
class Object : public RefCounted {
 public:
  Object* origin() const noexcept { return origin_.load(std::memory_order_acquire); }
  // Set once, and kept as long as this object; of several threads the first one wins.
  void set_origin(Ref<Object> origin) noexcept {
    Object* none = nullptr;
    if (origin_.compare_exchange_strong(none, origin.get(), std::memory_order_acq_rel)) {
      origin.detach();
    }
  }

 protected:
  ~Object() override {
    if (const Object* origin = origin_.load(std::memory_order_relaxed)) origin->release();
  }

 private:
  std::atomic<Object*> origin_{nullptr};
};

// An opaque handle of the host language: C++ passes it on and never looks inside.
class Any : public Object {
 public:
  // The host's name of the object's type, for error messages.
  virtual std::string type_name() const = 0;
};

// Characters or bytes: its own copy, or a view of memory that `origin` keeps alive.
class Text final : public Object {
 public:
  explicit Text(std::string text) : storage_(std::move(text)), view_(storage_) {}
  Text(std::string_view view, Ref<Object> origin) : view_(view) { set_origin(std::move(origin)); }
  std::string_view view() const noexcept { return view_; }

 private:
  std::string storage_;
  std::string_view view_;
};
using Bytes = Text;

class Value {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kStr,
    kBytes,
    kTensor,
    kList,
    kTable,
    kAny,
  };

  Value() = default;
  explicit Value(bool flag) : kind_(Kind::kBool) { scalar_.flag = flag; }
  explicit Value(int64_t integer) : kind_(Kind::kInt) { scalar_.integer = integer; }
  explicit Value(double real) : kind_(Kind::kFloat) { scalar_.real = real; }
  explicit Value(Ref<Tensor> tensor);
  explicit Value(Ref<class List> list);
  explicit Value(Ref<class Table> table);
  explicit Value(Ref<Any> any) : kind_(Kind::kAny), object_(std::move(any)) {}
  static Value str(std::string text) { return Value(Kind::kStr, make_ref<Text>(std::move(text))); }
  static Value str(Ref<Text> text) { return Value(Kind::kStr, std::move(text)); }
  static Value bytes(Ref<Bytes> bytes) { return Value(Kind::kBytes, std::move(bytes)); }

  Kind kind() const noexcept { return kind_; }
  bool is_none() const noexcept { return kind_ == Kind::kNone; }
  bool is(Kind kind) const noexcept { return kind_ == kind; }

  // REQUIRES for each of these: the value is of that kind.
  bool as_bool() const noexcept { return scalar_.flag; }
  int64_t as_int() const noexcept { return scalar_.integer; }
  double as_float() const noexcept { return scalar_.real; }
  std::string_view as_text() const noexcept { return static_cast<Text*>(object_.get())->view(); }
  Tensor& as_tensor() const noexcept;
  const List& as_list() const noexcept;
  const Table& as_table() const noexcept;
  const Any& as_any() const noexcept { return *static_cast<Any*>(object_.get()); }

  // The object behind every kind but the scalars and None; null for those.
  const Ref<Object>& object() const noexcept { return object_; }

  // The kind in words a user knows: `int`, `bytes`, `tensor`, or the host's type name.
  std::string type_name() const;

 private:
  Value(Kind kind, Ref<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind_ = Kind::kNone;
  union {
    bool flag;
    int64_t integer;
    double real;
  } scalar_{.integer = 0};
  Ref<Object> object_;
};

class List final : public Object {
 public:
  std::vector<Value> values;
};

}  // namespace hami
