// What a node did since it was built: counted by its dispatcher, read by `pipe.stats()`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/latency_histogram.h"
#include "core/profiled.h"

namespace hami {

struct NodeStats {
  std::string node;
  int64_t num_waiting = 0;
  int64_t num_items = 0;
  int64_t num_errors = 0;
  int64_t num_dropped = 0;  // answered before they could start
  int64_t num_instances = 0;
  int64_t num_busy = 0;                     // instances that run a batch now
  int64_t num_hung = 0;                     // those that have run it for too long
  std::map<int64_t, int64_t> batch_rows;    // rows of a run -> number of runs
  std::map<std::string, int64_t> releases;  // why a batch ran -> number of batches
  Percentiles wait;                         // of items, in the queue
  Percentiles run;                          // of batches, inside the backend
  std::vector<RunFigures> profiles;         // of its parts inside `Profile[...]`
  Figures backend;                          // what its instances tell, added up
};

}  // namespace hami
