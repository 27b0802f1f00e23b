// SPDX-License-Identifier: Apache-2.0
// What follows from the chosen fields of a tiling, and what must hold of them, whether
// make_tiling() chose them or a mapping file. Most of it is the algorithm's.
#include "tasks/tiling.hpp"

#include <sstream>
#include <type_traits>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"

namespace megaconv {
namespace {

void check_arithmetic(const Tiling& tiling) {
  const std::string must = algorithm_of(tiling).arithmetic_need(tiling);
  if (must.empty()) return;
  const WinogradTiles* const tiles = tiling.tiles();
  const std::string m = tiles != nullptr ? ", m = " + std::to_string(tiles->m) : "";
  throw Error(Status::unsupported, std::string("arithmetic ") + to_string(tiling.arithmetic) +
                                       " in " + to_string(tiling.algorithm()) + m + ", on " +
                                       to_string(tiling.problem.dtype) + " tensors: must be " +
                                       must);
}

}  // namespace

Algorithm Tiling::algorithm() const {
  return std::visit([](const auto& own) { return own.kAlgorithm; }, cut);
}

const WinogradTiles* Tiling::tiles() const {
  return std::visit(
      []<class Own>(const Own& own) -> const WinogradTiles* {
        if constexpr (std::is_base_of_v<WinogradTiles, Own>) return &own;
        return nullptr;
      },
      cut);
}

Window* Tiling::window() {
  WinogradCut* const winograd = std::get_if<WinogradCut>(&cut);
  return winograd != nullptr ? &winograd->window : nullptr;
}

const Window* Tiling::window() const { return const_cast<Tiling*>(this)->window(); }

std::uint32_t Tiling::channel_blocks() const {
  return u32(ceil_div(u64(channels_at_once(*this)), std::uint64_t{kLaneBlock}));
}

std::uint32_t Tiling::filter_blocks() const {
  const std::int64_t groups = padded_groups(*this);
  return u32(ceil_div(u64(problem.k / groups), std::uint64_t{kLaneBlock}) * u64(groups));
}

std::uint64_t Tiling::v_slot_bytes() const { return algorithm_of(*this).slot_bytes(*this).v; }
std::uint64_t Tiling::m_slot_bytes() const { return algorithm_of(*this).slot_bytes(*this).m; }
std::uint64_t Tiling::u_bytes() const { return algorithm_of(*this).u_bytes(*this); }

std::int64_t padded_groups(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  if (problem.depthwise()) return 1;
  return problem.groups / algorithm_of(tiling).groups_at_once(problem);
}

std::int64_t channels_at_once(const Tiling& tiling) {
  return algorithm_of(tiling).channels_at_once(tiling.problem);
}

std::uint64_t channel_words(const Tiling& tiling) {
  const bool quads = tiling.problem.dtype == DataType::i8 && !tiling.problem.depthwise();
  const std::uint64_t channels = u64(channels_at_once(tiling));
  return quads ? ceil_div(channels, std::uint64_t{4}) : channels;
}

bool permits_f16(DataType dtype, Precision precision) {
  return dtype == DataType::f16 || dtype == DataType::bf16 || precision != Precision::f32;
}

std::string pair_text(std::int64_t vertical, std::int64_t horizontal) {
  return std::to_string(vertical) + "x" + std::to_string(horizontal);
}

void derive_counts(Tiling& tiling) {
  validate(tiling.problem);
  const ConvAlgorithm& algorithm = algorithm_of(tiling);
  if (tiling.problem.layout == Layout::chwn && !algorithm.takes_chwn()) {
    throw Error(Status::unsupported, "layout chwn: must be nchw or nhwc, or the algorithm opencnn");
  }
  if (tiling.problem.layout == Layout::nchw16c && !algorithm.runs_on(Backend::cpu)) {
    throw Error(Status::unsupported, std::string("layout nchw16c in ") +
                                         to_string(tiling.algorithm()) +
                                         ": must be an algorithm of a CPU");
  }
  algorithm.derive(tiling);
  check_arithmetic(tiling);
  tiling.num_filter_tasks =
      tiling.filters == FilterMode::prepared ? 0 : algorithm.count_filter_tasks(tiling);
}

std::uint64_t num_tasks(const Tiling& tiling) {
  const std::uint64_t group_tasks =
      std::uint64_t{tiling.input_tasks} + tiling.gemm_tasks + tiling.output_tasks;
  return tiling.num_filter_tasks + tiling.num_groups * group_tasks;
}

const char* to_string(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::automatic:
      return "automatic";
    case Algorithm::direct:
      return "direct";
    case Algorithm::winograd:
      return "winograd";
    case Algorithm::opencnn:
      return "opencnn";
    case Algorithm::fused_winograd:
      return "fused_winograd";
    case Algorithm::implicit_gemm:
      return "implicit_gemm";
    case Algorithm::small_gemm:
      return "small_gemm";
  }
  return "unknown";
}

