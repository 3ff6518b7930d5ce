// `ExpressForm`: what is known of all requests with the same HTTP head and, for tensors, the same
// JSON at the beginning of their body: the request in the pipeline, and the form of the answer that
// the last of them had. Such requests go the express way: from their connection into the pipeline
// and back without a function of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bind/bounded_tally.h"
#include "bind/gil.h"
#include "bind/http_head.h"
#include "bind/socket_reply.h"
#include "graph/pipeline_target.h"

namespace hami::bind {

class ExpressForm {
 public:
  struct Known {
    std::string head;                       // as `read_head` leaves it
    std::string text;                       // the beginning of the body
    size_t num_data_bytes;                  // behind the text
    std::optional<ReplyForm::Array> array;  // of the data; without it they are bytes
    std::optional<int> only_node;
    std::shared_ptr<const ReplyForm> reply;
    std::shared_ptr<BoundedTally> seconds;  // of those that were answered
  };

  // `keys`: the dict for the pipeline, with the `data` of any of the requests; `keys_of` makes one
  // of the bytes behind the text, where backends of Python read the whole dict. `path` is for
  // the log. Throws Error for a dict that is none for the pipeline.
  ExpressForm(std::shared_ptr<Pipeline> pipeline, Known known, PyObject* keys, PyObject* keys_of,
              PyObject* path);

  // What is new in a request of this form.
  struct Match {
    std::string_view data;
    std::string_view id;  // empty where the client gave none
  };
  std::optional<Match> match(std::string_view request) const noexcept;
  // The request in the pipeline. Throws Error, and what `keys_of` raises. REQUIRES: the GIL.
  Ref<Request> request_of(std::string_view data) const;
  // The dict as it is after the request: a new reference. REQUIRES: answered without an error; the
  // GIL. Throws a Python error.
  PyObject* finished(Request& request) const;

  const Known& known() const noexcept { return known_; }
  PyObject* path() const noexcept { return path_->get(); }

 private:
  Value data_of(std::string_view data) const;

  const std::shared_ptr<Pipeline> pipeline_;
  const Known known_;
  const Ref<PyHandle> keys_;
  const Ref<PyHandle> keys_of_;
  const Ref<PyHandle> path_;
  LoadSample sample_;  // without `data`
  bool reads_data_ = false;
};

void define_express_form(pybind11::module_& module);

}  // namespace hami::bind
