// Intrusive reference counting: the one ownership scheme for everything that crosses threads
// inside a request (values, events, requests). Counts are atomic; the objects themselves say
// which of their members may be touched by whom.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace hami {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const noexcept { num_refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (num_refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> num_refs_{0};
};

// Owns one reference to a RefCounted object, or nothing.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT: reads as "no object"
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U> other) : object_(other.detach()) {}  // NOLINT: an upcast
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  bool operator==(const Ref& other) const noexcept { return object_ == other.object_; }

  // Gives the reference away without releasing it.
  T* detach() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace hami
