#include "bind/socket_reply.h"

#include <fcntl.h>
#include <pybind11/stl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <thread>

#include "bind/errors.h"
#include "core/spin.h"
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

iovec part_of(std::string_view bytes) { return {const_cast<char*>(bytes.data()), bytes.size()}; }

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

std::optional<std::string_view> ReplyForm::elements_of(const Request& request) const noexcept {
  const Value* const result = request.output.find(keys::result);
  if (result == nullptr) return {};
  if (!array) {
    if (!result->is(Value::Kind::kBytes)) return {};
    return result->as_text();
  }
  if (!result->is(Value::Kind::kTensor)) return {};
  const Tensor& tensor = result->as_tensor();
  if (!tensor.device().is_cpu() || !tensor.is_contiguous() || tensor.dtype() != array->dtype ||
      tensor.shape() != array->shape) {
    return {};
  }
  return std::string_view(tensor.data_as<char>(), tensor.size_bytes());
}

void SocketReply::send_unless_busy(const Request& request) noexcept {
  if (!may_have_a_full_batch(request)) send(request);
}

void SocketReply::send(const Request& request) noexcept {
  if (request.error != nullptr) return;
  const auto elements = form_->elements_of(request);
  if (!elements) return;
  State expected = kOpen;
  if (!state_.compare_exchange_strong(expected, kSending, std::memory_order_acq_rel)) return;
  num_body_bytes_ = form_->text.size() + elements->size();
  char length[64];
  const int size =
      std::snprintf(length, sizeof length, "\r\ncontent-length: %zu\r\n\r\n", num_body_bytes_);
  std::array parts{part_of(*common_),
                   part_of(form_->headers),
                   part_of("x-request-id: "),
                   part_of(id_),
                   part_of({length, static_cast<size_t>(size)}),
                   part_of(form_->text),
                   part_of(*elements)};
  const size_t num_sent = socket_->send(parts);
  try {
    rest_ = bytes_behind(parts, num_sent);
  } catch (const std::bad_alloc&) {
    socket_->close();  // the answer stays cut
  }
  state_.store(kSent, std::memory_order_release);
}

bool SocketReply::is_sent_soon() const noexcept {
  // The client may be faster with its next request than the thread that writes with coming back,
  // above all where the kernel lets the client run on the processor of that thread.
  constexpr int kMostYields = 20, kMostLooks = 100;
  for (int i = 0; i < kMostYields; ++i) {
    for (int k = 0; k < kMostLooks; ++k) {
      if (state_.load(std::memory_order_acquire) != kSending) return is_sent();
      Spin::relax();
    }
    std::this_thread::yield();
  }
  return is_sent();
}

bool SocketReply::claim() noexcept {
  State expected = kOpen;
  return state_.compare_exchange_strong(expected, kClaimed, std::memory_order_acq_rel);
}

ReplyForm::Array array_of(const std::string& dtype, Shape shape) {
  const auto found = DType::find(dtype);
  if (!found) throw py::value_error("no such type of elements");
  return {*found, std::move(shape)};
}

void define_reply_form(py::module_& module) {
  py::class_<ReplyForm, std::shared_ptr<ReplyForm>>(module, "ReplyForm",
                                                    "What answers of one kind have in common.")
      .def(py::init([](std::string headers, std::string text,
                       const std::optional<std::string>& dtype, Shape shape) {
             auto form = std::make_shared<ReplyForm>();
             form->headers = std::move(headers);
             form->text = std::move(text);
             if (dtype) form->array = array_of(*dtype, std::move(shape));
             return form;
           }),
           py::arg("headers"), py::arg("text") = "", py::arg("dtype") = py::none(),
           py::arg("shape") = Shape());
}

}  // namespace hami::bind
