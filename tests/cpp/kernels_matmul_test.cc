// Packed matrices and their products against sums written out, for every instruction set that this
// processor has, over sizes that are no multiples of anything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/product.h"
#include "kernels/thread_team.h"

namespace hami::kernels {
namespace {

TEST_SUITE_BEGIN("kernels");

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (int i = 0; i < kNumIsas; ++i) {
    if (is_supported(static_cast<Isa>(i))) found.push_back(static_cast<Isa>(i));
  }
  return found;
}

std::vector<float> random_floats(size_t number, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(number);
  for (float& value : floats) value = normal(generator);
  return floats;
}

struct Matrix {
  Matrix(Isa isa, Format format, int num_rows, int depth, uint32_t seed = 1)
      : weights(random_floats(static_cast<size_t>(num_rows) * static_cast<size_t>(depth), seed)),
        packed(arena, kernels_of(isa), format, num_rows, depth) {
    packed.set_rows(0, {weights.data(), Format::kFloat32, num_rows, depth});
  }
  std::vector<float> weights;
  MemoryArena arena;
  PackedMatrix packed;
};

// What a format keeps of a weight, at worst, relative to the largest of its block.
double step_of(Format format) {
  switch (format) {
    case Format::kFloat32:
      return 0;
    case Format::kBfloat16:
      return 1.0 / 256;
    case Format::kFloat16:
      return 1.0 / 2048;
    case Format::kQ8:
      return 1.0 / 250;
    case Format::kQ4:
      return 1.0 / 14;
  }
  return 0;
}

// Sums of the rounded weights, in double: the rounding of weights is none of the product's
// business.
std::vector<double> expected(const PackedMatrix& matrix, const Rows& x, int num_rows) {
  std::vector<double> out;
  std::vector<float> weights(static_cast<size_t>(matrix.padded_depth()));
  out.resize(static_cast<size_t>(num_rows) * static_cast<size_t>(matrix.num_rows()));
  for (int n = 0; n < matrix.num_rows(); ++n) {
    matrix.read_row(n, weights.data());
    for (int r = 0; r < num_rows; ++r) {
      double sum = 0;
      for (int k = 0; k < matrix.depth(); ++k) {
        sum += double{x.row(r)[k]} * double{weights[static_cast<size_t>(k)]};
      }
      out[static_cast<size_t>(r * matrix.num_rows() + n)] = sum;
    }
  }
  return out;
}

Rows random_rows(int num_rows, int depth, uint32_t seed) {
  Rows x(num_rows, depth);
  const auto floats = random_floats(static_cast<size_t>(num_rows * depth), seed);
  for (int r = 0; r < num_rows; ++r) std::copy_n(floats.data() + r * depth, depth, x.row(r));
  return x;
}

// Activations are rounded to bfloat16 by one instruction set alone.
double tolerance(const PackedMatrix& matrix) {
  const bool rounds = matrix.kernels().isa == Isa::kAvx512Bf16;
  const double size = std::sqrt(static_cast<double>(matrix.depth()));
  return size * (rounds && matrix.format() == Format::kBfloat16 ? 2e-2 : 3e-4);
}

void check_product(const PackedMatrix& matrix, int num_rows, int num_threads) {
  CAPTURE(std::string(name_of(matrix.kernels().isa)));
  CAPTURE(std::string(name_of(matrix.format())));
  CAPTURE(matrix.num_rows());
  CAPTURE(matrix.depth());
  CAPTURE(num_rows);
  CAPTURE(num_threads);
  const Rows x = random_rows(num_rows, matrix.depth(), 7);
  ThreadTeam team(num_threads);
  Workspace workspace(num_rows, matrix.depth(), num_threads);
  const size_t columns = static_cast<size_t>(matrix.num_rows());
  // One more number than a row needs: it must stay.
  std::vector<float> out(static_cast<size_t>(num_rows) * (columns + 1), 42.0F);
  Product product;
  product.matrix = &matrix;
  product.x = &x;
  product.num_rows = num_rows;
  product.out = out.data();
  product.out_stride = columns + 1;
  team.run([&](Member& member) { product.run(member, workspace); });
  const auto wanted = expected(matrix, x, num_rows);
  double worst = 0;
  for (size_t r = 0; r < static_cast<size_t>(num_rows); ++r) {
    for (size_t n = 0; n < columns; ++n) {
      worst =
          std::max(worst, std::fabs(double{out[r * (columns + 1) + n]} - wanted[r * columns + n]));
    }
    CHECK(out[r * (columns + 1) + columns] == 42.0F);
  }
  CHECK(worst < tolerance(matrix));
}

TEST_CASE("a packed matrix keeps its weights as well as its format can") {
  for (const Isa isa : isas()) {
    for (int f = 0; f < kNumFormats; ++f) {
      const auto format = static_cast<Format>(f);
      const Matrix matrix(isa, format, 37, 70);
      std::vector<float> row(96);
      double worst = 0;
      for (int n = 0; n < 37; ++n) {
        matrix.packed.read_row(n, row.data());
        for (int k = 0; k < 70; ++k) {
          const double given = double{matrix.weights[static_cast<size_t>(n * 70 + k)]};
          worst = std::max(worst, std::fabs(given - double{row[static_cast<size_t>(k)]}));
        }
      }
      CAPTURE(std::string(name_of(format)));
      CHECK(worst <= step_of(format) * 4.5);  // the largest of a few thousand normal numbers
      CHECK((worst == 0) == (format == Format::kFloat32));
    }
  }
}

TEST_CASE("products of any shape, for any number of rows, are the sums written out") {
  for (const Isa isa : isas()) {
    for (int f = 0; f < kNumFormats; ++f) {
      const auto format = static_cast<Format>(f);
      for (const auto& [n, k] : {std::pair{1, 1}, {7, 31}, {16, 32}, {33, 65}, {100, 96}}) {
        const Matrix matrix(isa, format, n, k);
        for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 25, 40}) {
          check_product(matrix.packed, rows, 1);
        }
      }
    }
  }
}

