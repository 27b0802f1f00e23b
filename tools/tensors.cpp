// SPDX-License-Identifier: Apache-2.0
#include "tools/tensors.hpp"

#include <string>

#include "megaconv/error.hpp"
#include "tools/timing.hpp"

namespace megaconv::cli {

void require_tensor_memory(const ConvProblem& problem, bool with_reference) {
  const auto size = [](std::int64_t elements) { return static_cast<double>(elements); };
  const std::int64_t residual_size = problem.epilogue.residual ? problem.y_size() : 0;
  double bytes = 4 * (size(problem.x_size()) + size(problem.w_size()) + size(problem.y_size()) +
                      size(residual_size));
  // The reference holds x (padded, at most doubled for the layers that matter), w, y and S in
  // double.
  if (with_reference) {
    bytes += 8 * (2 * size(problem.x_size()) + size(problem.w_size()) + 2 * size(problem.y_size()));
  }
  require_memory(to_string(problem).c_str(), bytes);
}

HostTensors allocate_tensors(const ConvProblem& problem, bool with_reference) {
  require_tensor_memory(problem, with_reference);
  HostTensors tensors;
  tensors.x = float_buffer(problem.x_size());
  tensors.w = float_buffer(problem.w_size());
  if (problem.epilogue.bias) tensors.bias = float_buffer(problem.k);
  if (problem.epilogue.residual) tensors.residual = float_buffer(problem.y_size());
  tensors.y = float_buffer(problem.y_size());
  return tensors;
}

void fill_random(HostTensors& tensors, std::uint64_t seed) {
  fill_relu_normal(tensors.x.span(), seed);
  fill_normal(tensors.w.span(), seed + 1);
  fill_normal(tensors.bias.span(), seed + 2);
  fill_normal(tensors.residual.span(), seed + 3);
}

void fill_exact(HostTensors& tensors, const Tiling& tiling, std::uint64_t seed) {
  constexpr double kDensity = 0.11;
  float multiple = 1;
  if (tiling.algorithm == Algorithm::winograd) {
    if (tiling.m == 6 || (tiling.m == 4 && tiling.points != Points::integer)) {
      throw Error(Status::unsupported,
                  "winograd F(" + std::to_string(tiling.m) +
                      ") with these points rounds integers, must be m = 2, or m = 4 with "
                      "--points integer");
    }
    multiple = tiling.m == 2 ? 4 : 576;  // the square of the filter transform's denominator
  }
  fill_integers(tensors.x.span(), seed, kDensity);
  fill_integers(tensors.w.span(), seed + 1, kDensity, multiple);
  fill_integers(tensors.bias.span(), seed + 2, kDensity, multiple);
  fill_integers(tensors.residual.span(), seed + 3, kDensity, multiple);
}

Reference::Reference(const ConvProblem& problem, const HostTensors& tensors)
    : y_(static_cast<std::size_t>(problem.y_size())),
      magnitude_(static_cast<std::size_t>(problem.y_size())) {
  reference_convolution(problem, tensors.x.floats(), tensors.w.floats(), tensors.bias.floats(),
                        tensors.residual.floats(), y_.data(), magnitude_.data());
}

ErrorReport Reference::compare(const Tiling& tiling, const float* y) const {
  return megaconv::compare(tiling, y, y_.data(), magnitude_.data());
}

Tensors pointers(HostTensors& tensors, const void* prepared_filters) {
  return {.x = tensors.x.data(),
          .w = prepared_filters == nullptr ? tensors.w.data() : nullptr,
          .bias = tensors.bias.data(),
          .residual = tensors.residual.data(),
          .y = tensors.y.data(),
          .prepared_filters = prepared_filters};
}

Runner::Runner(Plan plan, HostTensors& tensors) : plan_(std::move(plan)) {
  if (plan_.backend() == Backend::cuda) {
    device_ = make_device_run(plan_, pointers(tensors, nullptr));
    return;
  }
  require_memory("the workspace", static_cast<double>(plan_.workspace_bytes()));
  workspace_ = Buffer(plan_.workspace_bytes());
  filters_ = Buffer(plan_.prepared_filter_bytes());
  tensors_ = pointers(tensors, filters_.data());
  if (filters_.bytes() != 0) plan_.prepare_filters(tensors.w.data(), filters_.data());
}

double Runner::run_ms(Trace* trace) {
  if (device_) return device_->run_ms(trace);
  return wall_ms(
      [&] { plan_.execute(tensors_, workspace_.data(), workspace_.bytes(), {.trace = trace}); });
}

void Runner::run() {
  run_ms();
  if (device_) device_->read_back();
}

std::uint64_t checksum(const Buffer& buffer) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte* at = buffer.data(); at != buffer.data() + buffer.bytes(); ++at) {
    hash = (hash ^ static_cast<std::uint64_t>(*at)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace megaconv::cli
