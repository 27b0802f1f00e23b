// SPDX-License-Identifier: Apache-2.0
// The registry of convolution algorithms.
#include <ostream>
#include <string>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {

std::span<const ConvAlgorithm* const> conv_algorithms() {
  static const ConvAlgorithm* const kAll[] = {
      &direct_algorithm(),        &winograd_algorithm(),   &fused_winograd_algorithm(),
      &implicit_gemm_algorithm(), &small_gemm_algorithm(), &opencnn_algorithm(),
  };
  return kAll;
}

const ConvAlgorithm& conv_algorithm(Algorithm algorithm) {
  for (const ConvAlgorithm* one : conv_algorithms()) {
    if (one->id() == algorithm) return *one;
  }
  throw Error(Status::invalid_argument, "algorithm " + std::to_string(static_cast<int>(algorithm)) +
                                            ": must be one that has tasks");
}

std::string ConvAlgorithm::arithmetic_need(const Tiling& tiling) const {
  return multiply_add_need(tiling.problem.dtype, tiling.arithmetic);
}

std::string multiply_add_need(DataType dtype, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::split_f16:
      return dtype != DataType::f32 ? "f32 tensors" : "winograd or implicit_gemm";
    case Arithmetic::f16:
      return "winograd or implicit_gemm";
    case Arithmetic::bf16:
      return dtype != DataType::bf16 ? "bf16 tensors" : "implicit_gemm";
    case Arithmetic::tf32:
      return "implicit_gemm";
    default:
      return "";
  }
}

Region ConvAlgorithm::u_extent(const Tiling& tiling) const {
  const bool by_channels = tiling.channel_blocks_per_filter_task != 0;
  return {.channels = {0, by_channels ? tiling.channel_blocks() : 1},
          .positions = {0, tiling.filter_blocks()}};
}

SlotBytes ConvAlgorithm::slot_bytes(const Tiling&) const { return {}; }
void ConvAlgorithm::add_buffers(TaskGraph&, const Tiling&, NodeBuffers&) const {}
std::optional<double> ConvAlgorithm::fitted_us(const Tiling&, Role, const PlanOptions&,
                                               const Target&) const {
  return {};
}
void ConvAlgorithm::put_words(const Tiling&, FileSection&) const {}
void ConvAlgorithm::take_words(FileSection&, Tiling&) const {}

void check_field(const char* name, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(Status::invalid_argument, std::string(name) + " = " + std::to_string(value) +
                                            ": must be 1 to " + std::to_string(most));
}

std::uint32_t checked_groups(std::uint64_t groups) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  if (groups <= kMost) return u32(groups);
  throw Error(Status::unsupported,
              std::to_string(groups) + " task groups: must be at most 2^31; use larger groups");
}

// Both factors are below 2^32, so the product is exact.
std::uint32_t checked_tasks(std::uint64_t parts, std::uint64_t times) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  if (parts * times <= kMost) return u32(parts * times);
  throw Error(Status::unsupported, std::to_string(parts * times) +
                                       " tasks of a group: must be at most 2^31; use larger tasks");
}

std::uint32_t filter_tasks_by_sizes(const Tiling& tiling) {
  const std::uint32_t parts =
      ceil_div(tiling.filter_blocks(), tiling.filter_blocks_per_filter_task);
  const std::uint32_t channels = tiling.channel_blocks_per_filter_task;
  return channels == 0 ? parts : checked_tasks(parts, ceil_div(tiling.channel_blocks(), channels));
}

std::uint64_t packed_filter_bytes(const Tiling& tiling, std::uint64_t numbers) {
  return numbers * tiling.filter_blocks() * channel_words(tiling) * Tiling::kLaneBlock *
         number_bytes(tiling.arithmetic);
}

std::string product_text(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::split_f16 ? "split f16" : to_string(arithmetic);
}

std::string blocks_text(std::uint32_t blocks) {
  return std::to_string(blocks) + (blocks == 1 ? " lane block" : " lane blocks");
}

void describe_filter_task(const Tiling& tiling, std::ostream& text) {
  text << "filter task: " << blocks_text(tiling.filter_blocks_per_filter_task) << " of filters x "
       << tiling.channel_blocks_per_filter_task << " of channels";
}

}  // namespace megaconv
