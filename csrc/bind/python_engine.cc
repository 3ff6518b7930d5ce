#include "bind/python_engine.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/settle.h"
#include "bind/tensor_object.h"
#include "bind/traced_gil.h"
#include "core/device_arrays.h"
#include "core/error.h"
#include "engine/engine_backend.h"
#include "engine/rows.h"

namespace hami::bind {
namespace {

// --- the description ---

[[noreturn]] void refuse(const PythonInstance& instance, const std::string& what,
                         const std::string& help) {
  throw Error(ErrorKind::kBuild, "engine-description",
              backticked(Py_TYPE(instance.get())->tp_name) + " " + what, help,
              "node `" + instance.node_name() + "`");
}

bool is_host_error(const std::exception_ptr& error) {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const HostError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string text_of(PyObject* object) {
  const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "" : text;
}

Shape shape_of(const PythonInstance& instance, const std::string& name, PyObject* object) {
  const Owned tuple = checked(PySequence_Tuple(object));
  Shape shape;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    const int64_t extent = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.get(), i));
    if (PyErr_Occurred() != nullptr || extent < -1) {
      PyErr_Clear();
      refuse(instance, "describes " + backticked(name) + " with a shape that holds no numbers",
             "use integers, and -1 for any extent");
    }
    shape.push_back(extent);
  }
  return shape;
}

TensorSpec spec_of(const PythonInstance& instance, PyObject* object) {
  const Owned name = checked(PyObject_GetAttrString(object, "name"));
  const Owned dtype = checked(PyObject_GetAttrString(object, "dtype"));
  const Owned shape = checked(PyObject_GetAttrString(object, "shape"));
  const Owned has_rows = checked(PyObject_GetAttrString(object, "has_rows"));
  TensorSpec spec{text_of(name.get()), {}, {}, PyObject_IsTrue(has_rows.get()) == 1};
  const auto known = DType::find(text_of(dtype.get()));
  if (!known) {
    refuse(
        instance,
        "describes " + backticked(spec.name) + " with the type " + backticked(text_of(dtype.get())),
        "use a name of numpy, such as `float32`, or `bfloat16`");
  }
  spec.dtype = *known;
  spec.shape = shape_of(instance, spec.name, shape.get());
  return spec;
}

void refuse_scalars_with_rows(const PythonInstance& instance,
                              const std::vector<TensorSpec>& specs) {
  for (const TensorSpec& spec : specs) {
    if (!spec.has_rows || !spec.shape.empty()) continue;
    refuse(instance, "describes " + backticked(spec.name) + " as a scalar that has rows",
           "give it an axis 0, or set `has_rows` to False");
  }
}

std::vector<TensorSpec> specs_of(const PythonInstance& instance, const char* name) {
  std::vector<TensorSpec> specs;
  const auto error = error_of([&] {
    const Owned listed = checked(PyObject_GetAttrString(instance.get(), name));
    const Owned tuple = checked(PySequence_Tuple(listed.get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
      specs.push_back(spec_of(instance, PyTuple_GET_ITEM(tuple.get(), i)));
    }
  });
  if (is_host_error(error)) {
    refuse(instance,
           "has " + backticked(name) + " that are no list of descriptions: " + describe(error),
           "set it to a list of `hami.TensorSpec`");
  }
  if (error != nullptr) std::rethrow_exception(error);
  if (specs.empty()) refuse(instance, "describes no " + backticked(name), "set it in `init`");
  return specs;
}

void refuse_duplicates(const PythonInstance& instance, const std::vector<TensorSpec>& specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (specs[i].name != specs[j].name) continue;
      refuse(instance, "describes " + backticked(specs[i].name) + " twice",
             "give every input, and every output, a name of its own");
    }
  }
}

// By the rule of shapes, but for what the engine says is whole.
void find_rows(EngineDescription& description) {
  std::vector<std::pair<TensorSpec*, bool>> said;
  for (auto* specs : {&description.inputs, &description.outputs}) {
    for (TensorSpec& spec : *specs) said.emplace_back(&spec, spec.has_rows);
  }
  engine::find_rows(description);
  for (const auto& [spec, may_have_rows] : said) spec->has_rows = spec->has_rows && may_have_rows;
}

std::optional<int64_t> find_count(const PythonInstance& instance, const char* name) {
  const Owned count = instance.trait(name);
  if (!count || count.get() == Py_None) return {};
  const int64_t number = PyLong_AsLongLong(count.get());
  if (PyErr_Occurred() == nullptr && number >= 1) return number;
  PyErr_Clear();
  instance.refuse_trait(name, "a number of rows, or None");
}

// `device` is None, or a pair of DLPack's device type and index.
std::optional<Device> find_device(const PythonInstance& instance) {
  const Owned device = instance.trait("array_device");
  if (!device || device.get() == Py_None) return {};
  Device found;
  if (PyTuple_Check(device.get()) != 0 &&
      PyArg_ParseTuple(device.get(), "ii", &found.type, &found.id) != 0) {
    return found;
  }
  PyErr_Clear();
  instance.refuse_trait("array_device", "a pair of DLPack's device type and index, or None");
}

