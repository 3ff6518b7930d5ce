// `PluginBackend`: one instance of a class that a plugin declares. The plugin's functions run
// without the GIL and never on a caller's thread, so that they may block and compute as they like.
#pragma once

#include <hami/abi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "plan/build.h"

namespace hami::plugin {

// A member of a table that may come from an older plugin, whose tables end earlier: zero then.
#define HAMI_MEMBER(table, member)                                                       \
  (::hami::plugin::covers(table, offsetof(std::remove_cvref_t<decltype(table)>, member), \
                          sizeof((table).member))                                        \
       ? (table).member                                                                  \
       : decltype((table).member){})

template <class Table>
bool covers(const Table& table, size_t offset, size_t size) noexcept {
  return table.size >= offset + size;
}

class PluginBackend final : public Backend {
 public:
  // `declared` lives as long as the process. Throws a build error with what the plugin says.
  PluginBackend(Build& build, const hami_backend_class& declared);
  ~PluginBackend() override;

  void forward(Batch batch) override;
  BatchRange batch_range() const override { return range_; }
  Traits traits() const override;
  void collect_reads(std::vector<Key>& reads) const override;
  int container_depth() const override;

 private:
  BatchRange read_range() const;

  const hami_backend_class& declared_;
  const std::string node_;
  const int instance_;
  void* object_ = nullptr;
  BatchRange range_;
  std::vector<Key> reads_;
};

}  // namespace hami::plugin
