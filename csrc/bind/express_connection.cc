#include "bind/express_connection.h"

#include <utility>

#include "bind/errors.h"
#include "bind/method.h"
#include "bind/owned.h"
#include "graph/pipeline.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// What this thread is about to submit: its answer may come before the submission returns.
thread_local const ExpressAnswer* in_submission = nullptr;

}  // namespace

ExpressAnswer::ExpressAnswer(std::shared_ptr<ExpressConnection> connection,
                             std::shared_ptr<const ExpressForm> form, std::string id)
    : connection_(std::move(connection)),
      form_(std::move(form)),
      reply_(connection_->socket_, connection_->desk_->common(), form_->known().reply,
             std::move(id)) {}

PyObject* ExpressAnswer::owner() const noexcept {
  const bool has_owner = connection_ != nullptr && connection_->owner_ != nullptr;
  return has_owner ? connection_->owner_->get() : nullptr;
}

void ExpressAnswer::leave_desk() noexcept {
  if (const auto place = std::exchange(place_, std::nullopt)) connection_->desk_->remove(*place);
}

void ExpressAnswer::on_answered(Request& request) noexcept {
  reply_.send_unless_busy(request);
  if (in_submission == this) {
    has_run_in_place_ = true;
    return;
  }
  // The others of its batch come at once, or their clients have their answers already.
  if (connection_->queue_->push(request, false)) return;
  const GilAcquire gil;
  deliver(request);
}

void ExpressAnswer::deliver(Request& request) noexcept {
  const TimePoint begin = request.trace_time();
  leave_desk();
  const auto connection = std::move(connection_);
  const auto form = std::move(form_);
  // It is not when the connection has seen before that the answer is sent, or has taken it.
  const bool is_current = connection->current_.get() == this;
  if (is_current && !reply_.is_sent()) reply_.send(request);
  if (reply_.is_sent()) {
    request.output = {};
    const double seconds = to_seconds(Clock::now()) - to_seconds(start_);
    form->known().seconds->add(seconds);
    connection->desk_->log(form->path(), reply_.num_body_bytes(), seconds, reply_.id());
    if (is_current) connection->end(*this, Py_None, Py_None);
  } else if (is_current) {
    Owned finished(Py_NewRef(Py_None));
    std::exception_ptr failure = request.error;
    if (failure == nullptr) {
      failure = error_of([&] { finished = Owned(form->finished(request)); });
    }
    const Owned error(failure == nullptr ? Py_NewRef(Py_None) : failure_object(request, failure));
    connection->end(*this, error.get(), finished.get());
  }
  request.trace_return(begin);
}

ExpressConnection::ExpressConnection(std::shared_ptr<ExpressDesk> desk,
                                     std::shared_ptr<AnswerQueue> queue, int descriptor,
                                     PyObject* owner)
    : desk_(std::move(desk)),
      queue_(std::move(queue)),
      socket_(std::make_shared<ReplySocket>(descriptor)),
      owner_(hold(owner)) {}

ExpressConnection::Taken ExpressConnection::begin(const py::bytes& data) {
  if (is_running() && !settle()) return Taken::kNo;
  if (is_ready_ && owner_ != nullptr && !desk_->is_draining()) {
    if (const auto match = form_->match(std::string_view(data))) return start(*match);
  }
  is_ready_ = false;
  return Taken::kNo;
}

ExpressConnection::Taken ExpressConnection::begin_with(std::shared_ptr<ExpressForm> form,
                                                       const py::bytes& data) {
  form_ = std::move(form);
  is_ready_ = true;
  return begin(data);
}

ExpressConnection::Taken ExpressConnection::start(const ExpressForm::Match& match) {
  const bool is_first = desk_->num_running() == 0;
  std::string id = match.id.empty() ? desk_->new_id() : std::string(match.id);
  const auto answer = std::make_shared<ExpressAnswer>(shared_from_this(), form_, std::move(id));
  Ref<Request> request;
  const std::exception_ptr failure = error_of([&] {
    request = form_->request_of(match.data);
    // This thread gets the answer anyway, and is spared two changes of threads.
    request->may_run_inline = request->deadline == TimePoint::max();
    request->completion = answer;
    answer->place_ = desk_->add(*answer);
    current_ = answer;
    request_ = request;
    in_submission = answer.get();
    request->pipeline->submit({&request, 1});
  });
  in_submission = nullptr;
  if (failure != nullptr) {
    if (request) request->trace_refuse();
    answer->leave_desk();
    const Owned error(failure_object(failure));
    end(*answer, error.get(), Py_None);
  } else if (answer->has_run_in_place_) {
    answer->deliver(*request);
  }
  return is_first && is_running() ? Taken::kFirst : Taken::kYes;
}

