// ONNX Runtime's shared library: found in the installed Python package, loaded at the first use
// and kept for the life of the process. Any thread may ask for it.
#pragma once

#include <string>

#include "backends/onnxruntime/ort_api.h"

namespace hami::onnxruntime {

class Library {
 public:
  // The loaded library. Throws a build error when it is missing, does not load or is too old.
  // No lock is held while the locator runs, since it may wait for the host's own lock.
  static const Library& instance();

  const Api& api() const noexcept { return api_; }
  const OrtEnv* env() const noexcept { return env_; }
  const OrtMemoryInfo* cpu_memory() const noexcept { return cpu_memory_; }
  OrtAllocator* allocator() const noexcept { return allocator_; }
  // Lets sessions with these options run on the CUDA device of that number, through host memory.
  // Throws a build error where the library cannot.
  void use_cuda(OrtSessionOptions* options, int device_id) const;

 private:
  struct Loaded {
    const void* table;
    OrtStatus* (*append_cuda)(OrtSessionOptions*, int device_id);  // null where there is none
  };
  explicit Library(const std::string& path) : Library(load(path)) {}
  explicit Library(const Loaded& loaded);
  static Loaded load(const std::string& path);

  Api api_;
  const Loaded loaded_;
  OrtEnv* env_ = nullptr;
  OrtMemoryInfo* cpu_memory_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
};

}  // namespace hami::onnxruntime
