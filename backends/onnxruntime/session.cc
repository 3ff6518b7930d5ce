#include "backends/onnxruntime/session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "backends/onnxruntime/element_type.h"
#include "backends/onnxruntime/utf8.h"
#include "core/error.h"

namespace hami::onnxruntime {
namespace {

// A value of the engine that lives as long as the tensors that look into it.
class OwnedValue final : public Object {
 public:
  explicit OwnedValue(Handle<OrtValue> value) : value_(std::move(value)) {}

 private:
  Handle<OrtValue> value_;
};

// The engine's messages end in line breaks and span lines; ours are one line.
std::string one_line(const char* message) {
  std::string line;
  for (const char* at = message; *at != '\0'; ++at) {
    const bool is_space = *at == '\n' || *at == '\r' || *at == '\t' || *at == ' ';
    if (!is_space) line += *at;
    if (is_space && !line.empty() && line.back() != ' ') line += ' ';
  }
  while (line.ends_with(' ')) line.pop_back();
  return valid_utf8(line);  // damaged files have damaged names
}

OptimizationLevel optimization_level(const std::string& name) {
  if (name == "off") return OptimizationLevel::kOff;
  if (name == "basic") return OptimizationLevel::kBasic;
  if (name == "extended") return OptimizationLevel::kExtended;
  return OptimizationLevel::kAll;
}

struct stat stat_of_model(const std::string& path) {
  struct stat status{};
  std::string problem;
  if (stat(path.c_str(), &status) != 0) {
    problem = std::string("cannot be read: ") + std::strerror(errno);
    if (errno == ENOENT) problem = "does not exist";
  } else if (S_ISDIR(status.st_mode)) {
    problem = "is a folder";
  } else if (status.st_size == 0) {
    problem = "is empty";
  } else if (access(path.c_str(), R_OK) != 0) {
    problem = std::string("cannot be read: ") + std::strerror(errno);
  }
  if (!problem.empty()) {
    throw Error(ErrorKind::kBuild, "model-file",
                "the model file " + backticked(path) + " " + problem,
                "set `model` to the path of an ONNX file");
  }
  return status;
}

// The one path of a file, whatever links lead to it. REQUIRES: it exists.
std::string canonical_path(const std::string& path) {
  std::unique_ptr<char, void (*)(void*)> resolved(realpath(path.c_str(), nullptr), std::free);
  return resolved == nullptr ? path : resolved.get();
}

Handle<OrtSession> load(const Library& library, const SessionOptions& options) {
  const Api& api = library.api();
  auto settings = create<OrtSessionOptions>(api, slot::kCreateSessionOptions);
  api.call(slot::kSetSessionLogSeverityLevel, settings.get(), static_cast<int>(LogLevel::kFatal));
  api.call(slot::kSetSessionGraphOptimizationLevel, settings.get(),
           optimization_level(options.optimization));
  api.call(slot::kSetIntraOpNumThreads, settings.get(), options.intra_op_threads);
  // Idle threads sleep: they would take the cores of the other instances.
  api.call(slot::kAddSessionConfigEntry, settings.get(), "session.intra_op.allow_spinning", "0");
  // The plan of one shape helps no other, and one is kept for every shape ever seen.
  api.call(slot::kDisableMemPattern, settings.get());
  if (options.cuda_device >= 0) library.use_cuda(settings.get(), options.cuda_device);
  return create<OrtSession>(api, slot::kCreateSession, library.env(), options.model.c_str(),
                            settings.get());
}

void read_type(const Api& api, const OrtTypeInfo* type, Port& port) {
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;  // belongs to `type`
  api.call(slot::kCastTypeInfoToTensorInfo, type, &tensor);
  if (tensor == nullptr) {
    port.type_name = "no tensor (a sequence, a map or an optional value)";
    return;
  }
  int element_type = 0;
  size_t rank = 0;
  api.call(slot::kGetTensorElementType, tensor, &element_type);
  api.call(slot::kGetDimensionsCount, tensor, &rank);
  port.dtype = dtype_of(element_type);
  port.type_name = element_type_name(element_type);
  port.shape.resize(rank);
  api.call(slot::kGetDimensions, tensor, port.shape.data(), rank);
}

template <class CountSlot, class NameSlot, class TypeSlot>
std::vector<Port> read_ports(const Library& library, const OrtSession* session, CountSlot count_of,
                             NameSlot name_of, TypeSlot type_of) {
  const Api& api = library.api();
  size_t count = 0;
  api.call(count_of, session, &count);
  std::vector<Port> ports(count);
  for (size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    api.call(name_of, session, i, library.allocator(), &name);
    ports[i].name = name;
    api.call(slot::kAllocatorFree, library.allocator(), name);
    if (const std::string valid = valid_utf8(ports[i].name); valid != ports[i].name) {
      throw StatusError("the name `" + valid + "` of an input or output is not UTF-8");
    }
    read_type(api, create<OrtTypeInfo>(api, type_of, session, i).get(), ports[i]);
  }
  return ports;
}

// Whether the engine handed the memory of an input back as an output.
bool is_in_inputs(const void* data, std::span<const Ref<Tensor>> inputs) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (const Ref<Tensor>& input : inputs) {
    const auto begin = reinterpret_cast<uintptr_t>(input->data());
    if (address >= begin && address < begin + input->size_bytes()) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<Session> Session::open(const SessionOptions& options) {
  const struct stat status = stat_of_model(options.model);
  // A changed file is another model, and the threads of a session do not survive a fork.
  using Identity =
      std::tuple<std::string, ino_t, off_t, int64_t, int64_t, int, std::string, int, pid_t>;
  const Identity identity{
      canonical_path(options.model), status.st_ino,          status.st_size,
      status.st_mtim.tv_sec,         status.st_mtim.tv_nsec, options.intra_op_threads,
      options.optimization,          options.cuda_device,    getpid()};
  Library::instance();  // may call the host, hence before the lock
  static std::mutex mutex;
  static auto* const living = new std::map<Identity, std::weak_ptr<Session>>();
  std::lock_guard lock(mutex);
  std::erase_if(*living, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Session>& known = (*living)[identity];
  std::shared_ptr<Session> session = known.lock();
  if (session == nullptr) {
    session = std::make_shared<Session>(options);
    known = session;
  }
  return session;
}

Session::Session(const SessionOptions& options) : library_(Library::instance()) {
  stat_of_model(options.model);
  try {
    session_ = load(library_, options);
    inputs_ = read_ports(library_, session_.get(), slot::kSessionGetInputCount,
                         slot::kSessionGetInputName, slot::kSessionGetInputTypeInfo);
    outputs_ = read_ports(library_, session_.get(), slot::kSessionGetOutputCount,
                          slot::kSessionGetOutputName, slot::kSessionGetOutputTypeInfo);
  } catch (const StatusError& status) {
    throw Error(ErrorKind::kBuild, "model-load",
                "the model file " + backticked(options.model) +
                    " does not load: " + one_line(status.what()),
                "check that the file is complete, and that this ONNX Runtime knows its operators");
  }
  for (const Port& input : inputs_) input_names_.push_back(input.name.c_str());
  is_known_whole_ = std::make_unique<std::atomic<bool>[]>(outputs_.size());
}

std::vector<Ref<Tensor>> Session::run(std::span<const Ref<Tensor>> inputs,
                                      std::span<const size_t> outputs) const {
  const Api& api = library_.api();
  std::vector<Handle<OrtValue>> fed;
  std::vector<const OrtValue*> input_values;
  std::vector<const char*> output_names;
  std::vector<OrtValue*> output_values(outputs.size(), nullptr);
  std::vector<Ref<Tensor>> results;
  for (size_t output : outputs) output_names.push_back(outputs_[output].name.c_str());
  try {
    for (const Ref<Tensor>& input : inputs) {
      fed.push_back(create<OrtValue>(api, slot::kCreateTensorWithDataAsOrtValue,
                                     library_.cpu_memory(), input->data(), input->size_bytes(),
                                     input->shape().data(), input->rank(),
                                     element_type_of(input->dtype())));
      input_values.push_back(fed.back().get());
    }
    api.call(slot::kRun, session_.get(), nullptr, input_names_.data(), input_values.data(),
             input_values.size(), output_names.data(), output_names.size(), output_values.data());
    std::vector<Handle<OrtValue>> owned;
    for (OrtValue* value : output_values) owned.emplace_back(value, Releaser<OrtValue>{&api});
    for (Handle<OrtValue>& value : owned) results.push_back(take(std::move(value), inputs));
  } catch (const StatusError& status) {
    throw Error(ErrorKind::kRequest, "engine-run",
                "the model does not run on this input: " + one_line(status.what()),
                "check the values and the shape against what the model was made for");
  }
  return results;
}

Ref<Tensor> Session::take(Handle<OrtValue> value, std::span<const Ref<Tensor>> inputs) const {
  const Api& api = library_.api();
  auto type = create<OrtTensorTypeAndShapeInfo>(api, slot::kGetTensorTypeAndShape, value.get());
  int element_type = 0;
  size_t rank = 0;
  void* data = nullptr;
  api.call(slot::kGetTensorElementType, type.get(), &element_type);
  api.call(slot::kGetDimensionsCount, type.get(), &rank);
  Shape shape(rank);
  api.call(slot::kGetDimensions, type.get(), shape.data(), rank);
  const DType dtype = *dtype_of(element_type);
  if (num_elements(shape) == 0) return Tensor::allocate(dtype, std::move(shape));
  api.call(slot::kGetTensorMutableData, value.get(), &data);
  Shape strides = contiguous_strides(shape);
  auto result = make_ref<Tensor>(data, dtype, std::move(shape), std::move(strides),
                                 make_ref<OwnedValue>(std::move(value)));
  if (!is_in_inputs(data, inputs)) return result;
  auto copy = Tensor::allocate(dtype, result->shape());
  result->copy_to(copy->data());
  return copy;
}

}  // namespace hami::onnxruntime
