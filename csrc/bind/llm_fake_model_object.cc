#include "bind/llm_fake_model_object.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "bind/integers.h"
#include "bind/llm_plan_object.h"
#include "bind/method.h"
#include "llm/fake_model.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

struct FakeModelObject {
  FakeModelObject(int32_t vocab_size, int32_t num_pages, int32_t page_size, int32_t num_swap_pages)
      : model(vocab_size, num_pages, page_size, num_swap_pages) {}
  std::mutex mutex;
  llm::FakeModel model;
};

// Logits of one run: of the caller alone.
struct FakeLogits {
  std::vector<float> values;
  ssize_t num_rows;
  ssize_t vocab_size;
};

py::memoryview view(std::vector<float> values, ssize_t num_rows, ssize_t vocab_size) {
  values.reserve(1);  // a buffer must have an address
  auto logits = std::make_unique<FakeLogits>(std::move(values), num_rows, vocab_size);
  return py::memoryview(py::cast(std::move(logits)));
}

py::memoryview run(FakeModelObject& self, const py::object& plan_object) {
  const auto& plan = made<PlanObject>(plan_object);
  const std::lock_guard lock(self.mutex);
  const std::lock_guard plan_lock(plan.owner()->mutex);
  const auto logits = self.model.run(plan.plan());
  const auto vocab_size = static_cast<ssize_t>(self.model.vocab_size());
  return view({logits.begin(), logits.end()}, static_cast<ssize_t>(logits.size()) / vocab_size,
              vocab_size);
}

py::memoryview reference_logits(const py::object& token_ids, ssize_t vocab_size) {
  if (vocab_size < 1) throw py::value_error("`vocab_size` must be at least 1");
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  llm::FakeModel::reference_logits(read_token_ids(token_ids, "token_ids"), logits);
  return view(std::move(logits), 1, vocab_size);
}

}  // namespace

void define_llm_fake_model(py::module_& module) {
  py::class_<FakeLogits>(module, "_FakeLogits", py::buffer_protocol(),
                         py::custom_type_setup(&refuse_new))
      .def_buffer([](FakeLogits& logits) {
        return py::buffer_info(
            logits.values.data(), sizeof(float), "f", 2, {logits.num_rows, logits.vocab_size},
            {logits.vocab_size * ssize_t{sizeof(float)}, ssize_t{sizeof(float)}});
      });
  py::class_<FakeModelObject>(
      module, "FakeModel",
      "An executor without a model: its logits are a hash of the tokens, read through the pages.")
      .def(py::init<int32_t, int32_t, int32_t, int32_t>(), py::arg("vocab_size"),
           py::arg("num_pages"), py::arg("page_size"), py::arg("num_swap_pages") = 0)
      .def("run", method(&run), py::arg("plan"))
      .def_static("reference_logits", &reference_logits, py::arg("token_ids"),
                  py::arg("vocab_size"));
}

}  // namespace hami::bind