const char* to_string(Backend backend) noexcept {
  return backend == Backend::cpu ? "cpu" : backend == Backend::cuda ? "cuda" : "sim";
}

const char* to_string(Points points) noexcept {
  return points == Points::low_error ? "low_error" : "integer";
}

const char* to_string(OutputLayout layout) noexcept {
  switch (layout) {
    case OutputLayout::baseline:
      return "baseline";
    case OutputLayout::optSTS64:
      return "optSTS64";
    case OutputLayout::optSTS64_compact:
      return "optSTS64_compact";
    case OutputLayout::optLDS64:
      return "optLDS64";
  }
  return "unknown";
}

const char* to_string(Operands operands) noexcept {
  switch (operands) {
    case Operands::loaded:
      return "loaded";
    case Operands::in_tensor:
      return "in_tensor";
    case Operands::in_tensor_wide:
      return "in_tensor_wide";
    case Operands::in_float_tensor:
      return "in_float_tensor";
    case Operands::in_float_tensor_wide:
      return "in_float_tensor_wide";
    case Operands::in_tensor_tall:
      return "in_tensor_tall";
    case Operands::in_float_tensor_tall:
      return "in_float_tensor_tall";
    case Operands::in_copy:
      return "in_copy";
    case Operands::converted:
      return "converted";
    case Operands::converted_tall:
      return "converted_tall";
    case Operands::split_tall:
      return "split_tall";
  }
  return "unknown";
}

const char* to_string(Arithmetic arithmetic) noexcept {
  switch (arithmetic) {
    case Arithmetic::automatic:
      return "automatic";
    case Arithmetic::fma:
      return "fma";
    case Arithmetic::split_f16:
      return "split_f16";
    case Arithmetic::tf32:
      return "tf32";
    case Arithmetic::f16:
      return "f16";
    case Arithmetic::bf16:
      return "bf16";
  }
  return "unknown";
}

const char* to_string(Precision precision) noexcept {
  switch (precision) {
    case Precision::f32:
      return "f32";
    case Precision::tf32:
      return "tf32";
    case Precision::f16:
      return "f16";
    case Precision::bf16:
      return "bf16";
  }
  return "unknown";
}

const char* to_string(FilterMode filters) noexcept {
  return filters == FilterMode::every_run ? "every_run" : "prepared";
}

std::string to_string(const Tiling& tiling) {
  std::ostringstream text;
  text << "problem: " << to_string(tiling.problem) << '\n'
       << "algorithm: " << to_string(tiling.algorithm());
  algorithm_of(tiling).describe(tiling, text);
  text << ", " << to_string(tiling.filters) << '\n'
       << "U: " << tiling.u_bytes() << " bytes\n"
       << "task groups: " << tiling.num_groups << '\n'
       << "tasks: " << num_tasks(tiling) << " (NF " << tiling.num_filter_tasks << ", SI "
       << tiling.input_tasks << ", SG " << tiling.gemm_tasks << ", SO " << tiling.output_tasks
       << ")\n";
  return text.str();
}

}  // namespace megaconv
