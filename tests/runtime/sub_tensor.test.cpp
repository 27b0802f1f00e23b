// SPDX-License-Identifier: Apache-2.0
// Tensors that are parts of larger ones: the same bits as of dense ones, and nothing else touched.
#include "runtime/sub_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/layer.hpp"

using namespace megaconv;

namespace {

struct alignas(Plan::kAlignment) Line {
  std::byte bytes[Plan::kAlignment];
};

using Bytes = std::vector<std::byte>;

Bytes stored(const std::vector<float>& numbers, DataType dtype) {
  Bytes bytes(numbers.size() * size_of(dtype));
  with_storage(dtype, [&](auto number) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto value = from_float<decltype(number)>(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
    }
  });
  return bytes;
}

// A tensor inside of a larger one whose other elements are NaN, or -1.
struct Part {
  Part(Layout layout, DataType dtype, const TensorExtents& e, std::mt19937& random)
      : extents(e), size(size_of(dtype)) {
    const auto some = [&] { return static_cast<std::int64_t>(random() % 5); };
    const std::int64_t c0 = some(), h0 = some(), w0 = some();
    const std::int64_t c = c0 + e[1] + some(), h = h0 + e[2] + some(), w = w0 + e[3] + some();
    strides = layout == Layout::nhwc ? TensorStrides{c * h * w, 1, w * c, c}
                                     : TensorStrides{c * h * w, h * w, w, 1};
    first = c0 * strides.c + h0 * strides.h + w0 * strides.w;
    whole.assign(static_cast<std::size_t>(e[0] * c * h * w) * size, std::byte{0xff});
  }
  std::byte* data() { return whole.data() + first * static_cast<std::int64_t>(size); }

