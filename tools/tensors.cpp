// SPDX-License-Identifier: Apache-2.0
#include "tools/tensors.hpp"

#include <string>
#include <utility>

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

void fill(TensorSet& tensors, Buffer& buffer, const Filling& filling, std::uint64_t seed) {
  if (buffer.bytes() == 0) return;
  tensors.device->fill(buffer.floats(), buffer.num_floats(), filling, seed);
}

}  // namespace

Tensors TensorSet::pointers(const void* prepared_filters) const {
  return {.x = x.data(),
          .w = prepared_filters == nullptr ? w.data() : nullptr,
          .bias = bias.data(),
          .residual = residual.data(),
          .y = y.data(),
          .prepared_filters = prepared_filters};
}

void require_tensor_memory(const Device& device, const ConvProblem& problem, bool with_reference) {
  const auto size = [](std::int64_t elements) { return static_cast<double>(elements); };
  const std::int64_t residual_size = problem.epilogue.residual ? problem.y_size() : 0;
  double bytes = 4 * (size(problem.x_size()) + size(problem.w_size()) + size(problem.y_size()) +
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
  tensors.x = float_buffer(device, problem.x_size());
  tensors.w = float_buffer(device, problem.w_size());
  if (problem.epilogue.bias) tensors.bias = float_buffer(device, problem.k);
  if (problem.epilogue.residual) tensors.residual = float_buffer(device, problem.y_size());
  tensors.y = float_buffer(device, problem.y_size());
  return tensors;
}

void fill_random(TensorSet& tensors, std::uint64_t seed) {
  fill(tensors, tensors.x, {.kind = Filling::Kind::relu_normal}, seed);
  fill(tensors, tensors.w, {.kind = Filling::Kind::normal}, seed + 1);
  fill(tensors, tensors.bias, {.kind = Filling::Kind::normal}, seed + 2);
  fill(tensors, tensors.residual, {.kind = Filling::Kind::normal}, seed + 3);
}

void fill_exact(TensorSet& tensors, const Tiling& tiling, std::uint64_t seed) {
  Filling small{.kind = Filling::Kind::integers, .density = 0.11};
  Filling multiple = small;
  if (tiling.algorithm != Algorithm::direct) {
    if (tiling.m == 6 || (tiling.m == 4 && tiling.points != Points::integer)) {
      throw Error(Status::unsupported,
                  "winograd F(" + std::to_string(tiling.m) +
                      ") with these points rounds integers, must be m = 2, or m = 4 with "
                      "--points integer");
    }
    multiple.multiple =
        tiling.m == 2 ? 4 : 576;  // the square of the filter transform's denominator
  }
  fill(tensors, tensors.x, small, seed);
  fill(tensors, tensors.w, multiple, seed + 1);
  fill(tensors, tensors.bias, multiple, seed + 2);
  fill(tensors, tensors.residual, multiple, seed + 3);
}

Reference::Reference(const TensorSet& tensors)
    : device_(*tensors.device),
      y_(double_buffer(device_, tensors.problem.y_size())),
      magnitude_(double_buffer(device_, tensors.problem.y_size())) {
  device_.reference(tensors.problem, tensors.pointers(), y_.doubles(), magnitude_.doubles());
}

ErrorReport Reference::compare(const Tiling& tiling, const float* y) const {
  return device_.compare(tiling, y, y_.doubles(), magnitude_.doubles());
}

Mismatch Reference::mismatch(const float* y) const {
  return device_.mismatch(y, y_.doubles(), static_cast<std::int64_t>(y_.bytes() / sizeof(double)));
}

double Reference::at(std::int64_t index) const {
  double value = 0;
  device_.download(&value, y_.doubles() + index, sizeof(value));
  return value;
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

std::vector<float> download(const TensorSet& tensors, const Buffer& buffer) {
  std::vector<float> copy(static_cast<std::size_t>(buffer.num_floats()));
  if (!copy.empty()) tensors.device->download(copy.data(), buffer.data(), buffer.bytes());
  return copy;
}

std::uint64_t checksum(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : std::as_bytes(values)) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace megaconv::cli
