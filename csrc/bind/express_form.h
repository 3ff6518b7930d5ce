// `ExpressForm`: what is known of all requests that begin with the same bytes, their HTTP head and,
// for tensors, the JSON of their body: the request in the pipeline, and the form of the answer that
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
#include "bind/socket_reply.h"
#include "graph/pipeline_target.h"

namespace hami::bind {

class ExpressForm {
 public:
  struct Known {
    std::string beginning;
    size_t num_bytes;                       // of the whole request
    std::optional<ReplyForm::Array> array;  // behind the beginning; without it `data` is bytes
    std::optional<int> only_node;
    std::string id;  // that of the client; empty: each gets a new one
    std::shared_ptr<const ReplyForm> reply;
    std::shared_ptr<BoundedTally> seconds;  // of those that were answered
  };

  // `keys`: the dict for the pipeline, with the `data` of any of the requests; `keys_of` makes one
  // of the bytes behind the beginning, where backends of Python read the whole dict. `path` is for
  // the log. Throws Error for a dict that is none for the pipeline.
  ExpressForm(std::shared_ptr<Pipeline> pipeline, Known known, PyObject* keys, PyObject* keys_of,
              PyObject* path);

  bool matches(std::string_view data) const noexcept {
    return data.size() == known_.num_bytes && data.starts_with(known_.beginning);
  }
  // The request that `data` is. Throws Error, and what `keys_of` raises. REQUIRES: it matches; the
  // GIL.
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
