// SPDX-License-Identifier: Apache-2.0
// CPU bodies of pooling tasks, one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "megaconv/pooling.hpp"

namespace megaconv::cpu {

/// What a pooling task may touch.
struct PoolArgs {
  const PoolCut* cut = nullptr;
  const void* x = nullptr;  ///< layout and storage type of cut->problem, as y
  void* y = nullptr;
};

/// Runs one task. It needs no scratch memory; null is allowed.
using PoolFunction = void (*)(const PoolArgs& args, std::uint32_t group, std::uint32_t block,
                              std::byte* scratch);

struct PoolKernels {
  const char* isa;  ///< that the bodies are compiled for: "avx512", "avx2", "portable"
  PoolFunction by_dtype[kNumDataTypes];  ///< null for i8

  PoolFunction run(DataType dtype) const { return by_dtype[static_cast<std::size_t>(dtype)]; }
};

/// The table for an instruction set of available_isas(); empty chooses as kernels_for() does.
/// Throws as it does.
const PoolKernels& pool_kernels_for(std::string_view isa = {});

}  // namespace megaconv::cpu
