#include "bind/express_form.h"

#include <pybind11/stl.h>

#include <cstring>
#include <utility>

#include "bind/errors.h"
#include "bind/guarded.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "bind/pipeline_object.h"
#include "bind/request_reader.h"

namespace py = pybind11;

namespace hami::bind {

ExpressForm::ExpressForm(std::shared_ptr<Pipeline> pipeline, Known known, PyObject* keys,
                         PyObject* keys_of, PyObject* path)
    : pipeline_(std::move(pipeline)),
      known_(std::move(known)),
      keys_(hold(keys)),
      keys_of_(hold(keys_of)),
      path_(hold(path)),
      sample_(read_sample(*pipeline_, keys)) {
  // What came with the request that the form was learnt from belongs to that one.
  sample_.base = nullptr;
  reads_data_ = sample_.input.erase(keys::data);
}

Value ExpressForm::data_of(std::string_view data) const {
  if (!known_.array) return Value::bytes(make_ref<Bytes>(std::string(data)));
  // A copy: the bytes lie wherever the head ends, and engines want them aligned.
  auto tensor = Tensor::allocate(known_.array->dtype, known_.array->shape);
  std::memcpy(tensor->data(), data.data(), data.size());
  return Value(std::move(tensor));
}

std::optional<ExpressForm::Match> ExpressForm::match(std::string_view request) const noexcept {
  FoundHead head{.num_bytes = known_.head.size(), .id = {}};
  if (!request.starts_with(known_.head)) {
    const auto found = match_head(request, known_.head);
    if (!found) return {};
    head = *found;
  }
  const std::string_view body = request.substr(head.num_bytes);
  if (body.size() != known_.text.size() + known_.num_data_bytes) return {};
  if (!body.starts_with(known_.text)) return {};
  return Match{body.substr(known_.text.size()), head.id};
}

Ref<Request> ExpressForm::request_of(std::string_view data) const {
  if (pipeline_->reads_everything()) {
    const Owned bytes =
        checked(PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size())));
    PyObject* const args[] = {bytes.get()};
    const Owned keys = checked(call_python(keys_of_->get(), args, 1));
    return read_request(pipeline_, keys.get(), known_.only_node);
  }
  const bool is_traced = pipeline_->trace().is_on();
  const TimePoint begin = Clock::now();
  auto request = make_ref<Request>(pipeline_, 0);
  request->rows = sample_.rows;
  request->priority = sample_.priority;
  if (sample_.time_limit != Duration::max()) request->deadline = begin + sample_.time_limit;
  request->root = known_.only_node.value_or(sample_.root);
  request->runs_alone = known_.only_node.has_value();
  request->input = sample_.input;
  if (reads_data_) request->input.put(keys::data, data_of(data));
  if (is_traced) request->trace_submit(begin);
  return request;
}

PyObject* ExpressForm::finished(Request& request) const {
  Owned dict = checked(PyDict_Copy(keys_->get()));
  write_output(request, dict.get());
  return dict.detach();
}

void define_express_form(py::module_& module) {
  const auto make = [](const py::object& pipeline, const py::dict& keys, const py::object& keys_of,
                       const std::optional<std::string>& node, std::string head, std::string text,
                       size_t num_body_bytes, const std::optional<std::string>& dtype, Shape shape,
                       std::shared_ptr<ReplyForm> reply, std::shared_ptr<BoundedTally> seconds,
                       const py::object& path) {
    const auto core = core_pipeline(pipeline);
    ExpressForm::Known known{.head = std::move(head),
                             .text = std::move(text),
                             .num_data_bytes = 0,
                             .array = {},
                             .only_node = {},
                             .reply = std::move(reply),
                             .seconds = std::move(seconds)};
    bool is_whole = known.text.size() <= num_body_bytes;
    if (is_whole) known.num_data_bytes = num_body_bytes - known.text.size();
    if (dtype) {
      known.array = array_of(*dtype, std::move(shape));
      const auto num_values = static_cast<size_t>(num_elements(known.array->shape));
      is_whole = is_whole && known.num_data_bytes == num_values * known.array->dtype.size_bytes();
    }
    if (!is_whole) throw py::value_error("text and data are not the whole body");
    return guarded([&] {
      if (node) known.only_node = core->find_node(*node);
      return std::make_shared<ExpressForm>(core, std::move(known), keys.ptr(), keys_of.ptr(),
                                           path.ptr());
    });
  };
  py::class_<ExpressForm, std::shared_ptr<ExpressForm>>(
      module, "ExpressForm", "What is known of requests that ask for the same with other numbers.")
      .def(py::init(make), py::kw_only(), py::arg("pipeline"), py::arg("keys"), py::arg("keys_of"),
           py::arg("node"), py::arg("head"), py::arg("text"), py::arg("num_body_bytes"),
           py::arg("dtype"), py::arg("shape"), py::arg("reply"), py::arg("seconds"),
           py::arg("path"));
}

}  // namespace hami::bind
