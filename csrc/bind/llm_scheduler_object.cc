#include "bind/llm_scheduler_object.h"

#include <pybind11/stl.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/guarded.h"
#include "bind/integers.h"
#include "bind/llm_plan_object.h"
#include "bind/method.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

struct SchedulerObject {
  std::shared_ptr<SharedScheduler> shared;
  py::object policy;  // a callable, or null
};

// Calls `call` with the scheduler, under its lock.
template <class Call>
auto locked(SharedScheduler& shared, Call call) {
  return guarded([&] {
    const std::lock_guard lock(shared.mutex);
    return call(shared.scheduler);
  });
}

std::unique_ptr<SchedulerObject> make(int32_t num_pages, int32_t page_size, int32_t max_running,
                                      int32_t max_model_len, int32_t max_batched_tokens,
                                      const std::string& prefix_cache, const py::object& policy,
                                      const std::string& preempt, int32_t num_swap_pages,
                                      int32_t max_preemptions, int32_t ageing_steps) {
  const bool is_callable = PyCallable_Check(policy.ptr()) != 0;
  if (!is_callable && !py::isinstance<py::str>(policy)) {
    throw py::type_error("`policy` must be a str or a callable, not `" +
                         std::string(Py_TYPE(policy.ptr())->tp_name) + "`");
  }
  return guarded([&] {
    llm::Settings settings;
    settings.num_pages = num_pages;
    settings.page_size = page_size;
    settings.max_running = max_running;
    settings.max_model_len = max_model_len;
    settings.max_batched_tokens = max_batched_tokens;
    settings.prefix_cache = llm::prefix_cache_named(prefix_cache);
    settings.policy =
        is_callable ? llm::Policy::kCustom : llm::policy_named(policy.cast<std::string>());
    settings.preempt = llm::preempt_named(preempt);
    settings.num_swap_pages = num_swap_pages;
    settings.max_preemptions = max_preemptions;
    settings.ageing_steps = ageing_steps;
    auto object = std::make_unique<SchedulerObject>();
    object->shared = std::make_shared<SharedScheduler>(settings);
    if (is_callable) object->policy = policy;
    return object;
  });
}