Ref<EngineDescription> describe(const PythonInstance& instance) {
  auto description = make_ref<EngineDescription>();
  description->inputs = specs_of(instance, "inputs");
  description->outputs = specs_of(instance, "outputs");
  description->fixed_rows = find_count(instance, "fixed_rows");
  description->device = find_device(instance);
  if (instance.read_flag("finds_rows")) find_rows(*description);
  for (const auto* specs : {&description->inputs, &description->outputs}) {
    refuse_scalars_with_rows(instance, *specs);
    refuse_duplicates(instance, *specs);
  }
  return description;
}

// --- the runs ---

Owned list_of(std::span<const Ref<Tensor>> tensors) {
  Owned list = checked(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    checked(from_value(Value(tensors[i]))).detach());
  }
  return list;
}

class PythonModel final : public engine::Model {
 public:
  PythonModel(std::shared_ptr<PythonInstance> instance, std::shared_ptr<PipelineLoad> load,
              size_t num_outputs)
      : instance_(std::move(instance)),
        load_(std::move(load)),
        trace_node_(load_->trace.find_node(instance_->node_name())),
        is_whole_(num_outputs, false) {
    const Owned staging = checked(PyObject_GetAttrString(instance_->get(), "stages_inputs"));
    has_staging_ = PyObject_IsTrue(staging.get()) == 1;
  }

  std::vector<Ref<Tensor>> run(std::span<const Ref<Tensor>> inputs) override {
    const TracedGil gil(load_->trace, trace_node_);
    drain_released();
    const Owned arrays = list_of(inputs);
    const Owned returned = call("run", arrays.get());
    // Not any sequence: a lone array is one, and its rows are no outputs.
    if (!PyList_Check(returned.get()) && !PyTuple_Check(returned.get())) {
      refuse_results(std::string("a `") + Py_TYPE(returned.get())->tp_name + "`");
    }
    const Owned results = checked(PySequence_Tuple(returned.get()));
    const SettledOnce scope;
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(results.get()));
    if (count != is_whole_.size()) refuse_results(std::to_string(count) + " arrays");
    std::vector<Ref<Tensor>> tensors;
    for (size_t i = 0; i < count; ++i) {
      PyObject* const result = PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
      tensors.push_back(of_its_own(to_result(result), inputs));
    }
    return tensors;
  }
  bool may_write_inputs() const noexcept override { return true; }

  struct GilTurn final : Turn {
    GilTurn(Trace& trace, int32_t node) : gil(trace, node) {}
    const TracedGil gil;
  };
  std::unique_ptr<Turn> take_turn() override {
    return std::make_unique<GilTurn>(load_->trace, trace_node_);
  }

  Ref<Tensor> staging(size_t input, size_t size_bytes) override {
    if (!has_staging_) return nullptr;
    staging_.resize(std::max(staging_.size(), input + 1));
    Ref<Tensor>& kept = staging_[input];
    if (kept && kept->size_bytes() >= size_bytes) return kept;
    const GilAcquire gil;
    const Owned size = checked(PyLong_FromSize_t(size_bytes));
    const Owned given = call("staging", size.get());
    Ref<Tensor> memory = to_tensor(given.get());
    if (is_fit_for_staging(memory.get(), size_bytes)) return kept = std::move(memory);
    throw Error(
        ErrorKind::kBuild, "engine-description",
        "`staging` of " + type_name() + " gave " + description_of(given.get(), memory.get()) +
            " for " + std::to_string(size_bytes) + " bytes",
        "return a new contiguous one-dimensional uint8 array of that size, in memory of the "
        "host that may be written to");
  }

  Ref<Tensor> join(std::span<const engine::DevicePart> parts, int64_t num_rows) override {
    const GilAcquire gil;
    const bool are_rows = std::ranges::all_of(parts, &engine::DevicePart::lacks_rows);
    const Owned arrays = checked(PyList_New(static_cast<Py_ssize_t>(parts.size())));
    for (size_t i = 0; i < parts.size(); ++i) {
      Owned array = checked(from_value(Value(parts[i].tensor)));
      if (parts[i].lacks_rows && !are_rows) {
        array = checked(PyObject_GetItem(array.get(), Py_None));
      }
      PyList_SET_ITEM(arrays.get(), static_cast<Py_ssize_t>(i), array.detach());
    }
    const Owned rows = checked(PyLong_FromLongLong(num_rows));
    return to_result(call(are_rows ? "stack" : "join", arrays.get(), rows.get()).get());
  }

  bool is_known_whole(size_t output) const noexcept override { return is_whole_[output]; }
  void learn_whole(size_t output) noexcept override { is_whole_[output] = true; }

 private:
  std::string type_name() const { return backticked(Py_TYPE(instance_->get())->tp_name); }

  Owned call(const char* method, PyObject* first, PyObject* second = nullptr) const {
    const Owned bound = checked(PyObject_GetAttrString(instance_->get(), method));
    PyObject* const args[] = {first, second};
    return checked(call_python(bound.get(), args, second == nullptr ? 1 : 2));
  }

  Ref<Tensor> to_result(PyObject* object) const {
    Ref<Tensor> tensor = to_tensor(object);
    if (tensor != nullptr) return tensor->contiguous();
    refuse_results(std::string("a `") + Py_TYPE(object)->tp_name + "` among them");
  }

  // Whether an input can be gathered there, and no other one is.
  bool is_fit_for_staging(const Tensor* memory, size_t size_bytes) const {
    if (memory == nullptr || !memory->device().is_cpu() || memory->is_read_only()) return false;
    if (memory->dtype() != DType{DType::kUInt, 8} || memory->rank() != 1) return false;
    if (!memory->is_contiguous() || memory->size_bytes() < size_bytes) return false;
    return std::ranges::none_of(staging_, [&](const Ref<Tensor>& other) {
      return other != nullptr && other->data() == memory->data();
    });
  }

  static std::string description_of(PyObject* given, const Tensor* memory) {
    if (memory == nullptr) return std::string("a `") + Py_TYPE(given)->tp_name + "`";
    return backticked(memory->describe()) + (memory->is_read_only() ? ", which is read-only," : "");
  }

  // A copy of a result that looks into an input, whose memory the next run overwrites.
  static Ref<Tensor> of_its_own(Ref<Tensor> result, std::span<const Ref<Tensor>> inputs) {
    const auto address = reinterpret_cast<uintptr_t>(result->data());
    for (const Ref<Tensor>& input : inputs) {
      const auto begin = reinterpret_cast<uintptr_t>(input->data());
      if (address < begin || address >= begin + input->size_bytes()) continue;
      if (!result->device().is_cpu()) return device_arrays(*result).cast(result, result->dtype());
      auto copy = Tensor::allocate(result->dtype(), result->shape());
      result->copy_to(copy->data());
      return copy;
    }
    return result;
  }

  [[noreturn]] void refuse_results(const std::string& got) const {
    throw Error(ErrorKind::kRequest, "backend-result-count",
                "`run` of " + type_name() + " has " + std::to_string(is_whole_.size()) +
                    " outputs and returned " + got,
                "return one array for each of `outputs`", "node `" + instance_->node_name() + "`");
  }

  const std::shared_ptr<PythonInstance> instance_;
  const std::shared_ptr<PipelineLoad> load_;
  const int32_t trace_node_;
  std::vector<bool> is_whole_;        // by output
  std::vector<Ref<Tensor>> staging_;  // by input
  bool has_staging_ = false;
};

