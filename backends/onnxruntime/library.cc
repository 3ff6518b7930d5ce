#include "backends/onnxruntime/library.h"

#include <dlfcn.h>

#include <mutex>

#include "core/error.h"
#include "core/library_locator.h"

namespace hami::onnxruntime {
namespace {

std::mutex mutex;
// Never destroyed: sessions and results may outlive static destruction.
const Library* the_library = nullptr;

[[noreturn]] void refuse_cuda(const std::string& reason) {
  throw Error(
      ErrorKind::kBuild, "onnxruntime-device", "ONNX Runtime cannot use the CUDA device: " + reason,
      "install `onnxruntime-gpu` in place of `onnxruntime`, with the CUDA and cuDNN that it "
      "asks for, or set `device = \"cpu\"`");
}

}  // namespace

Library::Loaded Library::load(const std::string& path) {
  // Local symbols: the Python package of the same engine may live in this process, too.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    throw Error(ErrorKind::kBuild, "onnxruntime-load",
                "the library of ONNX Runtime does not load: " + backticked(dlerror()),
                "install it again: `pip install --force-reinstall onnxruntime`");
  }
  auto* get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) {
    throw Error(ErrorKind::kBuild, "onnxruntime-load",
                backticked(path) + " is not a library of ONNX Runtime",
                "install it again: `pip install --force-reinstall onnxruntime`");
  }
  const OrtApiBase& base = *get_base();
  const void* table = base.get_api(kApiVersion);
  if (table == nullptr) {
    throw Error(ErrorKind::kBuild, "onnxruntime-too-old",
                "ONNX Runtime " + backticked(base.get_version_string()) + " is too old",
                "install 1.20 or newer: `pip install --upgrade onnxruntime`");
  }
  return {table, reinterpret_cast<decltype(Loaded::append_cuda)>(
                     dlsym(handle, "OrtSessionOptionsAppendExecutionProvider_CUDA"))};
}

const Library& Library::instance() {
  {
    std::lock_guard lock(mutex);
    if (the_library != nullptr) return *the_library;
  }
  const std::string path = locate_library("onnxruntime");
  std::lock_guard lock(mutex);
  if (the_library == nullptr) the_library = new Library(path);
  return *the_library;
}

Library::Library(const Loaded& loaded) : api_(loaded.table), loaded_(loaded) {
  try {
    // Messages reach the user as errors, hence nothing is printed.
    api_.call(slot::kCreateEnv, LogLevel::kFatal, "hami", &env_);
    api_.call(slot::kCreateCpuMemoryInfo, AllocatorKind::kArena, MemoryKind::kDefault,
              &cpu_memory_);
    api_.call(slot::kGetAllocatorWithDefaultOptions, &allocator_);
  } catch (const StatusError& status) {
    throw Error(ErrorKind::kBuild, "onnxruntime-load",
                "ONNX Runtime does not start: " + backticked(status.what()));
  }
}

void Library::use_cuda(OrtSessionOptions* options, int device_id) const {
  if (loaded_.append_cuda == nullptr) refuse_cuda("it is a build for the CPU alone");
  try {
    api_.check(loaded_.append_cuda(options, device_id));
  } catch (const StatusError& status) {
    refuse_cuda(backticked(status.what()));
  }
}

}  // namespace hami::onnxruntime