TEST_CASE("threads share a product whatever their number") {
  const Matrix matrix(best_isa(), Format::kBfloat16, 130, 200);
  for (const int threads : {2, 3, 8}) {
    for (const int rows : {1, 5, 130}) check_product(matrix.packed, rows, threads);
  }
}

TEST_CASE("a product adds to what is there, or adds a bias, or norms its rows first") {
  for (const Isa isa : isas()) {
    for (const Format format : {Format::kFloat32, Format::kQ8}) {
      for (const int num_rows : {3, 9}) {
        const Matrix matrix(isa, format, 21, 40);
        Rows x = random_rows(num_rows, 40, 3);
        ThreadTeam team(2);
        Workspace workspace(num_rows, 40, 2);
        std::vector<float> bias(64, 0.0F);
        for (size_t i = 0; i < 21; ++i) bias[i] = static_cast<float>(i);
        const std::vector<float> norm(40, 2.0F);
        Rows out(num_rows, 21);
        Product product{&matrix.packed, &x, num_rows, out.row(0), out.stride};
        product.bias = bias.data();
        product.norm_weight = norm.data();
        team.run([&](Member& member) {
          product.run(member, workspace);
          Product again = product;
          again.bias = nullptr;
          again.epilogue = Epilogue::kAdd;
          again.run(member, workspace);
        });
        Rows normed(num_rows, 40);
        for (int r = 0; r < num_rows; ++r) {
          double squares = 0;
          for (int k = 0; k < 40; ++k) squares += double{x.row(r)[k]} * double{x.row(r)[k]};
          for (int k = 0; k < 40; ++k) {
            normed.row(r)[k] =
                static_cast<float>(2 * double{x.row(r)[k]} / std::sqrt(squares / 40));
          }
        }
        const auto wanted = expected(matrix.packed, normed, num_rows);
        for (int r = 0; r < num_rows; ++r) {
          for (int n = 0; n < 21; ++n) {
            const double found = double{out.row(r)[n]};
            CHECK(found == doctest::Approx(2 * wanted[static_cast<size_t>(r * 21 + n)] + n)
                               .epsilon(1e-3)
                               .scale(10));
          }
          CHECK(out.row(r)[21] == 0);  // padding stays zero
        }
      }
    }
  }
}

TEST_CASE("a pair of matrices gives the gated product") {
  for (const Isa isa : isas()) {
    for (const Format format : {Format::kFloat32, Format::kBfloat16, Format::kQ4}) {
      const int n = 35;
      const int k = 64;
      Matrix gate(isa, format, n, k, 1);
      Matrix up(isa, format, n, k, 2);
      MemoryArena arena;
      PackedMatrix pair(arena, kernels_of(isa), format, n, k, true);
      pair.set_rows(0, {gate.weights.data(), Format::kFloat32, n, k}, 0);
      pair.set_rows(0, {up.weights.data(), Format::kFloat32, n, k}, 1);
      const Rows x = random_rows(9, k, 5);
      Rows out(9, n);
      ThreadTeam team(1);
      Workspace workspace(9, k, 1);
      const Product product{&pair, &x, 9, out.row(0), out.stride, Epilogue::kSiluMul};
      team.run([&](Member& member) { product.run(member, workspace); });
      const auto a = expected(gate.packed, x, 9);
      const auto b = expected(up.packed, x, 9);
      const bool rounds = isa == Isa::kAvx512Bf16 && format == Format::kBfloat16;
      for (int i = 0; i < 9 * n; ++i) {
        const size_t at = static_cast<size_t>(i);
        const double wanted = a[at] / (1 + std::exp(-a[at])) * b[at];
        CHECK(double{out.row(i / n)[i % n]} ==
              doctest::Approx(wanted).epsilon(rounds ? 0.03 : 1e-3).scale(20));
      }
    }
  }
}

TEST_CASE("what is not a number stays in its row") {
  for (const Isa isa : isas()) {
    for (int f = 0; f < kNumFormats; ++f) {
      const Matrix matrix(isa, static_cast<Format>(f), 20, 64);
      Rows x = random_rows(8, 64, 1);
      x.row(3)[33] = std::nanf("");
      Rows out(8, 20);
      ThreadTeam team(2);
      Workspace workspace(8, 64, 2);
      const Product product{&matrix.packed, &x, 8, out.row(0), out.stride};
      team.run([&](Member& member) { product.run(member, workspace); });
      for (int r = 0; r < 8; ++r) {
        for (int n = 0; n < 20; ++n) CHECK(std::isnan(out.row(r)[n]) == (r == 3));
      }
    }
  }
}

}  // namespace
}  // namespace hami::kernels