class PythonEngine final : public engine::EngineBackend {
 public:
  PythonEngine(const std::shared_ptr<PythonInstance>& instance,
               const std::shared_ptr<PipelineLoad>& load, const Ref<EngineDescription>& description,
               const engine::RowRange& range, const std::string& name, const Traits& traits)
      : EngineBackend(std::make_unique<PythonModel>(instance, load, description->outputs.size()),
                      description, range, name),
        instance_(instance),
        traits_(traits) {}

  void forward(Batch batch) override {
    const PythonInstance::Stay stay(*instance_);
    EngineBackend::forward(batch);
  }
  Traits traits() const override { return traits_; }
  void tear_down() noexcept override { instance_->tear_down(); }
  std::string problem() const override { return instance_->problem(); }
  Figures own_figures() const override { return instance_->figures(); }

 private:
  const std::shared_ptr<PythonInstance> instance_;
  const Traits traits_;
};

std::string model_name(const PythonInstance& instance) {
  for (const char* name : {"model_name", "model"}) {
    const Owned model = instance.trait(name);
    if (!model || model.get() == Py_None) continue;
    const Owned text(PyObject_Str(model.get()));
    PyErr_Clear();
    if (text) return text_of(text.get());
  }
  return Py_TYPE(instance.get())->tp_name;
}

}  // namespace

bool is_engine(const PythonInstance& instance) {
  const Owned flag = instance.trait("is_engine");
  return flag && flag.get() == Py_True;
}

std::shared_ptr<Backend> create_python_engine(Build& build, std::unique_ptr<PythonInstance> owned) {
  const std::shared_ptr<PythonInstance> instance = std::move(owned);
  const auto description = describe(*instance);
  const engine::RowRange range{find_count(*instance, "min"), find_count(*instance, "max")};
  const Traits traits{.is_idempotent = instance->read_flag("is_idempotent")};
  auto engine = std::make_shared<PythonEngine>(instance, build.scope().load(), description, range,
                                               model_name(*instance), traits);
  EngineDescription::publish(build.options(), description);
  return engine;
}

}  // namespace hami::bind