  // body(place in a dense tensor, place in the whole one), in bytes.
  template <class Body>
  void for_each(Layout layout, const Body& body) const {
    const TensorStrides dense = resolve_strides("y", {}, layout, extents);
    for (std::int64_t n = 0; n < extents[0]; ++n) {
      for (std::int64_t c = 0; c < extents[1]; ++c) {
        for (std::int64_t h = 0; h < extents[2]; ++h) {
          for (std::int64_t w = 0; w < extents[3]; ++w) {
            const auto at = [&](const TensorStrides& s) {
              return static_cast<std::size_t>(n * s.n + c * s.c + h * s.h + w * s.w) * size;
            };
            body(at(dense), at(strides) + static_cast<std::size_t>(first) * size);
          }
        }
      }
    }
  }
  void fill(Layout layout, const Bytes& dense) {
    for_each(layout, [&](std::size_t from, std::size_t to) {
      std::memcpy(whole.data() + to, dense.data() + from, size);
    });
  }
  // The part as a dense tensor; poison in its place, so that the rest can be looked at.
  Bytes take(Layout layout, std::size_t bytes) {
    Bytes dense(bytes);
    for_each(layout, [&](std::size_t to, std::size_t from) {
      std::memcpy(dense.data() + to, whole.data() + from, size);
      std::memset(whole.data() + from, 0xff, size);
    });
    return dense;
  }
  bool rest_is_untouched() const {
    return std::all_of(whole.begin(), whole.end(),
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

  TensorExtents extents;
  std::size_t size;
  TensorStrides strides;
  std::int64_t first;
  Bytes whole;
};

struct Case {
  Case(const std::string& text, Algorithm algorithm)
      : problem(parse_problem(text)),
        layer(problem, problem.dtype == DataType::i8),
        x(stored(layer.x, problem.dtype)),
        w(stored(layer.w, problem.dtype)),
        bias(stored(layer.bias, problem.vector_type())),
        residual(stored(layer.residual, problem.dtype)),
        plan(Plan::create(problem, options_of(algorithm))),
        workspace(plan.workspace_bytes() / sizeof(Line)),
        y(residual.size()) {
    execute(tensors());
  }
  static PlanOptions options_of(Algorithm algorithm) {
    PlanOptions options;
    options.source = PlanSource::heuristic;
    options.tiling.algorithm = algorithm;
    options.num_threads = 2;
    return options;
  }
  Tensors tensors() {
    Tensors t{.x = x.data(), .w = w.data(), .y = y.data()};
    if (problem.epilogue.bias) t.bias = bias.data();
    if (problem.epilogue.residual) t.residual = residual.data();
    return t;
  }
  void execute(const Tensors& t) { plan.execute(t, workspace.data(), plan.workspace_bytes()); }
  TensorExtents x_extents() const { return {problem.n, problem.c, problem.h, problem.w}; }
  TensorExtents y_extents() const { return {problem.n, problem.k, problem.p(), problem.q()}; }

  ConvProblem problem;
  test::Layer layer;
  Bytes x, w, bias, residual;
  Plan plan;
  std::vector<Line> workspace;
  Bytes y;
};

void check_parts(const std::string& text, Algorithm algorithm, std::mt19937& random) {
  CAPTURE(text, to_string(algorithm));
  Case dense(text, algorithm);
  const ConvProblem& problem = dense.problem;
  Part x(problem.layout, problem.dtype, dense.x_extents(), random);
  Part y(problem.layout, problem.dtype, dense.y_extents(), random);
  x.fill(problem.layout, dense.x);
  Tensors tensors = dense.tensors();
  tensors.x = x.data();
  tensors.x_strides = x.strides;
  tensors.y = y.data();
  tensors.y_strides = y.strides;
  if (problem.epilogue.residual) {  // over y
    y.fill(problem.layout, dense.residual);
    tensors.residual = y.data();
  }
  dense.execute(tensors);
  CHECK(y.take(problem.layout, dense.y.size()) == dense.y);
  CHECK(y.rest_is_untouched());
}

}  // namespace

TEST_CASE("parts of larger tensors give the bits of dense ones, and the rest stays as it was") {
  std::mt19937 random(1);
  for (const char* const sizes :
       {"n2c20h17w11k37", "n1c3h23k16r7s7p3u2", "n2c32h9w14k48r1s1p0", "n3c24h8w7k24r1s1p0u2",
        "n2c16h12w15k16r3s3p1g16", "n1c32h11w10k64r3s3p2d2", "n2c64h7k24r5s5p2g2", "n1c1h1w9k5",
        "n2c40h6w1k17r1s1p0", "n1c19h13w13k19r3s3p1u2g19"}) {
    for (const char* const layout : {"+nchw", "+nhwc"}) {
      for (const char* const dtype : {"+f32", "+f16", "+i8"}) {
        for (const char* const epilogue : {"", "+bias+residual+relu"}) {
          check_parts(std::string(sizes) + layout + dtype + epilogue, Algorithm::automatic, random);
          check_parts(std::string(sizes) + layout + dtype + epilogue, Algorithm::direct, random);
        }
      }
    }
  }
}

TEST_CASE("parts of larger tensors go through every stage of Winograd") {
  std::mt19937 random(2);
  for (const Algorithm algorithm : {Algorithm::winograd, Algorithm::fused_winograd}) {
    for (const char* const sizes : {"n2c20h17w11k37", "n1c32h9w14k48p0", "n3c5h6w6k3p2"}) {
      for (const char* const layout : {"+nchw", "+nhwc"}) {
        for (const char* const dtype : {"+f32", "+bf16"}) {
          check_parts(std::string(sizes) + layout + dtype + "+bias+residual", algorithm, random);
        }
      }
    }
  }
}

TEST_CASE("x and y may be parts of one tensor") {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    Case dense(layout == Layout::nchw ? "n2c8h6w7k8+nchw" : "n2c8h6w7k8+nhwc", Algorithm::direct);
    // 16 channels, of which x has the first 8 and y the last, as in a concatenation.
    const TensorExtents both{2, 16, 6, 7};
    const TensorStrides strides = resolve_strides("x", {}, layout, both);
    std::vector<float> whole(static_cast<std::size_t>(span_of(both, strides)), -1.0f);
    const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                        const TensorStrides& s) {
      return static_cast<std::size_t>(n * s.n + c * s.c + h * s.h + w * s.w);
    };
    const TensorStrides own = resolve_strides("x", {}, layout, dense.x_extents());
    const auto for_each = [&](const auto& body) {
      for (int i = 0; i < 2 * 8 * 6 * 7; ++i) body(i / 336, i / 42 % 8, i / 7 % 6, i % 7);
    };
    for_each([&](int n, int c, int h, int w) {
      whole[at(n, c, h, w, strides)] = dense.layer.x[at(n, c, h, w, own)];
    });
    Tensors tensors = dense.tensors();
    float* const y = whole.data() + 8 * strides.c;
    tensors.x = whole.data();
    tensors.y = y;
    tensors.x_strides = tensors.y_strides = strides;
    dense.execute(tensors);
    const auto* const expected = reinterpret_cast<const float*>(dense.y.data());
    for_each([&](int n, int c, int h, int w) {
      CHECK(y[at(n, c, h, w, strides)] == expected[at(n, c, h, w, own)]);
      CHECK(whole[at(n, c, h, w, strides)] == dense.layer.x[at(n, c, h, w, own)]);
    });
    tensors.y = whole.data() + 7 * strides.c;  // x's last channel is y's first
    CHECK_THROWS_WITH(dense.execute(tensors), "x overlaps y");
  }
}

