#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "bind/kernels_arrays.h"
#include "bind/kernels_objects.h"
#include "bind/method.h"
#include "kernels/decoder_config.h"
#include "kernels/paged_attention.h"
#include "kernels/product.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

using kernels::Format;
using kernels::Member;
using kernels::StepView;

int team_size(int64_t threads) {
  if (threads < 0 || threads > 1024) {
    throw Error(ErrorKind::kConfig, "decoder-config",
                "`threads` is " + backticked(std::to_string(threads)),
                "choose a number from 0 (one for each processor) to 1024");
  }
  return threads == 0 ? kernels::num_processors() : static_cast<int>(threads);
}

// A matrix by itself.
struct CpuLinear {
  CpuLinear(kernels::Isa isa, Format format, const kernels::PlainRows& rows, int num_threads)
      : matrix(arena, kernels::kernels_of(isa), format, static_cast<int>(rows.num_rows),
               static_cast<int>(rows.num_cols)),
        team(num_threads) {
    matrix.set_rows(0, rows);
  }
  std::mutex mutex;
  kernels::MemoryArena arena;
  kernels::PackedMatrix matrix;
  kernels::ThreadTeam team;
  kernels::Rows x;
  kernels::Workspace workspace;
  int64_t max_rows = 0;
  ResultPool results;
};

std::unique_ptr<CpuLinear> make_linear(const py::object& weight, const std::string& dtype,
                                       int64_t threads, const std::string& isa) {
  return in_python([&] {
    const Ref<Tensor> array = array_of(weight, "weight");
    if (array->rank() != 2 || array->size() == 0) {
      throw Error(ErrorKind::kConfig, "decoder-weight",
                  "`weight` is " + backticked(array->describe()), "give a matrix [N, K]");
    }
    return std::make_unique<CpuLinear>(kernels::isa_named(isa),
                                       kernels::format_named(dtype, "dtype"),
                                       plain_rows(*array, "weight"), team_size(threads));
  });
}

py::object multiply(CpuLinear& self, const py::object& activations) {
  const int depth = self.matrix.depth();
  const auto x = in_python([&] { return floats_of(activations, "x", {-1, depth}); });
  const int64_t num_rows = x->shape()[0];
  return view_of(alone(self.mutex, [&] {
    if (num_rows > self.max_rows) {
      self.x = kernels::Rows(num_rows, depth);
      self.workspace = kernels::Workspace(num_rows, depth, self.team.size());
      self.max_rows = num_rows;
    }
    auto result = self.results.take(num_rows, self.matrix.num_rows());
    const kernels::Product product{&self.matrix, &self.x, static_cast<int>(num_rows), result.data(),
                                   static_cast<size_t>(self.matrix.num_rows())};
    self.team.run([&](Member& member) {
      member.share(num_rows, [&](int64_t row) {
        std::copy_n(x->data_as<const float>() + row * depth, depth, self.x.row(row));
      });
      product.run(member, self.workspace);
    });
    return result;
  }));
}

// Attention over pages by itself.
struct CpuAttention {
  CpuAttention(kernels::Isa isa_, kernels::AttentionShape shape_, int num_threads)
      : isa(isa_), shape(shape_), team(num_threads) {}
  std::mutex mutex;
  kernels::Isa isa;
  kernels::AttentionShape shape;
  kernels::ThreadTeam team;
  std::optional<kernels::AttentionTasks> tasks[3];
};

std::unique_ptr<CpuAttention> make_attention(int64_t num_heads, int64_t num_kv_heads,
                                             int64_t head_dim, double scale, int64_t threads,
                                             const std::string& isa) {
  return in_python([&] {
    kernels::DecoderConfig sizes;  // checks what the two have in common
    sizes.num_layers = sizes.hidden = sizes.intermediate = sizes.vocab = 1;
    sizes.max_tokens_per_step = sizes.max_rows = 1;
    sizes.num_heads = num_heads;
    sizes.num_kv_heads = num_kv_heads;
    sizes.head_dim = head_dim;
    sizes.inv_freq.resize(static_cast<size_t>(std::max<int64_t>(head_dim, 0) / 2));
    kernels::check(sizes);
    kernels::AttentionShape shape;
    shape.num_heads = static_cast<int>(num_heads);
    shape.num_kv_heads = static_cast<int>(num_kv_heads);
    shape.head_dim = static_cast<int>(head_dim);
    shape.scale =
        static_cast<float>(scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(head_dim)));
    return std::make_unique<CpuAttention>(kernels::isa_named(isa), shape, team_size(threads));
  });
}

