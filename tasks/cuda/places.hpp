// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a network's nodes are. Their arguments lie on the device as long as the
// plan, and the memory is another in every run. So they hold places in the place of pointers: a
// piece of the run's memory and an offset in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace megaconv::cuda {

/// The memory of one run; which piece is what, the executor says.
inline constexpr std::uint32_t kMostPieces = 128;
struct NetworkMemory {
  std::byte* piece[kMostPieces];
};

/// A place; null is nowhere.
inline constexpr int kPlaceBits = 48;
constexpr std::uint64_t place_in(std::uint32_t piece, std::uint64_t offset) {
  return std::uint64_t{piece + 1} << kPlaceBits | offset;
}
constexpr std::byte* pointer_to(const NetworkMemory& memory, std::uint64_t place) {
  if (place == 0) return nullptr;
  const auto piece = static_cast<std::uint32_t>(place >> kPlaceBits) - 1;
  return memory.piece[piece] + (place & ((std::uint64_t{1} << kPlaceBits) - 1));
}
/// Of a place that stands in the place of a pointer.
template <class T>
constexpr T* pointer_to(const NetworkMemory& memory, T* place) {
  return reinterpret_cast<T*>(pointer_to(memory, reinterpret_cast<std::uint64_t>(place)));
}

/// Of all of these, in their place.
template <class... T>
constexpr void become_pointers(const NetworkMemory& memory, T*&... places) {
  ((places = pointer_to(memory, places)), ...);
}

/// Windows of a pooling over the outputs of a convolution. r is 0 where there is none.
struct PoolWindow {
  std::int32_t r, s, pad_h, pad_w, stride_h, stride_w;
  std::int32_t p, q;  ///< outputs
  bool averages;      ///< or takes the largest number
};

/// What another operation makes of the outputs of a convolution, which stores it with them. An
/// elementwise one: clamp(scale y + bias), in some of the operation's channels. A pooling: what is
/// in its windows, in all of them. Without y there is none.
struct SecondOutput {
  void* y;                               ///< all of the operation's
  const float *scale, *bias;             ///< of these channels; null: y as it is
  std::int32_t channels, first_channel;  ///< of its y
  float least, most;
  PoolWindow window;
};

/// The places of one node's buffers, null for those that it does not have.
struct NodePlaces {
  const void* x = nullptr;
  const void* residual = nullptr;  ///< also what a pixelwise operation multiplies by
  void* y = nullptr;
  std::vector<const void*> inputs{};  ///< of an elementwise operation, in the place of x
  // Of prepared filters.
  const void* u = nullptr;
  const float *scale = nullptr, *bias = nullptr;
  SecondOutput second{};                ///< of small tiles
  std::uint32_t* wide_pairs = nullptr;  ///< of small tiles: SmallGemmArgs
  const void* table = nullptr;  ///< what node_table() gave; a pointer on the device, no place
};

}  // namespace megaconv::cuda