TEST_CASE("strides that cannot be are refused with their values") {
  const TensorExtents extents{2, 4, 5, 6};
  const auto refusal = [&](const TensorStrides& strides, Layout layout) -> std::string {
    try {
      resolve_strides("x", strides, layout, extents);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(refusal({120, 30, 6, 1}, Layout::nchw).empty());
  CHECK(refusal({1000, 7, 140, 1}, Layout::nchw).empty());  // rows of channels after each other
  CHECK(
      refusal({120, 30, 6, 2}, Layout::nchw) ==
      "x_strides (120, 30, 6, 2) of (2, 4, 5, 6) in nchw: pixels of a row must be neighbours, w = "
      "1");
  CHECK_THAT(refusal({120, 30, 5, 1}, Layout::nchw), ContainsSubstring("no two elements"));
  CHECK_THAT(refusal({100, 30, 6, 1}, Layout::nchw), ContainsSubstring("no two elements"));
  CHECK_THAT(refusal({120, 30, -6, 1}, Layout::nchw), ContainsSubstring("must be 1 to 2^40 each"));
  CHECK_THAT(refusal({0, 30, 6, 1}, Layout::nchw), ContainsSubstring("must be 1 to 2^40 each"));
  CHECK_THAT(refusal({120, 2, 24, 4}, Layout::nhwc), ContainsSubstring("c = 1"));
  CHECK_THAT(refusal({200, 1, 26, 4}, Layout::nhwc),
             ContainsSubstring("h must be a multiple of w"));
  CHECK_THAT(refusal({120, 30, 6, 1}, Layout::chwn), ContainsSubstring("must be all 0, dense"));

  Case dense("n1c16h8k16+nchw16c", Algorithm::direct);
  Tensors tensors = dense.tensors();
  tensors.x_strides = {1024, 64, 8, 1};
  CHECK_THROWS_WITH(dense.execute(tensors), ContainsSubstring("in nchw16c: must be all 0"));
  PlanOptions options = Case::options_of(Algorithm::direct);
  options.backend = Backend::sim;
  const Plan simulated = Plan::create(parse_problem("n1c16h8k16"), options);
  tensors.x_strides = {};
  tensors.y_strides = {2048, 64, 8, 1};  // of one image, as dense ones
  CHECK_NOTHROW(simulated.execute(tensors, dense.workspace.data(), simulated.workspace_bytes()));
  tensors.y_strides = {2048, 128, 8, 1};
  CHECK_THROWS_WITH(simulated.execute(tensors, dense.workspace.data(), simulated.workspace_bytes()),
                    "y_strides: backend sim, must be cpu, or all 0: dense");
}
