#include "bind/socket_reply.h"

#include <fcntl.h>
#include <pybind11/stl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

#include "bind/errors.h"
#include "bind/method.h"
#include "graph/pipeline.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

int duplicate(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0) return copy;
  PyErr_SetFromErrno(PyExc_OSError);
  throw py::error_already_set();
}

iovec part_of(const void* data, size_t size) { return {const_cast<void*>(data), size}; }

// The bytes of `parts` behind the first `num_sent`.
std::string bytes_behind(std::span<const iovec> parts, size_t num_sent) {
  std::string rest;
  for (const iovec& part : parts) {
    const size_t skipped = std::min(num_sent, part.iov_len);
    rest.append(static_cast<const char*>(part.iov_base) + skipped, part.iov_len - skipped);
    num_sent -= skipped;
  }
  return rest;
}

// A thread with another full batch before it leaves the writing to the loop, which has time then.
bool may_have_a_full_batch(const Request& request) noexcept {
  const Pipeline& pipeline = *request.pipeline;
  const int node = request.runs_alone ? request.root : pipeline.region(request.region).output;
  return pipeline.num_requests() / 2 >= pipeline.run_range(node).max;
}

}  // namespace

ReplySocket::ReplySocket(int descriptor) : descriptor_(duplicate(descriptor)) {}

size_t ReplySocket::send(std::span<iovec> parts) noexcept {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return 0;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t num_sent = ::sendmsg(descriptor_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return num_sent < 0 ? 0 : static_cast<size_t>(num_sent);
}

void ReplySocket::close() noexcept {
  const std::lock_guard lock(mutex_);
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

bool SocketReply::fits(const Tensor& result) const noexcept {
  return result.device().is_cpu() && result.is_contiguous() && result.dtype() == form_->dtype &&
         result.shape() == form_->shape;
}

void SocketReply::send(const Request& request) noexcept {
  if (request.error != nullptr || may_have_a_full_batch(request)) return;
  const Value* const result = request.output.find(keys::result);
  if (result == nullptr || !result->is(Value::Kind::kTensor) || !fits(result->as_tensor())) return;
  State expected = kOpen;
  if (!state_.compare_exchange_strong(expected, kSending, std::memory_order_acq_rel)) return;
  const Tensor& tensor = result->as_tensor();
  std::array parts{part_of(head_.data(), head_.size()),
                   part_of(form_->text.data(), form_->text.size()),
                   part_of(tensor.data(), tensor.size_bytes())};
  const size_t num_sent = socket_->send(parts);
  try {
    rest_ = bytes_behind(parts, num_sent);
  } catch (const std::bad_alloc&) {
    socket_->close();  // the answer stays cut
  }
  state_.store(kSent, std::memory_order_release);
}

bool SocketReply::claim() noexcept {
  State expected = kOpen;
  return state_.compare_exchange_strong(expected, kClaimed, std::memory_order_acq_rel) ||
         expected == kClaimed;
}

void define_socket_reply(py::module_& module) {
  py::class_<ReplySocket, std::shared_ptr<ReplySocket>>(
      module, "ReplySocket", "A connection's socket, for threads that answer.")
      .def(py::init<int>(), py::arg("fileno"))
      .def("close", method(&ReplySocket::close));
  py::class_<ReplyForm, std::shared_ptr<ReplyForm>>(
      module, "ReplyForm", "What answers with arrays of one type and shape have in common.")
      .def(py::init([](const py::bytes& text, const std::string& dtype, Shape shape) {
             const auto found = DType::find(dtype);
             if (!found) throw py::value_error("no such type of elements");
             return std::make_shared<ReplyForm>(text, *found, std::move(shape));
           }),
           py::arg("text"), py::arg("dtype"), py::arg("shape"));
  py::class_<SocketReply, std::shared_ptr<SocketReply>>(
      module, "SocketReply", "An answer that the thread which has it may write.")
      .def(py::init([](std::shared_ptr<ReplySocket> socket, std::shared_ptr<ReplyForm> form,
                       const py::bytes& head) {
             return std::make_shared<SocketReply>(std::move(socket), std::move(form), head);
           }),
           py::arg("socket"), py::arg("form"), py::arg("head"))
      .def("claim", method(&SocketReply::claim))
      .def_property_readonly("is_sent", method(&SocketReply::is_sent))
      .def_property_readonly(
          "rest", [](py::handle self) { return py::bytes(made<SocketReply>(self).rest()); });
}

}  // namespace hami::bind
