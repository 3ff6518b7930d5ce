// `SocketReply`: the answer to one HTTP request, written into its connection by the thread that has
// it, so that the event loop reads the next requests meanwhile. What is not of the expected form is
// left to the loop, and so is what the socket does not take at once.
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

// What answers of one kind have in common: their result is one array of this type and shape, or
// bytes.
struct ReplyForm {
  struct Array {
    DType dtype;
    Shape shape;
  };

  std::string headers;  // with their line ends, but without the length
  std::string text;     // goes before the elements
  std::optional<Array> array;

  // The bytes behind the text; nothing when the result is of another form.
  std::optional<std::string_view> elements_of(const Request& request) const noexcept;
};

class SocketReply {
 public:
  // `common` are the status line and the headers of all answers, with their line ends.
  SocketReply(std::shared_ptr<ReplySocket> socket, std::shared_ptr<const std::string> common,
              std::shared_ptr<const ReplyForm> form, std::string id)
      : socket_(std::move(socket)),
        common_(std::move(common)),
        form_(std::move(form)),
        id_(std::move(id)) {}

  // On the thread that has the answer: sends it, unless a full batch may be waiting for this
  // thread.
  void send_unless_busy(const Request& request) noexcept;
  // Writes the answer, unless it is an error, it is of another form, or it has been claimed.
  void send(const Request& request) noexcept;
  // There will be another answer. False: this one has been written, or is being written.
  bool claim() noexcept;
  // It has been written, but for the `rest`.
  bool is_sent() const noexcept { return state_.load(std::memory_order_acquire) == kSent; }
  // The same; waits for the moment that a thread needs which is writing it now.
  bool is_sent_soon() const noexcept;
  // What the socket did not take. REQUIRES: is_sent().
  const std::string& rest() const noexcept { return rest_; }
  // REQUIRES: is_sent().
  size_t num_body_bytes() const noexcept { return num_body_bytes_; }
  const std::string& id() const noexcept { return id_; }

 private:
  enum State { kOpen, kClaimed, kSending, kSent };
  const std::shared_ptr<ReplySocket> socket_;
  const std::shared_ptr<const std::string> common_;
  const std::shared_ptr<const ReplyForm> form_;
  const std::string id_;
  size_t num_body_bytes_ = 0;
  std::string rest_;
  std::atomic<State> state_{kOpen};
};

// Throws the Python error ValueError where no type of elements has that name.
ReplyForm::Array array_of(const std::string& dtype, Shape shape);

void define_reply_form(pybind11::module_& module);

}  // namespace hami::bind
