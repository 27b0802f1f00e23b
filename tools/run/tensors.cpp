// SPDX-License-Identifier: Apache-2.0
#include "tools/run/tensors.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

void fill(TensorSet& tensors, Buffer& buffer, const Filling& filling, std::uint64_t seed) {
  const bool vector = &buffer == &tensors.scale || &buffer == &tensors.bias;
  const DataType dtype = vector ? tensors.problem.vector_type() : tensors.problem.dtype;
  const auto count = static_cast<std::int64_t>(buffer.bytes() / size_of(dtype));
  if (count != 0) tensors.device->fill(dtype, buffer.data(), count, filling, seed);
}

}  // namespace

Tensors TensorSet::pointers(const void* prepared_filters) const {
  return {.x = x.data(),
          .w = prepared_filters == nullptr ? w.data() : nullptr,
          .scale = scale.data(),
          .bias = bias.data(),
          .residual = residual.data(),
          .y = y.data(),
          .prepared_filters = prepared_filters};
}

void require_tensor_memory(const Device& device, const ConvProblem& problem, bool with_reference) {
  const auto size = [](std::int64_t elements) { return static_cast<double>(elements); };
  const std::int64_t residual_size = problem.epilogue.residual ? problem.y_size() : 0;
  double bytes = static_cast<double>(size_of(problem.dtype)) *
                 (size(problem.x_size()) + size(problem.w_size()) + size(problem.y_size()) +
                  size(residual_size));
  // The reference holds x (padded, at most doubled for the layers that matter), w, y and S in
  // double.
  if (with_reference) {
    bytes += 8 * (2 * size(problem.x_size()) + size(problem.w_size()) + 2 * size(problem.y_size()));
  }
  require_memory(device, to_string(problem), bytes);
}

TensorSet allocate_tensors(Device& device, const ConvProblem& problem, bool with_reference) {
  require_tensor_memory(device, problem, with_reference);
  TensorSet tensors;
  tensors.device = &device;
  tensors.problem = problem;
  const auto allocate = [&](std::int64_t size) {
    return number_buffer(device, problem.dtype, size);
  };
  tensors.x = allocate(problem.x_size());
  tensors.w = allocate(problem.w_size());
  const auto allocate_vector = [&] {
    return number_buffer(device, problem.vector_type(), problem.k);
  };
  if (problem.epilogue.scale) tensors.scale = allocate_vector();
  if (problem.epilogue.bias) tensors.bias = allocate_vector();
  if (problem.epilogue.residual) tensors.residual = allocate(problem.y_size());
  tensors.y = allocate(problem.y_size());
  return tensors;
}

void fill_random(TensorSet& tensors, std::uint64_t seed) {
  const RandomData data(tensors.problem);
  fill(tensors, tensors.x, data.x, seed);
  fill(tensors, tensors.w, data.w, seed + 1);
  fill(tensors, tensors.bias, data.bias, seed + 2);
  fill(tensors, tensors.residual, data.residual, seed + 3);
  fill(tensors, tensors.scale, data.scale, seed + 4);
}

void fill_exact(TensorSet& tensors, const Tiling& tiling, std::uint64_t seed) {
  Filling small{.kind = Filling::Kind::integers, .density = 0.11};
  Filling multiple = small;
  if (const WinogradTiles* const tiles = tiling.tiles()) {
    if (tiles->m != 2 && (tiles->m != 4 || tiles->points != Points::integer)) {
      throw Error(Status::unsupported,
                  "winograd, m = " + std::to_string(tiles->m) +
                      ", with these points rounds integers, must be m = 2, or m = 4 with "
                      "--points integer");
    }
    multiple.multiple =
        tiles->m == 2 ? 4 : 576;  // the square of the filter transform's denominator
  }
  // An odd number of all the bits that the type has: most sums with twice that must be rounded.
  Filling biases{.kind = Filling::Kind::integers};
  biases.multiple = tensors.problem.dtype == DataType::f32
                        ? multiple.multiple
                        : static_cast<float>(0.5 / unit_roundoff(tensors.problem.dtype) + 1);
  fill(tensors, tensors.x, small, seed);
  fill(tensors, tensors.w, multiple, seed + 1);
  fill(tensors, tensors.bias, biases, seed + 2);
  fill(tensors, tensors.residual, multiple, seed + 3);
  fill(tensors, tensors.scale, {.kind = Filling::Kind::integers, .multiple = 0.5f}, seed + 4);
}

Reference::Reference(const TensorSet& tensors)
    : device_(*tensors.device),
      dtype_(tensors.problem.dtype),
      y_(double_buffer(device_, tensors.problem.y_size())),
      magnitude_(double_buffer(device_, tensors.problem.y_size())) {
  device_.reference(tensors.problem, tensors.pointers(), y_.doubles(), magnitude_.doubles());
}

ErrorReport Reference::compare(const Tiling& tiling, const void* y) const {
  return device_.compare(tiling, y, y_.doubles(), magnitude_.doubles());
}

Mismatch Reference::mismatch(const void* y) const {
  return device_.mismatch(dtype_, y, y_.doubles(),
                          static_cast<std::int64_t>(y_.bytes() / sizeof(double)));
}

float Reference::at(std::int64_t index) const {
  double value = 0;
  device_.download(&value, y_.doubles() + index, sizeof(value));
  return with_storage(dtype_, [&](auto number) {
    return to_float(from_float<decltype(number)>(static_cast<float>(value)));
  });
}

Runner::Runner(Plan plan, const TensorSet& tensors, Caches caches)
    : plan_(std::move(plan)), device_(*tensors.device), caches_(caches) {
  require_memory(device_, "the workspace", static_cast<double>(plan_.workspace_bytes()));
  workspace_ = Buffer(device_, plan_.workspace_bytes());
  filters_ = Buffer(device_, plan_.prepared_filter_bytes());
  tensors_ = tensors.pointers(filters_.data());
  if (filters_.bytes() != 0) plan_.prepare_filters(tensors.w.data(), filters_.data());
}

void Runner::run(Trace* trace) {
  plan_.execute(tensors_, workspace_.data(), workspace_.bytes(), {.trace = trace});
  plan_.wait(workspace_.data());
}

double Runner::sample_ms() {
  if (!clock_) {
    clock_ = device_.clock(
        {.enqueue =
             [this](void* stream) {
               plan_.execute(tensors_, workspace_.data(), workspace_.bytes(), {.stream = stream});
             },
         .wait = [this](void* stream) { plan_.wait(workspace_.data(), stream); }},
        caches_);
  }
  return clock_();
}

std::vector<std::byte> download(const TensorSet& tensors, const Buffer& buffer) {
  std::vector<std::byte> copy(buffer.bytes());
  if (!copy.empty()) tensors.device->download(copy.data(), buffer.data(), buffer.bytes());
  return copy;
}

float number_at(Device& device, DataType dtype, const void* tensor, std::int64_t index) {
  return with_storage(dtype, [&](auto number) {
    device.download(&number, static_cast<const decltype(number)*>(tensor) + index, sizeof(number));
    return to_float(number);
  });
}

std::vector<double> numbers_of(DataType dtype, std::span<const std::byte> tensor) {
  std::vector<double> numbers(tensor.size() / size_of(dtype));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] =
        number_at(device_of(Backend::cpu), dtype, tensor.data(), static_cast<std::int64_t>(i));
  }
  return numbers;
}

double relative_l2(std::span<const double> a, std::span<const double> b) {
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return squares == 0 ? 0 : std::sqrt(squares / all);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace megaconv::cli
