// SPDX-License-Identifier: Apache-2.0
// The tasks that are others where AVX-512 has products of BF16 pairs; dispatch.cpp takes the rest
// from kernels_avx512.cpp.
#define MEGACONV_ISA avx512_bf16
#define MEGACONV_LANES 16
#include "tasks/cpu/filter_transform.inl"
#include "tasks/direct/cpu/direct.inl"

namespace megaconv::cpu::avx512 {
extern const Kernels kKernels;
}

namespace megaconv::cpu::MEGACONV_ISA {

/// Winograd multiplies floats, and depthwise tasks single channels: these are tasks of avx512.
template <TaskKind kKind, TaskFunction kOfPairs>
void pairs_or_else(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                   std::byte* scratch) {
  constexpr auto kType = static_cast<std::size_t>(DataType::bf16);
  const TaskFunction other = avx512::kKernels.by_kind[kType][static_cast<std::size_t>(kKind)];
  (multiplies_words(*args.tiling) ? kOfPairs : other)(args, group, block, scratch);
}

extern const TaskFunction kFilterTransform, kDirect;
const TaskFunction kFilterTransform =
    pairs_or_else<TaskKind::filter_transform, filter_packing<Bfloat16>>;
const TaskFunction kDirect = pairs_or_else<TaskKind::direct, direct_convolution<Bfloat16>>;

}  // namespace megaconv::cpu::MEGACONV_ISA
