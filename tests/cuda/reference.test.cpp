// SPDX-License-Identifier: Apache-2.0
// The truth on the device is the truth of the host.
#include "tasks/cuda/reference.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::have_device;

namespace {

const char* const kShapes[] = {"n2c3h5w7k2+bias", "n1c6h9w4k8g2u2+residual", "n3c5h8k5g5d2+relu",
                               "n2c4h11w6k7r5s2p3x0u1x3+bias+residual+relu", "n1c1h1k1"};

template <class T>
const T* pointer(const DeviceBuffer& buffer) {
  return static_cast<const T*>(buffer.get());
}

std::vector<std::byte> stored_as(DataType dtype, const std::vector<float>& values) {
  return with_storage(dtype, [&](auto number) {
    std::vector<std::byte> stored;
    for (const float value : values) {
      number = from_float<decltype(number)>(value);
      const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
      stored.insert(stored.end(), bytes, bytes + sizeof(number));
    }
    return stored;
  });
}

}  // namespace

TEST_CASE("cuda reference: the device fills tensors with the host's numbers") {
  if (!have_device()) SKIP("no CUDA device");
  for (const Filling filling : {Filling{}, Filling{Filling::Kind::relu_normal},
                                Filling{Filling::Kind::integers, 0.11, 576}}) {
    for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
      std::vector<std::byte> expected(10'007 * size_of(dtype));
      fill(dtype, expected.data(), 10'007, filling, 42);
      const DeviceBuffer values(expected.size());
      cuda::fill(dtype, values.get(), 10'007, filling, 42);
      CHECK((values.download<std::byte>() == expected));
      CHECK(values.guards_intact());
    }
  }
}

TEST_CASE("cuda reference: sums and scales are the host's, in every layout") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : kShapes) {
    for (const char* suffix : {"+nchw", "+nhwc", "+chwn", "+f16", "+nhwc+bf16"}) {
      const ConvProblem p = parse_problem(std::string(shape) + suffix);
      const auto size = static_cast<std::size_t>(p.y_size());
      for (const bool integers : {false, true}) {
        std::uint64_t seed = 1;
        const auto tensor = [&](std::int64_t count) {
          std::vector<std::byte> stored(static_cast<std::size_t>(count) * size_of(p.dtype));
          const Filling filling{.kind = integers ? Filling::Kind::integers : Filling::Kind::normal,
                                .density = 0.5};
          fill(p.dtype, stored.data(), count, filling, seed++);
          return stored;
        };
        const std::vector<std::byte> x = tensor(p.x_size()), w = tensor(p.w_size()),
                                     scale = tensor(p.k), bias = tensor(p.k),
                                     residual = tensor(p.y_size());
        std::vector<double> y(size), magnitude(size);
        reference_convolution(p,
                              {.x = x.data(),
                               .w = w.data(),
                               .scale = scale.data(),
                               .bias = bias.data(),
                               .residual = residual.data()},
                              y.data(), magnitude.data());
        const DeviceBuffer dx(x), dw(w), dscale(scale), dbias(bias), dresidual(residual);
        const DeviceBuffer dy(size * sizeof(double)), dmagnitude(size * sizeof(double));
        cuda::reference_convolution(p,
                                    {.x = dx.get(),
                                     .w = dw.get(),
                                     .scale = dscale.get(),
                                     .bias = dbias.get(),
                                     .residual = dresidual.get()},
                                    static_cast<double*>(dy.get()),
                                    static_cast<double*>(dmagnitude.get()));
        const std::vector<double> found = dy.download<double>();
        const std::vector<double> found_magnitude = dmagnitude.download<double>();
        CAPTURE(shape, suffix, integers);
        CHECK(dy.guards_intact());
        CHECK(dmagnitude.guards_intact());
        // Sums of at most 52 terms in another order: far less than 52 roundings of 2^-53.
        const double bound = integers ? 0 : 52 * 0x1p-53;
        for (std::size_t i = 0; i < size; ++i) {
          REQUIRE(std::fabs(found[i] - y[i]) <= bound * magnitude[i]);
          REQUIRE(std::fabs(found_magnitude[i] - magnitude[i]) <= bound * magnitude[i]);
        }
      }
    }
  }
}

TEST_CASE("cuda reference: compare and mismatch report what the host's do") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* text : {"n2c16h9w7k5+nchw", "n2c16h9w7k5+nhwc", "n2c16h9w7k5+chwn",
                           "n2c16h9w7k5+f16", "n2c16h9w7k5+bf16"}) {
    const ConvProblem problem = parse_problem(text);
    for (const std::uint32_t m : {0u, 2u, 4u}) {
      Tiling tiling;
      tiling.problem = problem;
      if (m != 0) tiling.cut.emplace<WinogradCut>().m = m;
      const auto size = static_cast<std::size_t>(problem.y_size());
      std::vector<float> y(size), noise(size);
      fill_normal(y, 1);
      fill_normal(noise, 2);
      std::vector<double> reference(y.begin(), y.end()), magnitude(size);
      for (std::size_t i = 0; i < size; ++i) {
        if (i % 3 != 0) reference[i] += 1e-6 * static_cast<double>(noise[i]);
        magnitude[i] = 1 + std::fabs(static_cast<double>(noise[i]));
      }
      const auto check_same = [&] {
        const std::vector<std::byte> stored = stored_as(problem.dtype, y);
        const DeviceBuffer dy(stored), dreference(reference), dmagnitude(magnitude);
        const ErrorReport host = compare(tiling, stored.data(), reference.data(), magnitude.data());
        const ErrorReport device = cuda::compare(tiling, dy.get(), pointer<double>(dreference),
                                                 pointer<double>(dmagnitude));
        CAPTURE(text, m, to_string(host), to_string(device));
        CHECK((device.relative_l2 == host.relative_l2 ||  // also when both are infinite
               device.relative_l2 == Approx(host.relative_l2).epsilon(1e-12)));
        CHECK(device.worst_element == host.worst_element);
        CHECK(device.worst_index == host.worst_index);
        const auto count = static_cast<std::int64_t>(size);
        const Mismatch found =
            cuda::mismatch(problem.dtype, dy.get(), pointer<double>(dreference), count);
        const Mismatch expected = mismatch(problem.dtype, stored.data(), reference.data(), count);
        CHECK(found.count == expected.count);
        CHECK(found.first == expected.first);
      };
      check_same();
      y[17] = std::numeric_limits<float>::quiet_NaN();
      check_same();
      y.assign(reference.begin(), reference.end());
      reference.assign(y.begin(), y.end());
      check_same();
    }
  }
}

TEST_CASE("cuda reference: memory is compared byte by byte") {
  if (!have_device()) SKIP("no CUDA device");
  std::vector<unsigned char> bytes(4099, 0xa5);
  const DeviceBuffer a(bytes);
  CHECK(cuda::all_bytes_are(a.get(), std::byte{0xa5}, bytes.size()));
  CHECK_FALSE(cuda::all_bytes_are(a.get(), std::byte{0xa4}, bytes.size()));
  bytes.back() = 0;
  const DeviceBuffer b(bytes);
  CHECK_FALSE(cuda::all_bytes_are(b.get(), std::byte{0xa5}, bytes.size()));
  CHECK_FALSE(cuda::same_bytes(a.get(), b.get(), bytes.size()));
  CHECK(cuda::same_bytes(a.get(), b.get(), bytes.size() - 1));
}
