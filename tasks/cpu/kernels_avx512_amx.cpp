// SPDX-License-Identifier: Apache-2.0
// The tasks that are others where a machine has AMX, too; dispatch.cpp takes the rest from
// kernels_avx512_bf16.cpp and those before it.
#define MEGACONV_ISA avx512_amx
#define MEGACONV_LANES 16
#include "tasks/direct/cpu/amx.inl"

namespace megaconv::cpu::avx512 {
extern const Kernels kKernels;
}

namespace megaconv::cpu::MEGACONV_ISA {

/// Winograd multiplies floats, and depthwise tasks single channels: these are tasks of avx512.
template <DataType kType, TaskKind kKind, TaskFunction kOfTiles>
void amx_or_else(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                 std::byte* scratch) {
  const TaskFunction other =
      avx512::kKernels.by_kind[static_cast<std::size_t>(kType)][static_cast<std::size_t>(kKind)];
  (multiplies_words(*args.tiling) ? kOfTiles : other)(args, group, block, scratch);
}

template <DataType kType, class T>
inline constexpr TaskFunction kPacking =
    amx_or_else<kType, TaskKind::filter_transform, amx_filter_packing<T>>;
template <DataType kType, class T>
inline constexpr TaskFunction kProducts = amx_or_else<kType, TaskKind::direct, amx_convolution<T>>;

extern const TaskFunction kBf16FilterTransform, kBf16Direct, kInt8FilterTransform, kInt8Direct;
const TaskFunction kBf16FilterTransform = kPacking<DataType::bf16, Bfloat16>;
const TaskFunction kBf16Direct = kProducts<DataType::bf16, Bfloat16>;
const TaskFunction kInt8FilterTransform = kPacking<DataType::i8, Int8>;
const TaskFunction kInt8Direct = kProducts<DataType::i8, Int8>;

}  // namespace megaconv::cpu::MEGACONV_ISA
