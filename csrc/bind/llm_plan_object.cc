#include "bind/llm_plan_object.h"

#include <stdexcept>
#include <vector>

#include "bind/method.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// What a memoryview of a plan keeps alive.
struct PlanMemory {
  std::shared_ptr<SharedScheduler> owner;
  void* data;
  ssize_t item_size;
  std::vector<ssize_t> shape;
};

template <class T>
py::memoryview view(const PlanObject& plan, T* data, std::vector<ssize_t> shape) {
  static T nothing{};  // an empty vector has no address, and a buffer must have one
  auto memory = std::make_unique<PlanMemory>(plan.owner(), data == nullptr ? &nothing : data,
                                             static_cast<ssize_t>(sizeof(T)), std::move(shape));
  return py::memoryview(py::cast(std::move(memory)));
}

py::buffer_info info_of(const PlanMemory& memory) {
  std::vector<ssize_t> strides(memory.shape.size(), memory.item_size);
  for (size_t i = strides.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * memory.shape[i];
  static_assert(sizeof(int) == 4 && sizeof(long) == 8);
  return py::buffer_info(memory.data, memory.item_size, memory.item_size == 4 ? "i" : "l",
                         static_cast<ssize_t>(memory.shape.size()), memory.shape, strides);
}

template <class T>
auto array(llm::PlanArray<T> llm::StepPlan::* member) {
  return [member](py::handle self) {
    const auto& plan = made<PlanObject>(self);
    auto& values = plan.plan().*member;
    return view(plan, values.data(), {static_cast<ssize_t>(values.size())});
  };
}

auto array(llm::PlanArray<llm::PagePair> llm::StepPlan::* member) {
  return [member](py::handle self) {
    const auto& plan = made<PlanObject>(self);
    auto& values = plan.plan().*member;
    auto* data = values.data() == nullptr ? nullptr : &values.data()->from;
    return view(plan, data, {static_cast<ssize_t>(values.size()), 2});
  };
}

py::memoryview page_table(const PlanObject& plan) {
  const llm::StepPlan& step = plan.plan();
  const ssize_t max_pages = step.max_pages;
  const auto num_rows = static_cast<ssize_t>(step.page_table.size()) / max_pages;
  return view(plan, step.page_table.data(), {num_rows, max_pages});
}

py::list ended(const PlanObject& plan) {
  py::list list;
  for (const auto& [id, reason] : plan.plan().ended) list.append(py::make_tuple(id, reason));
  return list;
}

std::string text_of(const PlanObject& plan) {
  const llm::StepPlan& step = plan.plan();
  return "<StepPlan of " + std::to_string(step.num_rows()) + " rows and " +
         std::to_string(step.num_tokens()) + " tokens>";
}

}  // namespace

llm::StepPlan& PlanObject::plan() const {
  auto& plan = owner_->scheduler.plan();
  if (plan.serial != serial_) {
    throw std::runtime_error("this plan is of step " + std::to_string(serial_) + "; step " +
                             std::to_string(plan.serial) + " has overwritten it");
  }
  return plan;
}

void define_llm_plan(py::module_& module) {
  py::class_<PlanMemory>(module, "_PlanMemory", py::buffer_protocol(),
                         py::custom_type_setup(&refuse_new))
      .def_buffer(&info_of);
  using llm::StepPlan;
  py::class_<PlanObject, std::shared_ptr<PlanObject>>(
      module, "StepPlan", "One step of an LlmScheduler as plain arrays.",
      py::custom_type_setup(&refuse_new))
      .def_property_readonly(
          "num_rows", [](py::handle self) { return made<PlanObject>(self).plan().num_rows(); })
      .def_property_readonly(
          "num_decode_rows",
          [](py::handle self) { return made<PlanObject>(self).plan().num_decode_rows; })
      .def_property_readonly(
          "num_tokens", [](py::handle self) { return made<PlanObject>(self).plan().num_tokens(); })
      .def_property_readonly("sequences", array(&StepPlan::sequences))
      .def_property_readonly("token_ids", array(&StepPlan::token_ids))
      .def_property_readonly("positions", array(&StepPlan::positions))
      .def_property_readonly("slots", array(&StepPlan::slots))
      .def_property_readonly("query_starts", array(&StepPlan::query_starts))
      .def_property_readonly("context_lens", array(&StepPlan::context_lens))
      .def_property_readonly("table_rows", array(&StepPlan::table_rows))
      .def_property_readonly("dirty_rows", array(&StepPlan::dirty_rows))
      .def_property_readonly("logit_tokens", array(&StepPlan::logit_tokens))
      .def_property_readonly("sample_sequences", array(&StepPlan::sample_sequences))
      .def_property_readonly("sample_logits", array(&StepPlan::sample_logits))
      .def_property_readonly("swap_out", array(&StepPlan::swap_out))
      .def_property_readonly("swap_in", array(&StepPlan::swap_in))
      .def_property_readonly("copies", array(&StepPlan::copies))
      .def_property_readonly("page_table",
                             [](py::handle self) { return page_table(made<PlanObject>(self)); })
      .def_property_readonly("ended", [](py::handle self) { return ended(made<PlanObject>(self)); })
      .def("__repr__", method(&text_of));
}

}  // namespace hami::bind