bool ExpressConnection::settle() noexcept {
  const bool is_over =
      !is_watched_ && current_->reply().is_sent_soon() && current_->reply().rest().empty();
  if (is_over) note_end();
  return is_over;
}

void ExpressConnection::note_end() noexcept {
  current_ = nullptr;
  request_ = nullptr;
  is_watched_ = false;
  idle_since_s_ = to_seconds(Clock::now());
}

void ExpressConnection::end(const ExpressAnswer& answer, PyObject* error,
                            PyObject* finished) noexcept {
  const bool is_sent = answer.reply().is_sent();
  const std::string& rest = answer.reply().rest();
  const bool is_told = is_watched_ || !is_sent || !rest.empty();
  note_end();
  if (!is_told || owner_ == nullptr) return;
  // What others write now may not have left the connection when the next request comes.
  if (!is_sent || !rest.empty()) is_ready_ = false;
  const Ref<PyHandle> owner = owner_;
  const Owned name(PyUnicode_InternFromString("express_ended"));
  const Owned left(PyBytes_FromStringAndSize(rest.data(), static_cast<Py_ssize_t>(rest.size())));
  const std::string& id = answer.reply().id();
  const Owned shown(PyBytes_FromStringAndSize(id.data(), static_cast<Py_ssize_t>(id.size())));
  const Owned start(PyFloat_FromDouble(to_seconds(answer.start())));
  const Owned returned(survive_finalization([&]() -> PyObject* {
    if (!name || !left || !shown || !start) return nullptr;
    return PyObject_CallMethodObjArgs(owner->get(), name.get(), error, finished, left.get(),
                                      shown.get(), start.get(), nullptr);
  }));
  if (!returned) survive_finalization([&] { PyErr_WriteUnraisable(owner->get()); });
}

py::object ExpressConnection::take() {
  if (!is_running() || !current_->reply().claim()) return py::none();
  const auto answer = current_;
  const Ref<Request> request = request_;
  answer->leave_desk();
  note_end();
  is_ready_ = false;
  {
    const GilRelease no_gil;
    request->cancel();
  }
  return py::make_tuple(py::bytes(answer->reply().id()), to_seconds(answer->start()));
}

void ExpressConnection::close() {
  owner_ = nullptr;
  socket_->close();
}

void define_express(py::module_& module) {
  define_bounded_tally(module);
  define_http_head(module);
  define_reply_form(module);
  define_express_form(module);
  define_express_desk(module);
  using Connection = ExpressConnection;
  py::class_<Connection, std::shared_ptr<Connection>>(
      module, "ExpressConnection", "A connection whose requests go the express way.")
      .def(py::init([](std::shared_ptr<ExpressDesk> desk, py::handle queue, int descriptor,
                       const py::object& owner) {
             return std::make_shared<Connection>(
                 std::move(desk), made<AnswerQueueObject>(queue).queue(), descriptor, owner.ptr());
           }),
           py::arg("desk"), py::arg("queue"), py::arg("fileno"), py::arg("owner"))
      .def(
          "begin",
          [](py::handle self, const py::bytes& data) {
            return static_cast<int>(made<Connection>(self).begin(data));
          },
          py::arg("data"),
          "Begins the request that `data` is, if it is the same as before with other numbers: 0 "
          "for no, 1 for yes, 2 when no other one runs on the desk.")
      .def(
          "begin_with",
          [](py::handle self, std::shared_ptr<ExpressForm> form, const py::bytes& data) {
            return static_cast<int>(made<Connection>(self).begin_with(std::move(form), data));
          },
          py::arg("form"), py::arg("data"))
      .def(
          "watch", [](py::handle self) { made<Connection>(self).watch(); },
          "Have the owner told of the end of the request that runs, whatever it is.")
      .def("take", method(&Connection::take),
           "Takes the request that runs out of the pipeline: its id and when it began; None if its "
           "answer is on its way.")
      .def("close", method(&Connection::close))
      .def_property_readonly("is_running", method(&Connection::is_running))
      .def_property_readonly("idle_since_s", method(&Connection::idle_since_s));
}

}  // namespace hami::bind
