// `ExpressDesk`: what the requests on the express way of one server have in common: the headers of
// this second, which of them run, and for how long. Belongs to the thread of the event loop, which
// holds the GIL, unless it says otherwise.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "bind/gil.h"
#include "core/event.h"

namespace hami::bind {

class ExpressAnswer;

class ExpressDesk {
 public:
  // `log(path, num_body_bytes, seconds, id)` is called for each answer, `on_idle()` when the last
  // one that ran has ended after `drain`.
  ExpressDesk(const pybind11::function& log, const pybind11::function& on_idle)
      : log_(hold(log.ptr())), on_idle_(hold(on_idle.ptr())) {}

  // The lines of all answers, from now on.
  void set_common_headers(const std::string& lines) {
    common_ = std::make_shared<const std::string>("HTTP/1.1 200 OK\r\n" + lines);
  }
  const std::shared_ptr<const std::string>& common() const noexcept { return common_; }
  std::string new_id() noexcept;

  // Takes no further requests.
  void drain() noexcept { is_draining_ = true; }
  bool is_draining() const noexcept { return is_draining_; }

  // Those that run, in the order in which they began.
  using Running = std::list<ExpressAnswer*>;
  // Throws std::bad_alloc.
  Running::iterator add(ExpressAnswer& answer);
  void remove(Running::iterator place) noexcept;
  void log(PyObject* path, size_t num_body_bytes, double seconds, const std::string& id) noexcept;

  // Any thread.
  int64_t num_running() const noexcept { return num_running_.load(std::memory_order_relaxed); }
  // When the oldest of those that run began, in seconds of the steady clock.
  std::optional<double> oldest_start_s() const;
  // The owners of the connections of those that began before.
  pybind11::list begun_before(double start_s) const;

 private:
  const Ref<PyHandle> log_;
  const Ref<PyHandle> on_idle_;
  std::shared_ptr<const std::string> common_ =
      std::make_shared<const std::string>("HTTP/1.1 200 OK\r\n");
  Running running_;
  std::atomic<int64_t> num_running_{0};
  bool is_draining_ = false;
  const uint64_t seed_ = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  uint64_t num_ids_ = 0;
};

double to_seconds(TimePoint time) noexcept;

void define_express_desk(pybind11::module_& module);

}  // namespace hami::bind
