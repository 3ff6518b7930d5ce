#include <optional>

#include "bind/kernels_arrays.h"
#include "bind/kernels_objects.h"
#include "bind/method.h"
#include "kernels/decoder.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

using kernels::Decoder;
using kernels::DecoderConfig;
using kernels::Format;
using kernels::StepView;

struct CpuDecoder {
  explicit CpuDecoder(const DecoderConfig& config) : decoder(config) {}
  std::mutex mutex;  // one thread at a time, whatever callers do
  Decoder decoder;
  ResultPool results;
};

// The arrays of a plan, by the names of its attributes, kept alive while they are read.
class PlanArrays {
 public:
  explicit PlanArrays(py::handle plan) : plan_(plan) {
    view.token_ids = read("token_ids");
    view.positions = read("positions");
    view.slots = read("slots");
    view.query_starts = read("query_starts");
    view.context_lens = read("context_lens");
    view.table_rows = read("table_rows");
    view.page_table = read("page_table", 2);
    view.max_pages = kept_.back().tensor->shape()[1];
    view.logit_tokens = read("logit_tokens");
    view.swap_out = read("swap_out");
    view.swap_in = read("swap_in");
    view.copies = read("copies");
  }
  StepView view;

 private:
  StepView::Array read(const char* name, int rank = -1) {
    kept_.emplace_back(plan_.attr(name), name, rank);
    return kept_.back().numbers();
  }
  py::handle plan_;
  std::vector<IntArray> kept_;
};

std::unique_ptr<CpuDecoder> make(int64_t num_layers, int64_t hidden, int64_t num_heads,
                                 int64_t num_kv_heads, int64_t head_dim, int64_t intermediate,
                                 int64_t vocab, double rms_eps, int64_t max_tokens_per_step,
                                 int64_t max_rows, const py::object& inv_freq,
                                 const std::string& dtype, const std::string& kv_dtype,
                                 int64_t threads, bool qkv_bias, bool qk_norm, bool tie_embeddings,
                                 const std::string& isa) {
  return in_python([&] {
    DecoderConfig config;
    config.num_layers = num_layers;
    config.hidden = hidden;
    config.num_heads = num_heads;
    config.num_kv_heads = num_kv_heads;
    config.head_dim = head_dim;
    config.intermediate = intermediate;
    config.vocab = vocab;
    config.rms_eps = rms_eps;
    config.max_tokens_per_step = max_tokens_per_step;
    config.max_rows = max_rows;
    config.dtype = kernels::format_named(dtype, "dtype");
    const Format kept = config.dtype > Format::kFloat16 ? Format::kBfloat16 : config.dtype;
    config.kv_dtype = kv_dtype.empty() ? kept : kernels::format_named(kv_dtype, "kv_dtype");
    config.num_threads = threads;
    config.has_qkv_bias = qkv_bias;
    config.has_qk_norm = qk_norm;
    config.ties_embeddings = tie_embeddings;
    config.isa = kernels::isa_named(isa);
    for (const py::handle angle : inv_freq) config.inv_freq.push_back(py::cast<float>(angle));
    const GilRelease release;
    return std::make_unique<CpuDecoder>(config);
  });
}

void set_weight(CpuDecoder& self, const std::string& name, const py::object& array) {
  const auto tensor = in_python([&] { return array_of(array, name); });
  const auto rows = in_python([&] { return plain_rows(*tensor, name); });
  alone(self.mutex, [&] {
    self.decoder.weights().set(name, rows, tensor->shape());
    return true;
  });
}

py::list missing(CpuDecoder& self) {
  py::list names;
  for (const auto& name : alone(self.mutex, [&] { return self.decoder.weights().missing(); })) {
    names.append(name);
  }
  return names;
}

void make_pool(CpuDecoder& self, int64_t num_pages, int64_t page_size, int64_t num_swap_pages) {
  alone(self.mutex, [&] {
    self.decoder.make_pool(num_pages, page_size, num_swap_pages);
    return true;
  });
}

py::object run(CpuDecoder& self, const py::object& plan) {
  const auto arrays = in_python([&] { return std::make_unique<PlanArrays>(plan); });
  const StepView& step = arrays->view;
  return view_of(alone(self.mutex, [&] {
    self.decoder.check(step);
    auto logits = self.results.take(step.num_logits(), self.decoder.config().vocab);
    self.decoder.run(step, logits.data());
    return logits;
  }));
}

py::dict describe(CpuDecoder& self) {
  py::dict out;
  const DecoderConfig& config = self.decoder.config();
  out["isa"] = kernels::name_of(config.isa);
  out["threads"] = config.num_threads;
  out["dtype"] = kernels::name_of(config.dtype);
  out["kv_dtype"] = kernels::name_of(config.kv_dtype);
  out["weight_bytes"] = self.decoder.weights().size_bytes();
  out["pool_bytes"] = self.decoder.pool().size_bytes();
  return out;
}

}  // namespace

void define_cpu_decoder(py::module_& module) {
  py::class_<CpuDecoder>(module, "CpuDecoder",
                         "A dense Llama, Qwen2 or Qwen3 on the CPU, over pages of keys and values.")
      .def(py::init(&make), py::kw_only(), py::arg("num_layers"), py::arg("hidden"),
           py::arg("num_heads"), py::arg("num_kv_heads"), py::arg("head_dim"),
           py::arg("intermediate"), py::arg("vocab"), py::arg("rms_eps"),
           py::arg("max_tokens_per_step"), py::arg("max_rows"), py::arg("inv_freq"),
           py::arg("dtype") = "bfloat16", py::arg("kv_dtype") = "", py::arg("threads") = 0,
           py::arg("qkv_bias") = false, py::arg("qk_norm") = false,
           py::arg("tie_embeddings") = false, py::arg("isa") = "")
      .def("set_weight", method(&set_weight), py::arg("name"), py::arg("array"))
      .def("missing_weights", method(&missing), "Names of weights that have not been set.")
      .def("make_pool", method(&make_pool), py::arg("num_pages"), py::arg("page_size"),
           py::arg("num_swap_pages") = 0)
      .def("run", method(&run), py::arg("plan"),
           "Computes a step; returns the wanted logits, float32 [L, vocab].")
      .def("describe", method(&describe));
}

}  // namespace hami::bind
