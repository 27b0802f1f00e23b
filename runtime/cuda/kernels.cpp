// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/kernels.hpp"

#include "megaconv/error.hpp"
#include "tasks/direct/depthwise_box.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {

namespace {

// Conditions of kernel_variants.hpp.

bool uses(const Tiling& tiling, Arithmetic arithmetic, std::uint32_t m) {
  return tiling.arithmetic == arithmetic && tiling.tiles()->m == m;
}
// Multiply-adds of Winograd's domain take floats.
bool multiplies_floats(const Tiling& tiling, std::uint32_t m) {
  return uses(tiling, Arithmetic::fma, m) && tiling.problem.dtype == DataType::f32;
}
// Of numbers that become floats.
bool adds_products(const Tiling& tiling, DataType dtype) {
  return tiling.arithmetic == Arithmetic::fma && tiling.problem.dtype == dtype;
}
// TMA can load what tasks of a depthwise convolution read.
bool has_boxes(const Tiling& tiling, DataType dtype) {
  return adds_products(tiling, dtype) && loads_boxes(tiling.problem);
}
Operands operands_of(const Tiling& tiling) {
  return std::get<ImplicitGemmCut>(tiling.cut).operands;
}
// Threads load x; it may be of any layout.
bool loads(const Tiling& tiling, DataType dtype) {
  return operands_of(tiling) == Operands::loaded && tiling.problem.dtype == dtype;
}
// Of floats it makes pairs of FP16 numbers, or rounds them.
bool splits(const Tiling& tiling, std::uint32_t filters) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  return loads(tiling, DataType::f32) && tiling.arithmetic == Arithmetic::split_f16 &&
         implicit_gemm_tile(cut.filter_blocks_per_gemm_task, cut.places_per_group,
                            tiling.arithmetic)
                 .filters == filters;
}
bool rounds(const Tiling& tiling) {
  return loads(tiling, DataType::f32) && tiling.arithmetic != Arithmetic::split_f16;
}
// TMA reads tensors of 16 bits as they are.
bool reads(const Tiling& tiling, DataType dtype, Operands operands = Operands::in_tensor) {
  return operands_of(tiling) == operands && tiling.problem.dtype == dtype;
}

// Small tiles.
bool multiplies(const Tiling& tiling, Precision precision) {
  return std::get<SmallGemmCut>(tiling.cut).precision == precision;
}

struct Variant {
  const char* name;
  Algorithm algorithm;
  Layout layout;
  Isa isa;
  bool (*suits)(const Tiling& tiling);  // of this algorithm and layout
  KernelSet (*make)(const Tiling& tiling);
};

#define MEGACONV_ROW(name, algorithm, layout, isa, condition)          \
  {#name,                                                              \
   Algorithm::algorithm,                                               \
   Layout::layout,                                                     \
   Isa::isa,                                                           \
   []([[maybe_unused]] const Tiling& t) -> bool { return condition; }, \
   name##_kernels},
constexpr Variant kVariants[] = {MEGACONV_CUDA_VARIANTS(MEGACONV_ROW)};
#undef MEGACONV_ROW

const Variant& find(const Tiling& tiling, Isa isa) {
  const Variant* best = nullptr;   // of those that the device runs, the one that needs most
  const Variant* least = nullptr;  // of all, the one that needs least
  bool has_algorithm = false;
  for (const Variant& variant : kVariants) {
    if (variant.algorithm != tiling.algorithm()) continue;
    has_algorithm = true;
    if (variant.layout != tiling.problem.layout || !variant.suits(tiling)) continue;
    if (least == nullptr || variant.isa < least->isa) least = &variant;
    if (variant.isa <= isa && (best == nullptr || variant.isa > best->isa)) best = &variant;
  }
  if (best != nullptr) return *best;
  const std::string algorithm = to_string(tiling.algorithm());
  if (!has_algorithm) {
    throw Error(Status::unsupported, algorithm + ": backend cuda, must be cpu");
  }
  const WinogradTiles* tiles = tiling.tiles();
  const std::string what = algorithm +
                           (tiles != nullptr ? ", m = " + std::to_string(tiles->m) : "") +
                           ", arithmetic " + to_string(tiling.arithmetic);
  if (least == nullptr) {
    throw Error(Status::unsupported, what + ", " + to_string(tiling.problem.dtype) + " in " +
                                         to_string(tiling.problem.layout) +
                                         ": no CUDA kernels were compiled for it");
  }
  throw Error(Status::unsupported,
              what + ": instruction set " + to_string(isa) + ", must be " +
                  (least->isa == Isa::mma ? "mma (compute capability 8.0) or " : "") +
                  "wgmma (compute capability 9.0); MEGACONV_CUDA_ISA chooses");
}

}  // namespace

KernelSet kernels_for(const Tiling& tiling, Isa isa) { return find(tiling, isa).make(tiling); }
const char* variant_for(const Tiling& tiling, Isa isa) { return find(tiling, isa).name; }

}  // namespace megaconv::cuda
