#include "schedule/refusal.h"

#include "core/error.h"

namespace hami::refusal {
namespace {

std::exception_ptr make(ErrorKind kind, const char* code, const std::string& message,
                        const char* help, const std::string& node) {
  return std::make_exception_ptr(Error(kind, code, message, help, "node " + backticked(node)));
}

}  // namespace

std::exception_ptr closed(const std::string& node) {
  return make(ErrorKind::kClosed, "closed", "the pipeline was closed before this request had ended",
              "create a new pipeline with `hami.pipe(...)`", node);
}

std::exception_ptr too_large(const std::string& node, int64_t num_rows, int64_t max_rows) {
  return make(ErrorKind::kRequest, "request-too-large",
              "a request of " + std::to_string(num_rows) +
                  " rows is above `max` = " + std::to_string(max_rows) + " of every instance",
              "split the request or raise `max`", node);
}

std::exception_ptr hung(const std::string& node, int instance, double after_ms) {
  return std::make_exception_ptr(
      Error(ErrorKind::kDeadlineExceeded, "instance-hung",
            "instance " + std::to_string(instance) + " of node " + backticked(node) +
                " has not come back from its backend for " +
                backticked(std::to_string(static_cast<int64_t>(after_ms))) + " ms",
            "find out where it hangs, or raise `hung_after_ms`"));
}

std::exception_ptr too_small(const std::string& node) {
  return make(ErrorKind::kRequest, "request-too-small",
              "no company came, and fewer rows than `min` of every instance cannot run",
              "lower `min`, or raise `batching_timeout`", node);
}

}  // namespace hami::refusal
