#include "plugin/plugin_backend.h"

#include <new>
#include <utility>

#include "core/error.h"
#include "plugin/call.h"
#include "plugin/values.h"

namespace hami::plugin {
namespace {

[[noreturn]] void refuse_build(const hami_backend_class& declared, Call& call, hami_status status) {
  if (status == HAMI_NO_MEMORY) throw std::bad_alloc();
  if (call.message.empty()) {
    call.message = "it failed with status " + std::to_string(status) + " and did not say why";
  }
  throw Error(ErrorKind::kBuild, "plugin-init",
              backticked(declared.name) + " cannot be made: " + call.message,
              call.help.empty() ? "look at the `init` of this backend" : call.help);
}

[[noreturn]] void refuse_count(const Call& call) {
  throw Error(ErrorKind::kRequest, "backend-result-count",
              "`forward` got " + std::to_string(call.items.size()) + " items and gave " +
                  std::to_string(*call.num_results) + " results",
              "give one result for each item, or set `result` of each",
              "node " + backticked(call.node));
}

}  // namespace

PluginBackend::PluginBackend(Build& build, const hami_backend_class& declared)
    : declared_(declared), node_(build.node_name()), instance_(build.instance_index()) {
  const auto* keys = HAMI_MEMBER(declared_, reads);
  for (uint64_t i = 0; i < HAMI_MEMBER(declared_, num_reads); ++i) {
    reads_.push_back(Key::intern(keys[i]));
  }
  if (reads_.empty()) reads_.push_back(keys::data);
  Call call{.node = node_, .instance = instance_};
  const auto* params = reinterpret_cast<const hami_dict*>(&build.params().values());
  const hami_status status = declared_.create(declared_.context, call.handle(), params, &object_);
  if (status != HAMI_OK) refuse_build(declared_, call, status);
  try {
    range_ = read_range();
  } catch (...) {
    declared_.destroy(object_);
    throw;
  }
}

PluginBackend::~PluginBackend() { declared_.destroy(object_); }

BatchRange PluginBackend::read_range() const {
  const auto ask = HAMI_MEMBER(declared_, batch_range);
  BatchRange range;
  if (ask == nullptr) return range;
  Call call{.node = node_, .instance = instance_};
  const hami_status status = ask(object_, call.handle(), &range.min, &range.max);
  if (status != HAMI_OK) refuse_build(declared_, call, status);
  if (range.min < 1 || range.is_empty()) {
    throw Error(ErrorKind::kBuild, "build-trait",
                "the batch range of " + backticked(declared_.name) + " is " +
                    backticked(std::to_string(range.min)) + " to " +
                    backticked(std::to_string(range.max)) + " rows",
                "give a range of at least one row, the smaller number first");
  }
  return range;
}

void PluginBackend::forward(Batch batch) {
  Call call{.node = node_, .instance = instance_, .items = batch};
  const hami_status status = declared_.forward(object_, call.handle());
  if (status == HAMI_NO_MEMORY) throw std::bad_alloc();
  if (call.num_results && *call.num_results != batch.size()) refuse_count(call);
  if (status != HAMI_OK) {
    std::rethrow_exception(
        error_of_run(call.is_request, std::move(call.message), std::move(call.help)));
  }
}

Traits PluginBackend::traits() const {
  const uint64_t declared = HAMI_MEMBER(declared_, traits);
  return {.is_reentrant = (declared & HAMI_REENTRANT) != 0,
          .is_idempotent = (declared & HAMI_NOT_IDEMPOTENT) == 0};
}

void PluginBackend::collect_reads(std::vector<Key>& reads) const {
  reads.insert(reads.end(), reads_.begin(), reads_.end());
}

int PluginBackend::container_depth() const { return HAMI_MEMBER(declared_, container_depth); }

}  // namespace hami::plugin
