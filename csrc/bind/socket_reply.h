// `SocketReply`: the answer to one HTTP request, written into its connection by the thread that has
// it, so that the event loop reads the next requests meanwhile. The loop makes it beforehand; what
// does not fit what was made, and what the socket does not take at once, is left to the loop.
#pragma once

#include <pybind11/pybind11.h>
#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/tensor.h"
#include "graph/request.h"

namespace hami::bind {

// A second descriptor of a connection's socket: the event loop may close its own at any time, and
// the number then belongs to somebody else. Any thread.
class ReplySocket {
 public:
  // Throws the Python error OSError where no descriptor is left. REQUIRES: the GIL.
  explicit ReplySocket(int descriptor);
  ~ReplySocket() { close(); }
  ReplySocket(const ReplySocket&) = delete;
  ReplySocket& operator=(const ReplySocket&) = delete;

  // Returns how many bytes the socket took at once: fewer where its buffer is full, none where the
  // client has gone.
  size_t send(std::span<iovec> parts) noexcept;
  void close() noexcept;

 private:
  std::mutex mutex_;
  int descriptor_;
};

// What answers have in common that hold one array of this type and shape.
struct ReplyForm {
  std::string text;  // goes before the elements
  DType dtype;
  Shape shape;
};

class SocketReply {
 public:
  // `head` is everything up to the body, which is the form's text and the elements of `result`.
  SocketReply(std::shared_ptr<ReplySocket> socket, std::shared_ptr<const ReplyForm> form,
              std::string head)
      : socket_(std::move(socket)), form_(std::move(form)), head_(std::move(head)) {}

  // On the thread that has the answer: writes it, unless it is of another form, the loop has
  // claimed it, or a full batch may be waiting for this thread.
  void send(const Request& request) noexcept;
  // The loop will answer itself. False: the answer has been written, or is being written.
  bool claim() noexcept;
  // It has been written, but for the `rest`.
  bool is_sent() const noexcept { return state_.load(std::memory_order_acquire) == kSent; }
  // What the socket did not take. REQUIRES: is_sent().
  const std::string& rest() const noexcept { return rest_; }

 private:
  bool fits(const Tensor& result) const noexcept;

  enum State { kOpen, kClaimed, kSending, kSent };
  const std::shared_ptr<ReplySocket> socket_;
  const std::shared_ptr<const ReplyForm> form_;
  const std::string head_;
  std::string rest_;
  std::atomic<State> state_{kOpen};
};

void define_socket_reply(pybind11::module_& module);

}  // namespace hami::bind
