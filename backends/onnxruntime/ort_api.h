// The part of ONNX Runtime's C API that this family calls. Its table of function pointers only
// ever grows at the end, so a function is its slot number and its signature (both from the
// published C API documentation), and no header of that project is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace hami::onnxruntime {

// The C API's opaque types, under its own names.
struct OrtStatus;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtValue;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtMemoryInfo;
struct OrtAllocator;

// What OrtGetApiBase() returns.
struct OrtApiBase {
  const void* (*get_api)(uint32_t version);
  const char* (*get_version_string)();
};

// The oldest version of the table that holds every slot below.
inline constexpr uint32_t kApiVersion = 12;

enum class LogLevel : int { kFatal = 4 };
enum class AllocatorKind : int { kArena = 1 };
enum class MemoryKind : int { kDefault = 0 };
enum class OptimizationLevel : int { kOff = 0, kBasic = 1, kExtended = 2, kAll = 99 };

template <size_t kIndex, class Signature>
struct Slot {};

namespace slot {
inline constexpr Slot<2, const char*(const OrtStatus*)> kGetErrorMessage;
inline constexpr Slot<3, OrtStatus*(LogLevel, const char* log_id, OrtEnv** out)> kCreateEnv;
inline constexpr Slot<7, OrtStatus*(const OrtEnv*, const char* path, const OrtSessionOptions*,
                                    OrtSession** out)>
    kCreateSession;
inline constexpr Slot<9, OrtStatus*(OrtSession*, const OrtRunOptions*,
                                    const char* const* input_names, const OrtValue* const* inputs,
                                    size_t num_inputs, const char* const* output_names,
                                    size_t num_outputs, OrtValue** outputs)>
    kRun;
inline constexpr Slot<10, OrtStatus*(OrtSessionOptions** out)> kCreateSessionOptions;
inline constexpr Slot<17, OrtStatus*(OrtSessionOptions*)> kDisableMemPattern;
inline constexpr Slot<22, OrtStatus*(OrtSessionOptions*, int level)> kSetSessionLogSeverityLevel;
inline constexpr Slot<23, OrtStatus*(OrtSessionOptions*, OptimizationLevel)>
    kSetSessionGraphOptimizationLevel;
inline constexpr Slot<24, OrtStatus*(OrtSessionOptions*, int num_threads)> kSetIntraOpNumThreads;
inline constexpr Slot<30, OrtStatus*(const OrtSession*, size_t* out)> kSessionGetInputCount;
inline constexpr Slot<31, OrtStatus*(const OrtSession*, size_t* out)> kSessionGetOutputCount;
inline constexpr Slot<33, OrtStatus*(const OrtSession*, size_t index, OrtTypeInfo** out)>
    kSessionGetInputTypeInfo;
inline constexpr Slot<34, OrtStatus*(const OrtSession*, size_t index, OrtTypeInfo** out)>
    kSessionGetOutputTypeInfo;
inline constexpr Slot<36, OrtStatus*(const OrtSession*, size_t index, OrtAllocator*, char** out)>
    kSessionGetInputName;
inline constexpr Slot<37, OrtStatus*(const OrtSession*, size_t index, OrtAllocator*, char** out)>
    kSessionGetOutputName;
inline constexpr Slot<49, OrtStatus*(const OrtMemoryInfo*, void* data, size_t size_bytes,
                                     const int64_t* shape, size_t rank, int element_type,
                                     OrtValue** out)>
    kCreateTensorWithDataAsOrtValue;
inline constexpr Slot<51, OrtStatus*(OrtValue*, void** out)> kGetTensorMutableData;
inline constexpr Slot<55, OrtStatus*(const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo** out)>
    kCastTypeInfoToTensorInfo;
inline constexpr Slot<60, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int* element_type)>
    kGetTensorElementType;
inline constexpr Slot<61, OrtStatus*(const OrtTensorTypeAndShapeInfo*, size_t* rank)>
    kGetDimensionsCount;
inline constexpr Slot<62, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int64_t* dims, size_t rank)>
    kGetDimensions;
inline constexpr Slot<65, OrtStatus*(const OrtValue*, OrtTensorTypeAndShapeInfo** out)>
    kGetTensorTypeAndShape;
inline constexpr Slot<69, OrtStatus*(AllocatorKind, MemoryKind, OrtMemoryInfo** out)>
    kCreateCpuMemoryInfo;
inline constexpr Slot<76, OrtStatus*(OrtAllocator*, void*)> kAllocatorFree;
inline constexpr Slot<78, OrtStatus*(OrtAllocator** out)> kGetAllocatorWithDefaultOptions;
inline constexpr Slot<93, void(OrtStatus*)> kReleaseStatus;
inline constexpr Slot<95, void(OrtSession*)> kReleaseSession;
inline constexpr Slot<96, void(OrtValue*)> kReleaseValue;
inline constexpr Slot<98, void(OrtTypeInfo*)> kReleaseTypeInfo;
inline constexpr Slot<99, void(OrtTensorTypeAndShapeInfo*)> kReleaseTensorTypeAndShapeInfo;
inline constexpr Slot<100, void(OrtSessionOptions*)> kReleaseSessionOptions;
inline constexpr Slot<130, OrtStatus*(OrtSessionOptions*, const char* key, const char* value)>
    kAddSessionConfigEntry;
}  // namespace slot

// An OrtStatus as an exception; those who call the API say what it means to the user.
class StatusError : public std::exception {
 public:
  explicit StatusError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// The table. It may be called from any thread.
class Api {
 public:
  explicit Api(const void* table) : table_(static_cast<void* const*>(table)) {}

  template <size_t kIndex, class Result, class... Params, class... Args>
  Result raw(Slot<kIndex, Result(Params...)>, Args... args) const {
    return reinterpret_cast<Result (*)(Params...)>(table_[kIndex])(args...);
  }

  // Calls a function that returns a status; throws its message as a StatusError.
  template <class AnySlot, class... Args>
  void call(AnySlot function, Args... args) const {
    check(raw(function, args...));
  }
  // The same for a status that a function outside the table returned.
  void check(OrtStatus* status) const {
    if (status == nullptr) return;
    std::string message = raw(slot::kGetErrorMessage, status);
    raw(slot::kReleaseStatus, status);
    throw StatusError(std::move(message));
  }

  void* const* table_;
};

inline void release(const Api& api, OrtSession* object) { api.raw(slot::kReleaseSession, object); }
inline void release(const Api& api, OrtSessionOptions* object) {
  api.raw(slot::kReleaseSessionOptions, object);
}
inline void release(const Api& api, OrtValue* object) { api.raw(slot::kReleaseValue, object); }
inline void release(const Api& api, OrtTypeInfo* object) {
  api.raw(slot::kReleaseTypeInfo, object);
}
inline void release(const Api& api, OrtTensorTypeAndShapeInfo* object) {
  api.raw(slot::kReleaseTensorTypeAndShapeInfo, object);
}

// Owns one object of the C API.
template <class T>
struct Releaser {
  const Api* api = nullptr;
  void operator()(T* object) const noexcept { release(*api, object); }
};
template <class T>
using Handle = std::unique_ptr<T, Releaser<T>>;

// The object that `function` returns through its last parameter.
template <class T, class AnySlot, class... Args>
Handle<T> create(const Api& api, AnySlot function, Args... args) {
  T* object = nullptr;
  api.call(function, args..., &object);
  return Handle<T>(object, Releaser<T>{&api});
}

}  // namespace hami::onnxruntime
