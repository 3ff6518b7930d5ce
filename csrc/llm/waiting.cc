#include "llm/waiting.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace hami::llm {
namespace {

using Line = std::set<Sequence*, RunsBefore>;

class OneLine final : public Waiting {
 public:
  void push(Sequence& sequence) override { line_.insert(&sequence); }
  void erase(Sequence& sequence) override { line_.erase(&sequence); }
  Sequence* first() override { return line_.empty() ? nullptr : *line_.begin(); }
  size_t size() const noexcept override { return line_.size(); }

 private:
  Line line_;
};

// A line for each user; the user who has had least comes first (virtual token counters). Somebody
// who was away starts level with those who are there.
class FairWaiting final : public Waiting {
 public:
  void push(Sequence& sequence) override {
    User& user = user_of(sequence);
    if (user.line.empty()) waiting_.push_back(&user);
    user.line.insert(&sequence);
    ++size_;
  }

  void erase(Sequence& sequence) override {
    User& user = user_of(sequence);
    size_ -= user.line.erase(&sequence);
    if (user.line.empty()) std::erase(waiting_, &user);
  }

  Sequence* first() override {
    const User* chosen = nullptr;
    for (const User* user : waiting_) {
      if (chosen == nullptr || is_before(*user, *chosen)) chosen = user;
    }
    return chosen == nullptr ? nullptr : *chosen->line.begin();
  }

  size_t size() const noexcept override { return size_; }

  Account* join(std::string_view name) override {
    User& user = users_[std::string(name)];
    if (user.num_live++ == 0) {
      num_idle_ -= user.is_idle ? 1 : 0;
      user.is_idle = false;
      user.served = std::max(user.served, least_served(&user));
    }
    return &user;
  }

  void leave(Account* account) override {
    auto& user = static_cast<User&>(*account);
    if (--user.num_live > 0) return;
    user.is_idle = true;
    if (++num_idle_ <= kMostIdle) return;
    std::erase_if(users_, [](const auto& entry) { return entry.second.is_idle; });
    num_idle_ = 0;
  }

 private:
  // What somebody has had is forgotten when that many are away.
  static constexpr int32_t kMostIdle = 1024;

  struct User : Account {
    Line line;
    bool is_idle = false;
  };

  static User& user_of(Sequence& sequence) {
    return static_cast<User&>(*sequence.request->account);
  }

  static bool is_before(const User& a, const User& b) {
    const Sequence& first = **a.line.begin();
    const Sequence& second = **b.line.begin();
    const auto rank = [](const User& user, const Sequence& sequence) {
      return user.served + static_cast<double>(sequence.request->arrival_step);
    };
    const double of_first = rank(a, first);
    const double of_second = rank(b, second);
    return of_first < of_second || (of_first == of_second && hami::llm::is_before(first, second));
  }

  double least_served(const User* except) const {
    double least = 0;
    bool is_first = true;
    for (const auto& [name, user] : users_) {
      if (user.num_live == 0 || &user == except) continue;
      least = is_first ? user.served : std::min(least, user.served);
      is_first = false;
    }
    return least;
  }

  std::unordered_map<std::string, User> users_;
  std::vector<User*> waiting_;
  size_t size_ = 0;
  int32_t num_idle_ = 0;
};

}  // namespace

Account* Waiting::join(std::string_view) { return nullptr; }

void Waiting::leave(Account*) {}

std::unique_ptr<Waiting> make_waiting(Policy policy) {
  if (policy == Policy::kFair) return std::make_unique<FairWaiting>();
  return std::make_unique<OneLine>();
}

double key_of(const Settings& settings, const Request& request, int32_t expected_tokens) {
  const auto now = static_cast<double>(request.arrival_step);
  switch (settings.policy) {
    case Policy::kPriority:
      return now / settings.ageing_steps - static_cast<double>(request.priority);
    case Policy::kShortest:
      return now + (expected_tokens > 0 ? expected_tokens : request.max_tokens);
    case Policy::kFcfs:
    case Policy::kFair:
    case Policy::kPrefillFirst:
    case Policy::kCustom:
      break;
  }
  return 0;
}

}  // namespace hami::llm
