// SPDX-License-Identifier: Apache-2.0
// How tensors' numbers become operands of matrix instructions in implicit GEMM. A K block of
// operands has four octets of channels for every padded pixel or filter; an instruction takes two
// of them. What differs is what the octets hold and which pairs of octets are multiplied:
//
//              tensors       a K block                          products of a K block
//   split      float         16 channels: high, low halves   high high, high low, low high
//   rounded    float         32 channels, FP16               both halves of the channels
//   stored     FP16, BF16    32 channels, as they are        both halves of the channels
//   stored     float         16 channels, TF32               both halves of the channels
//
// Floats are multiplied by a power of two first, which moves them to where FP16 has all its bits
// (split_f16.cuh), but not where they become TF32, which has their range. Split numbers are as good
// as FP32; rounded ones have the 11 bits of TF32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace megaconv::cuda {

/// Octets of a K block.
inline constexpr int kKBlockOctets = 4;

struct SplitNumbers {
  using Stored = float;   ///< in tensors
  using Number = __half;  ///< in operands
  static constexpr bool kSplit = true, kScaled = true;
  static constexpr int kDepth = 16;  ///< channels of a K block
};

struct RoundedNumbers {
  using Stored = float;
  using Number = __half;
  static constexpr bool kSplit = false, kScaled = true;
  static constexpr int kDepth = 32;
};

template <class Type>
struct StoredNumbers {
  using Stored = Type;
  using Number = Type;
  static constexpr bool kSplit = false, kScaled = false;
  static constexpr int kDepth = 64 / static_cast<int>(sizeof(Type));
};

}  // namespace megaconv::cuda
