// `Restart`: sends a request back to an earlier node as long as the request asks for it, under the
// key `restart`; otherwise it is a pass-through. The rounds of each request are bounded.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/control_operator.h"
#include "plan/build.h"

namespace hami {

// A node from which all ways lead to the Restart, so that a request can begin there anew.
struct RestartTarget {
  // A node that runs again, and how many of its predecessors do as well.
  struct Repeated {
    int node;
    int num_predecessors;
  };
  int node = 0;
  std::vector<Repeated> repeated;  // the Restart itself is one of them
};

using RestartTargets = std::map<std::string, RestartTarget, std::less<>>;

// The targets, by name, of the Restart at this node of the plan.
RestartTargets find_restart_targets(const Plan& plan, int restart);

class Restart final : public ControlOperator {
 public:
  explicit Restart(Build& build)
      : node_name_(build.node_name()), max_rounds_(build.params().get_int("max_rounds")) {}

  // Set once the graph is known. `first` is where a bare `restart = true` leads, -1 where the
  // request must say a name.
  void set_targets(RestartTargets targets, int first);

  void start_one(Task& task) override;
  void collect_reads(std::vector<Key>& reads) const override { reads.push_back(keys::restart); }

 private:
  const RestartTarget& find_target(const Value& wish) const;
  std::string names_of_targets() const;

  const std::string node_name_;
  const int64_t max_rounds_;
  RestartTargets targets_;
  const RestartTarget* first_ = nullptr;
};

}  // namespace hami
