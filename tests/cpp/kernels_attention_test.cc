// Attention over pages and the functions of rows against plain loops in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/bits.h"
#include "kernels/paged_attention.h"

namespace hami::kernels {
namespace {

TEST_SUITE_BEGIN("kernels");

struct Case {
  Isa isa = Isa::kPortable;
  Format format = Format::kFloat32;
  int num_kv_heads = 2;
  int group = 3;
  int head_dim = 32;
  int page_size = 5;
  int num_threads = 2;
  std::vector<int> contexts, num_tokens;  // of each row
};

class Attention {
 public:
  explicit Attention(const Case& given) : c_(given) {
    std::mt19937 generator(11);
    std::normal_distribution<float> normal;
    const int num_pages =
        1 + std::accumulate(c_.contexts.begin(), c_.contexts.end(), 0,
                            [&](int sum, int context) { return sum + pages_for(context); });
    const size_t number =
        static_cast<size_t>(num_pages * c_.num_kv_heads * c_.page_size * c_.head_dim);
    for (auto* pool : {&keys_, &values_}) {
      pool->resize(number);
      for (float& value : *pool) {
        value = static_cast<float>(Bfloat16(normal(generator)));
        if (c_.format == Format::kFloat16) value = static_cast<float>(Float16(value));
      }
    }
    std::vector<int32_t> pages(static_cast<size_t>(num_pages - 1));
    std::iota(pages.begin(), pages.end(), 1);
    std::shuffle(pages.begin(), pages.end(), generator);
    for (const int context : c_.contexts) max_pages_ = std::max(max_pages_, pages_for(context));
    size_t next = 0;
    starts_.push_back(0);
    for (size_t r = 0; r < c_.contexts.size(); ++r) {
      table_.resize((r + 1) * static_cast<size_t>(max_pages_));
      for (int i = 0; i < pages_for(c_.contexts[r]); ++i) {
        table_[r * static_cast<size_t>(max_pages_) + static_cast<size_t>(i)] = pages[next++];
      }
      starts_.push_back(starts_.back() + c_.num_tokens[r]);
      lengths_.push_back(c_.contexts[r]);
      rows_.push_back(static_cast<int32_t>(r));
    }
    q_.resize(static_cast<size_t>(starts_.back()) * row_size());
    // Without loss in bfloat16, so that one tolerance serves heads of all sizes.
    for (float& value : q_) value = static_cast<float>(Bfloat16(normal(generator)));
  }

  double worst_difference() {
    AttentionShape shape{c_.num_kv_heads * c_.group, c_.num_kv_heads, c_.head_dim, c_.format,
                         0.25F};
    ThreadTeam team(c_.num_threads);
    AttentionTasks tasks(kernels_of(c_.isa), shape, c_.num_threads);
    const std::vector<int32_t> tokens(static_cast<size_t>(starts_.back()));
    StepView step;
    step.token_ids = tokens;
    step.query_starts = starts_;
    step.context_lens = lengths_;
    step.table_rows = rows_;
    step.page_table = table_;
    step.max_pages = max_pages_;
    std::vector<float> out(q_.size(), 42.0F);
    const auto keys = stored(keys_);
    const auto values = stored(values_);
    AttentionData data;
    data.q = q_.data();
    data.q_stride = data.out_stride = row_size();
    data.out = out.data();
    data.keys = keys.data();
    data.values = values.data();
    data.head_stride = static_cast<size_t>(c_.page_size * c_.head_dim);
    data.page_stride = data.head_stride * static_cast<size_t>(c_.num_kv_heads);
    data.page_size = c_.page_size;
    for (int i = 0; i < 2; ++i) {  // the second finds what the first has left in the scratch
      tasks.plan(step);
      team.run([&](Member& member) { tasks.run(member, data); });
    }
    double worst = 0;
    for (size_t row = 0; row < lengths_.size(); ++row) {
      for (int t = starts_[row]; t < starts_[row + 1]; ++t) {
        const int seen = lengths_[row] - (starts_[row + 1] - t) + 1;
        for (int h = 0; h < c_.num_kv_heads * c_.group; ++h) {
          const auto wanted = expected(row, t, h, seen);
          for (int d = 0; d < c_.head_dim; ++d) {
            const double found = double{out[place(t, h) + static_cast<size_t>(d)]};
            worst = std::max(worst, std::fabs(found - wanted[static_cast<size_t>(d)]));
          }
        }
      }
    }
    return worst;
  }

 private:
  int pages_for(int context) const { return (context + c_.page_size - 1) / c_.page_size; }
  size_t row_size() const { return static_cast<size_t>(c_.num_kv_heads * c_.group * c_.head_dim); }
  size_t place(int token, int head) const {
    return static_cast<size_t>(token) * row_size() + static_cast<size_t>(head * c_.head_dim);
  }
  std::vector<std::byte> stored(const std::vector<float>& pool) const {
    std::vector<std::byte> bytes(pool.size() * bytes_of(c_.format));
    kernels_of(c_.isa).store[static_cast<int>(c_.format)](
        pool.data(), static_cast<int>(pool.size()), bytes.data());
    return bytes;
  }
  const float* at(const std::vector<float>& pool, size_t row, int head, int position) const {
    const int page = table_[row * static_cast<size_t>(max_pages_) +
                            static_cast<size_t>(position / c_.page_size)];
    const int index =
        (page * c_.num_kv_heads + head / c_.group) * c_.page_size + position % c_.page_size;
    return pool.data() + index * c_.head_dim;
  }
  std::vector<double> expected(size_t row, int token, int head, int seen) const {
    std::vector<double> scores;
    for (int j = 0; j < seen; ++j) {
      double sum = 0;
      for (int d = 0; d < c_.head_dim; ++d) {
        sum += double{q_[place(token, head) + static_cast<size_t>(d)]} *
               double{at(keys_, row, head, j)[d]};
      }
      scores.push_back(sum / 4);
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    std::vector<double> out(static_cast<size_t>(c_.head_dim));
    double total = 0;
    for (int j = 0; j < seen; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - highest);
      total += weight;
      for (int d = 0; d < c_.head_dim; ++d) {
        out[static_cast<size_t>(d)] += weight * double{at(values_, row, head, j)[d]};
      }
    }
    for (double& value : out) value /= total;
    return out;
  }

