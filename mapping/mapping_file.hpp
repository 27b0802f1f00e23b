// SPDX-License-Identifier: Apache-2.0
// The mapping file's format, as far as writer and reader share it. docs/mapping.schema.json
// describes all of it.
#pragma once

#include "megaconv/mapping.hpp"

namespace megaconv {

inline constexpr std::uint64_t kMappingFileVersion = 1;

// The numbers of a tiling that are chosen; all others follow from them.
struct TilingField {
  const char* name;
  std::uint32_t Tiling::*value;
  bool winograd, direct, fused_winograd, implicit_gemm;  // which algorithms have it
};
inline constexpr TilingField kTilingFields[] = {
    {"m", &Tiling::m, true, false, true, false},
    {"group_tiles", &Tiling::group_tiles, true, false, true, false},
    {"rows_per_group", &Tiling::rows_per_group, false, true, false, false},
    {"cols_per_group", &Tiling::cols_per_group, false, true, false, true},
    {"places_per_group", &Tiling::places_per_group, false, false, false, true},
    {"channel_blocks_per_input_task", &Tiling::channel_blocks_per_input_task, true, false, false,
     true},
    {"tiles_per_transform_task", &Tiling::tiles_per_transform_task, true, false, false, false},
    {"filter_blocks_per_gemm_task", &Tiling::filter_blocks_per_gemm_task, true, true, false, true},
    {"positions_per_gemm_task", &Tiling::positions_per_gemm_task, true, false, false, false},
    {"filter_blocks_per_output_task", &Tiling::filter_blocks_per_output_task, true, false, false,
     false},
    {"filter_blocks_per_filter_task", &Tiling::filter_blocks_per_filter_task, true, true, true,
     true},
    {"channel_blocks_per_filter_task", &Tiling::channel_blocks_per_filter_task, true, false, true,
     true},
    {"v_slots", &Tiling::v_slots, true, false, false, false},
    {"m_slots", &Tiling::m_slots, true, false, false, false},
};

inline bool has_field(const Tiling& tiling, const TilingField& field) {
  switch (tiling.algorithm) {
    case Algorithm::winograd:
      return field.winograd;
    case Algorithm::direct:
      return field.direct;
    case Algorithm::fused_winograd:
      return field.fused_winograd;
    case Algorithm::implicit_gemm:
      return field.implicit_gemm;
    default:
      return false;  // openCNN's blocking is fixed
  }
}

}  // namespace megaconv