// What the bounds of a decoder's plan are checked against.
void check_step(const StepView& step, const CpuAttention& self, const Shape& pages) {
  kernels::DecoderConfig sizes;
  sizes.vocab = 1;
  sizes.max_tokens_per_step = sizes.max_rows = std::numeric_limits<int32_t>::max();
  sizes.num_kv_heads = self.shape.num_kv_heads;
  sizes.head_dim = self.shape.head_dim;
  kernels::check(step, sizes, {pages[0], pages[2], 0});
}

void attend(CpuAttention& self, const py::object& q, const py::object& keys,
            const py::object& values, const py::object& query_starts,
            const py::object& context_lens, const py::object& table_rows,
            const py::object& page_table, const py::object& out) {
  const auto num_heads = int64_t{self.shape.num_heads};
  const auto head_dim = int64_t{self.shape.head_dim};
  in_python([&] {
    const auto q_array = floats_of(q, "q", {-1, num_heads, head_dim});
    const int64_t num_tokens = q_array->shape()[0];
    const auto out_array = floats_of(out, "out", {num_tokens, num_heads, head_dim}, true);
    const auto key_array = array_of(keys, "keys");
    const auto value_array = array_of(values, "values");
    const Shape& pages = key_array->shape();
    if (pages.size() != 4 || pages[1] != self.shape.num_kv_heads || pages[2] < 1 ||
        pages[3] != head_dim || value_array->shape() != pages ||
        value_array->dtype() != key_array->dtype()) {
      throw Error(ErrorKind::kRequest, "decoder-array",
                  "`keys` are " + backticked(key_array->describe()) + ", `values` " +
                      backticked(value_array->describe()),
                  "give both as [num_pages, num_kv_heads, page_size, head_dim] of one type");
    }
    const IntArray starts(query_starts, "query_starts");
    const IntArray lengths(context_lens, "context_lens");
    const IntArray rows(table_rows, "table_rows");
    const IntArray table(page_table, "page_table", 2);
    const std::vector<int32_t> zeros(static_cast<size_t>(num_tokens));
    StepView step;
    step.token_ids = step.positions = step.slots = zeros;
    step.query_starts = starts.numbers();
    step.context_lens = lengths.numbers();
    step.table_rows = rows.numbers();
    step.page_table = table.numbers();
    step.max_pages = table.tensor->shape()[1];
    check_step(step, self, pages);
    kernels::AttentionData data;
    data.q = q_array->data_as<const float>();
    data.q_stride = data.out_stride = static_cast<size_t>(num_heads * head_dim);
    data.out = out_array->data_as<float>();
    data.keys = key_array->data_as<const std::byte>();
    data.values = value_array->data_as<const std::byte>();
    data.head_stride = static_cast<size_t>(pages[2] * head_dim);
    data.page_stride = data.head_stride * static_cast<size_t>(pages[1]);
    data.page_size = static_cast<int>(pages[2]);
    const Format format = format_of(*key_array, "keys");
    return alone(self.mutex, [&] {
      auto& tasks = self.tasks[static_cast<int>(format)];
      kernels::AttentionShape shape = self.shape;
      shape.kv_format = format;
      if (!tasks) tasks.emplace(kernels::kernels_of(self.isa), shape, self.team.size());
      tasks->plan(step);
      self.team.run([&](Member& member) { tasks->run(member, data); });
      return true;
    });
  });
}

py::list supported_isas() {
  py::list names;
  for (int i = 0; i < kernels::kNumIsas; ++i) {
    const auto isa = static_cast<kernels::Isa>(i);
    if (kernels::is_supported(isa)) names.append(kernels::name_of(isa));
  }
  return names;
}

}  // namespace

void define_cpu_parts(py::module_& module) {
  py::class_<CpuLinear>(module, "CpuLinear", "A matrix in the packed form of the CPU kernels.")
      .def(py::init(&make_linear), py::arg("weight"), py::kw_only(), py::arg("dtype") = "bfloat16",
           py::arg("threads") = 0, py::arg("isa") = "")
      .def("__call__", method(&multiply), py::arg("x"), "x [M, K] times the matrix: [M, N].");
  py::class_<CpuAttention>(module, "CpuAttention", "Attention over pages of keys and values.")
      .def(py::init(&make_attention), py::kw_only(), py::arg("num_heads"), py::arg("num_kv_heads"),
           py::arg("head_dim"), py::arg("scale") = 0.0, py::arg("threads") = 0, py::arg("isa") = "")
      .def("__call__", method(&attend), py::kw_only(), py::arg("q"), py::arg("keys"),
           py::arg("values"), py::arg("query_starts"), py::arg("context_lens"),
           py::arg("table_rows"), py::arg("page_table"), py::arg("out"));
  module.def("cpu_isas", &supported_isas, "The instruction sets that this processor has.");
}

}  // namespace hami::bind