  const Case c_;
  std::vector<float> keys_, values_, q_;
  std::vector<int32_t> table_, starts_, lengths_, rows_;
  int max_pages_ = 1;
};

// Where the processor multiplies bfloat16 itself, the weights of a chunk's values have eight bits.
double tolerance(const Case& c) {
  return c.isa == Isa::kAvx512Bf16 && c.format == Format::kBfloat16 ? 5e-3 : 2e-5;
}

void check_all(Case c) {
  for (int i = 0; i < kNumIsas; ++i) {
    c.isa = static_cast<Isa>(i);
    if (!is_supported(c.isa)) continue;
    CAPTURE(std::string(name_of(c.isa)));
    CAPTURE(std::string(name_of(c.format)));
    CAPTURE(c.head_dim);
    CAPTURE(c.group);
    CAPTURE(c.page_size);
    CHECK(Attention(c).worst_difference() < tolerance(c));
  }
}

TEST_CASE("decode rows, chunks and both together see all they may and nothing else") {
  for (const Format format : {Format::kFloat32, Format::kBfloat16, Format::kFloat16}) {
    for (const int page_size : {1, 5, 16}) {
      Case c;
      c.format = format;
      c.page_size = page_size;
      c.contexts = {1, 2, 63, 64, 65, 130, 70, 40, 200};
      c.num_tokens = {1, 1, 1, 1, 1, 1, 70, 3, 65};
      check_all(c);
    }
  }
}

TEST_CASE("heads of any size and groups of any number") {
  for (const int head_dim : {16, 48, 64, 80, 128, 256}) {
    for (const int group : {1, 2, 4, 5, 8}) {
      for (const Format format : {Format::kFloat32, Format::kBfloat16}) {
        Case c;
        c.format = format;
        c.head_dim = head_dim;
        c.group = group;
        c.contexts = {77, 90};
        c.num_tokens = {1, 50};
        check_all(c);
      }
    }
  }
}

TEST_CASE("more queries to a head than a block holds are taken one token at a time") {
  Case c;
  c.num_kv_heads = 1;
  c.group = 100;
  c.head_dim = 16;
  c.contexts = {30};
  c.num_tokens = {4};
  check_all(c);
}

TEST_CASE("a long context is cut among threads and joined") {
  for (const int threads : {1, 2, 7}) {
    Case c;
    c.num_threads = threads;
    c.contexts = {3000, 9, 800};
    c.num_tokens = {1, 1, 2};
    check_all(c);
  }
}

TEST_CASE("the exponential in the softmax is exact to a few units in the last place") {
  // one query, one head of values that are 0 or 1: the result is e^a / (e^a + e^b)
  for (int i = 0; i < kNumIsas; ++i) {
    const auto isa = static_cast<Isa>(i);
    if (!is_supported(isa)) continue;
    for (float gap = -87; gap < 87; gap += 0.37F) {
      std::vector<float> keys(32, 0.0F), values(32, 0.0F), q(16, 0.0F), out(16);
      q[0] = 1;
      keys[0] = gap;
      std::fill_n(values.begin(), 16, 1.0F);
      const int32_t page = 0;
      AttentionArgs args;
      args.q = q.data();
      args.num_tokens = args.group = 1;
      args.head_dim = 16;
      args.keys = keys.data();
      args.values = values.data();
      args.page_size = 2;
      args.pages = &page;
      args.first_position = 1;
      args.end = 2;
      args.scale = 1;
      args.out = out.data();
      kernels_of(isa).attend_few[0](args);
      const double wanted = 1 / (1 + std::exp(-double{gap}));
      CHECK(double{out[0]} == doctest::Approx(wanted).epsilon(4e-7).scale(0));
    }
  }
}

TEST_CASE("halves round to the nearest, ties to even, and keep what is no number") {
  const float numbers[16] = {0,         -0.0F, 1,         1.00390625F, 1.01171875F, 65504,
                             65519,     1e-8F, 6e-8F,     -3.14159F,   1e30F,       INFINITY,
                             -INFINITY, NAN,   0.333333F, 1.5F};
  for (int i = 0; i < kNumIsas; ++i) {
    const auto isa = static_cast<Isa>(i);
    if (!is_supported(isa)) continue;
    uint16_t bits[16];
    kernels_of(isa).store[static_cast<int>(Format::kBfloat16)](numbers, 16, bits);
    for (int n = 0; n < 16; ++n) CHECK(bits[n] == bits_of(Bfloat16(numbers[n])));
    kernels_of(isa).store[static_cast<int>(Format::kFloat16)](numbers, 16, bits);
    for (int n = 0; n < 16; ++n) CHECK(bits[n] == bits_of(Float16(numbers[n])));
  }
}

}  // namespace
}  // namespace hami::kernels
