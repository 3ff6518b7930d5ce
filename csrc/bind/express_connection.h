// `ExpressConnection`: one connection whose requests go the express way; and `ExpressAnswer`, one
// request on that way. The connection belongs to the thread of the event loop, which holds the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string_view>

#include "bind/answers.h"
#include "bind/express_desk.h"
#include "bind/express_form.h"
#include "bind/socket_reply.h"

namespace hami::bind {

class ExpressConnection;

class ExpressAnswer final : public QueuedAnswer {
 public:
  ExpressAnswer(std::shared_ptr<ExpressConnection> connection,
                std::shared_ptr<const ExpressForm> form, std::string id);

  // Any thread: writes the answer, and lets the loop know.
  void on_answered(Request& request) noexcept override;
  void deliver(Request& request) noexcept override;

  SocketReply& reply() noexcept { return reply_; }
  const SocketReply& reply() const noexcept { return reply_; }
  TimePoint start() const noexcept { return start_; }
  // Whose connection it is, borrowed; null when nobody owns it any more.
  PyObject* owner() const noexcept;
  // Leaves the list of those that run, once.
  void leave_desk() noexcept;

 private:
  friend class ExpressConnection;

  std::shared_ptr<ExpressConnection> connection_;
  std::shared_ptr<const ExpressForm> form_;
  const TimePoint start_ = Clock::now();
  bool has_run_in_place_ = false;
  SocketReply reply_;
  std::optional<ExpressDesk::Running::iterator> place_;  // among those that run
};

class ExpressConnection : public std::enable_shared_from_this<ExpressConnection> {
 public:
  // What became of the bytes that have come.
  enum class Taken { kNo, kYes, kFirst };

  // `owner` has a method `express_ended(error, finished, rest, id, start_s)`, which is called for
  // answers that are not all written: an error, a result of another form, what the socket has not
  // taken; and for all others after `watch`. Throws the Python error OSError where no descriptor is
  // left.
  ExpressConnection(std::shared_ptr<ExpressDesk> desk, std::shared_ptr<AnswerQueue> queue,
                    int descriptor, PyObject* owner);

  // Begins the request that `data` is; kFirst: no other one runs. kNo: `data` is not the same
  // request as before with other numbers, something else has come meanwhile, or one runs.
  Taken begin(const pybind11::bytes& data);
  // The same for a first request of this form. REQUIRES: nothing runs on the connection, and all
  // that was written before has left it.
  Taken begin_with(std::shared_ptr<ExpressForm> form, const pybind11::bytes& data);
  bool is_running() const noexcept { return current_ != nullptr; }
  // When the last answer was seen, in seconds of the steady clock; 0 before the first.
  double idle_since_s() const noexcept { return idle_since_s_; }
  // The owner wants to hear of the end of the request that runs, whatever it is.
  void watch() noexcept { is_watched_ = true; }
  // Takes the request that runs out of the pipeline: somebody else answers, or nobody. Returns its
  // id and when it began, or None if its answer is on its way.
  pybind11::object take();
  // Forgets the owner, and closes the second descriptor of the socket.
  void close();

 private:
  friend class ExpressAnswer;

  Taken start(const ExpressForm::Match& match);
  // Whether the one that runs has its answer, and nobody need be told.
  bool settle() noexcept;
  void note_end() noexcept;
  // The request that ran has ended. Tells the owner of what is not all written.
  void end(const ExpressAnswer& answer, PyObject* error, PyObject* finished) noexcept;

  const std::shared_ptr<ExpressDesk> desk_;
  const std::shared_ptr<AnswerQueue> queue_;
  const std::shared_ptr<ReplySocket> socket_;
  Ref<PyHandle> owner_;  // null once closed
  std::shared_ptr<const ExpressForm> form_;
  std::shared_ptr<ExpressAnswer> current_;
  Ref<Request> request_;  // of `current_`
  bool is_watched_ = false;
  // Nothing has come or gone since the last request but requests on this way.
  bool is_ready_ = false;
  double idle_since_s_ = 0;
};

// All classes of the express way.
void define_express(pybind11::module_& module);

}  // namespace hami::bind