// What a policy of the user's says about a request: the lower runs first.
double key_of(const py::object& policy, const llm::NewRequest& request) {
  py::dict facts;
  facts["num_prompt_tokens"] = request.prompt.size();
  facts["max_tokens"] = request.max_tokens;
  facts["width"] = request.width;
  facts["priority"] = request.priority;
  facts["user"] = request.user;
  facts["expected_tokens"] = request.expected_tokens;
  const py::object key = policy(facts);
  const double number = PyFloat_AsDouble(key.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (std::isnan(number)) throw py::value_error("the key that `policy` returned is not a number");
  return number;
}

int64_t add(SchedulerObject& self, const py::object& prompt_ids, int64_t max_tokens,
            int64_t min_tokens, const py::object& stop_ids, int64_t width, int64_t priority,
            std::optional<std::string> salt, std::optional<std::string> user,
            std::optional<int64_t> expected_tokens, bool prompt_logits, bool together) {
  llm::NewRequest request;
  request.prompt = read_token_ids(prompt_ids, "prompt_ids");
  request.max_tokens = max_tokens;
  request.min_tokens = min_tokens;
  request.stop_ids = read_token_ids(stop_ids, "stop_ids");
  request.width = width;
  request.priority = priority;
  request.salt = std::move(salt).value_or("");
  request.user = std::move(user).value_or("");
  request.expected_tokens = expected_tokens.value_or(0);
  request.prompt_logits = prompt_logits;
  request.together = together;
  if (self.policy) {
    const py::object policy = self.policy;
    request.key = key_of(policy, request);
  }
  return locked(*self.shared, [&](auto& scheduler) { return scheduler.add(std::move(request)); });
}

std::shared_ptr<PlanObject> step(SchedulerObject& self) {
  const int64_t serial =
      locked(*self.shared, [](auto& scheduler) { return scheduler.step().serial; });
  return std::make_shared<PlanObject>(self.shared, serial);
}

// Raises unless `plan` is the one in flight. REQUIRES: the lock.
void check_in_flight(const SchedulerObject& self, const PlanObject& plan) {
  if (plan.owner() != self.shared) throw py::value_error("this plan is of another scheduler");
  const llm::StepPlan& step = plan.plan();
  if (step.num_rows() > 0 && !self.shared->scheduler.has_plan_in_flight()) {
    throw py::value_error("this plan was committed already, or discarded");
  }
}

py::list commit(SchedulerObject& self, const py::object& plan, const py::object& parents,
                const py::object& tokens) {
  const auto& in_flight = made<PlanObject>(plan);
  std::vector<int64_t> read_parents;
  std::vector<int64_t> read_tokens;
  read_integers(parents, "parents", read_parents);
  read_integers(tokens, "tokens", read_tokens);
  std::vector<std::pair<int64_t, const char*>> results;
  locked(*self.shared, [&](auto& scheduler) {
    check_in_flight(self, in_flight);
    scheduler.commit(read_parents, read_tokens, results);
    return true;
  });
  const py::str going("");
  py::list list(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& [id, reason] = results[i];
    list[i] = py::make_tuple(id, *reason == '\0' ? going : py::str(reason));
  }
  return list;
}

void discard(SchedulerObject& self, const py::object& plan) {
  const auto& in_flight = made<PlanObject>(plan);
  locked(*self.shared, [&](auto& scheduler) {
    check_in_flight(self, in_flight);
    scheduler.discard();
    return true;
  });
}

using Command = void (llm::LlmScheduler::*)(int64_t);

template <Command command>
void tell(SchedulerObject& self, int64_t id) {
  locked(*self.shared, [&](auto& scheduler) {
    (scheduler.*command)(id);
    return true;
  });
}

py::dict stats(SchedulerObject& self) {
  auto& scheduler = self.shared->scheduler;
  const std::lock_guard lock(self.shared->mutex);
  const llm::Stats& counts = scheduler.stats();
  const auto& pages = scheduler.pages();
  py::dict dict;
  dict["num_steps"] = counts.num_steps;
  dict["num_tokens"] = counts.num_tokens;
  dict["num_sampled"] = counts.num_sampled;
  dict["num_preempted_recompute"] = counts.num_recomputed;
  dict["num_preempted_swap"] = counts.num_swapped_out;
  dict["num_swapped_in"] = counts.num_swapped_in;
  dict["num_deferred"] = counts.num_deferred;
  dict["num_copies"] = counts.num_copies;
  dict["num_forks"] = counts.num_forks;
  dict["num_aborted"] = counts.num_aborted;
  dict["num_evictions"] = pages.allocator().num_evictions();
  dict["prefix_hit_tokens"] = pages.num_hit_tokens();
  dict["prefix_query_tokens"] = pages.num_query_tokens();
  dict["pages_total"] = pages.pool().num_pages() - 1;
  dict["pages_free"] = pages.pool().num_free();
  dict["pages_cached"] = pages.pool().num_cached();
  dict["pages_referenced"] = pages.pool().num_referenced();
  dict["swap_pages_free"] = pages.num_free_swap_pages();
  dict["waiting"] = scheduler.num_waiting();
  dict["running"] = scheduler.num_running();
  dict["swapped"] = scheduler.num_swapped();
  return dict;
}

bool has_work(SchedulerObject& self) { return self.shared->scheduler.has_work(); }

void reset_prefix_cache(SchedulerObject& self) {
  locked(*self.shared, [](auto& scheduler) {
    scheduler.reset_prefix_cache();
    return true;
  });
}

void recompute_all(SchedulerObject& self) {
  locked(*self.shared, [](auto& scheduler) {
    scheduler.recompute_all();
    return true;
  });
}

bool is_made(PyObject* self) {
  return reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder().holder_constructed();
}

// The policy may be a method of an object that holds the scheduler.
void collect_cycles(PyHeapTypeObject* heap_type) {
  PyTypeObject* const type = &heap_type->ht_type;
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (is_made(self)) Py_VISIT(py::cast<SchedulerObject&>(py::handle(self)).policy.ptr());
    return 0;
  };
  type->tp_clear = [](PyObject* self) {
    if (is_made(self)) py::cast<SchedulerObject&>(py::handle(self)).policy = py::object();
    return 0;
  };
}

}  // namespace

void define_llm_scheduler(py::module_& module) {
  using llm::LlmScheduler;
  py::class_<SchedulerObject>(
      module, "LlmScheduler",
      "Chooses in every step which sequences compute which tokens on which pages.",
      py::custom_type_setup(&collect_cycles))
      .def(py::init(&make), py::arg("num_pages"), py::arg("page_size") = 16,
           py::arg("max_running") = 256, py::arg("max_model_len") = 4096,
           py::arg("max_batched_tokens") = 512, py::arg("prefix_cache") = "radix",
           py::arg("policy") = "fcfs", py::arg("preempt") = "recompute",
           py::arg("num_swap_pages") = 0, py::arg("max_preemptions") = 3,
           py::arg("ageing_steps") = 100)
      .def("add", method(&add), py::arg("prompt_ids"), py::arg("max_tokens") = 16,
           py::arg("min_tokens") = 0, py::arg("stop_ids") = py::tuple(), py::arg("width") = 1,
           py::arg("priority") = 0, py::arg("salt") = "", py::arg("user") = "",
           py::arg("expected_tokens") = py::none(), py::arg("prompt_logits") = false,
           py::arg("together") = false)
      .def("step", method(&step))
      .def("commit", method(&commit), py::arg("plan"), py::arg("parents"), py::arg("tokens"))
      .def("discard", method(&discard), py::arg("plan"))
      .def("finish", method(&tell<&LlmScheduler::finish>), py::arg("id"))
      .def("fail", method(&tell<&LlmScheduler::fail>), py::arg("id"))
      .def("abort", method(&tell<&LlmScheduler::abort>), py::arg("id"))
      .def("reset_prefix_cache", method(&reset_prefix_cache))
      .def("recompute_all", method(&recompute_all))
      .def("stats", method(&stats))
      .def("has_work", method(&has_work));
}

}  // namespace hami::bind
