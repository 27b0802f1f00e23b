// SPDX-License-Identifier: Apache-2.0
// Converters of implicit GEMM on operands in place: a warpgroup that makes FP16 numbers of the
// floats of x, which TMA has loaded piece by piece, and notes their largest magnitude.
#pragma once

#include <cuda_fp16.h>

#include "tasks/cuda/split_f16.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape.
template <class Shape>
class InPlaceConverters : Shape {
  using Shape::kConverters, Shape::kConverts, Shape::kHelpers, Shape::kNotedOfBlock;
  using Shape::num_chunks;
  using typename Shape::InputRing, typename Shape::Shared, typename Shape::Turns;
  using typename Shape::Walk;

 public:
  /// Pieces of floats to stages of input, all warps a share of each. What they made goes to the
  /// other blocks of a cluster by TMA. `scale`: what x is multiplied by.
  template <class Source>
  static __device__ void convert_input(const TaskArgs& a, float scale, const Source& source,
                                       const Shared& shared) {
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& pieces = shared.barriers.pieces;
    auto& ring = shared.barriers.input;
    const int warp = (static_cast<int>(threadIdx.x) - kHelpers) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool speaker = lane == 0;
    const BlockCluster& cluster = shared.cluster;
    Turns turns(cluster);
    Conversion conversion(a, warp, scale);
    const int places = a.input_places;
    const int stages_of_tile = num_chunks(a, a.k_blocks);
    StageRing<kPieces>::Cursor piece;
    typename InputRing::Cursor at;
    for (Task task; tasks.next(task); tasks.advance()) {
      const Walk walk(a, task);
      __syncwarp();
      if (speaker) tasks.leave();
      conversion.begin();
      for (int stage = walk.num_tiles * stages_of_tile; stage > 0; --stage) {
        ring.wait_empty(at);
        std::byte* const x = shared.x + at.stage * shared.input_bytes;
        int place = turns.first;
        for (; place < places; place += turns.step) {
          for (int part = 0; part < a.k_block_channels; part += kPieceChannels) {
            pieces.wait_full(piece);
            conversion.convert(shared.pieces + piece.stage * kPieceBytes, x, place, part);
            __syncwarp();
            // Behind the stores: before these, loads of other threads may still be on their way.
            if (speaker) pieces.arrive_empty(piece.stage);
            piece.advance(shared.num_pieces);
          }
        }
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
        __syncwarp();
        if (cluster.size() > 1) {
          // A lane for each piece.
          const int first = turns.first + lane * turns.step + conversion.first_place();
          const int rows = min(places - first, Conversion::kWarpPlaces);
          for (int peer = 0; peer < cluster.size() && rows > 0; ++peer) {
            if (peer == cluster.rank()) continue;
            cluster.copy(peer, x + first * shared.row_bytes,
                         static_cast<std::uint32_t>(rows * shared.row_bytes), &ring.full[at.stage]);
          }
        }
        if (speaker && warp == 0) {
          const int rows_of_others = places - turns.own_places(places);
          ring.expect(at, static_cast<std::uint32_t>(rows_of_others * shared.row_bytes));
        } else if (speaker) {
          ring.arrive_full(at.stage);
        }
        turns.go_on(place, places);
        at.advance(shared.input_stages);
      }
      const MagnitudeBits bits = __reduce_max_sync(0xffffffffu, conversion.largest());
      const auto noted = static_cast<unsigned>(cluster.rank() * kNotedOfBlock + warp);
      if (speaker) {
        const auto of_group = static_cast<unsigned>(cluster.size() * kNotedOfBlock);
        a.x_magnitudes[task.group * of_group + noted] = bits;
      }
    }
  }

 private:
  // How a thread converts its share of pieces: in turns, one octet of channels of one of eight
  // padded pixels. Floats lie in rows of 128 bytes, operands of 64 or 128, all with their vectors
  // permuted, so that eight neighbouring threads meet all banks once.
  class Conversion {
    static constexpr int kPlaces = 8, kTurns = kPiecePlaces / kPlaces / 4;

   public:
    static constexpr int kWarpPlaces = kTurns * kPlaces;
    __device__ Conversion(const TaskArgs& a, int warp, float scale)
        : scale_(scale),
          places_(a.input_places),
          row_vectors_(a.k_block_channels / 8),
          octet_(static_cast<int>(threadIdx.x) % kOctets),
          first_(warp * kWarpPlaces),
          place_(static_cast<int>(threadIdx.x) % 32 / kOctets) {}
    /// Of this warp's share of a piece, kWarpPlaces.
    __device__ int first_place() const { return first_; }
    /// Forgets magnitudes.
    __device__ void begin() { greatest_ = __half(0.0f), exact_ = {}; }
    /// A piece, to a stage's padded pixels from `first_place` on, channels from `first_channel` on.
    /// Of the last eight some may lie behind the stage's, but not behind its memory.
    __device__ __forceinline__ void convert(const std::byte* piece, std::byte* stage,
                                            int first_place, int first_channel) {
      const int first = first_place + first_, octet = first_channel / 8 + octet_;
      const auto* const row = reinterpret_cast<const float4*>(piece) + (first_ + place_) * kVectors;
      const int low_vector = (2 * octet_) ^ place_;
      float values[kTurns][8];
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 low = row[i * kPlaces * kVectors + low_vector];
        const float4 high = row[i * kPlaces * kVectors + (low_vector ^ 1)];
        values[i][0] = low.x, values[i][1] = low.y, values[i][2] = low.z, values[i][3] = low.w;
        values[i][4] = high.x, values[i][5] = high.y, values[i][6] = high.z, values[i][7] = high.w;
      }
      const int permuted = octet ^ (row_vectors_ == kVectors ? place_ : place_ / 2 % kOctets);
      auto* const to = reinterpret_cast<uint4*>(stage) + (first + place_) * row_vectors_ + permuted;
      alignas(16) __half2 numbers[kTurns][4];
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          numbers[i][n] =
              __floats2half2_rn(values[i][2 * n] * scale_, values[i][2 * n + 1] * scale_);
        }
        if (first + i * kPlaces < places_) {
          to[i * kPlaces * row_vectors_] = *reinterpret_cast<const uint4*>(numbers[i]);
        }
      }
      note(values, numbers);
    }
    /// Of all magnitudes that are finite.
    __device__ MagnitudeBits largest() const {
      return max(exact_.bits(), __float_as_uint(__half2float(greatest_) / scale_));
    }

   private:
    static constexpr int kVectors = 8, kOctets = kPieceChannels / 8;
    static_assert(!kConverts || kWarpPlaces * kConverters / 32 == kPiecePlaces);

    // The scaled numbers tell the largest magnitude unless it is large or small. Only then are the
    // values themselves compared.
    __device__ __forceinline__ void note(const float (&values)[kTurns][8],
                                         const __half2 (&numbers)[kTurns][4]) {
      constexpr float kSmall = 0x1p-2f, kLarge = 0x1p14f;
      __half2 most = __habs2(numbers[0][0]);
#pragma unroll
      for (int i = 1; i < 4 * kTurns; ++i) most = __hmax2(most, __habs2(numbers[i / 4][i % 4]));
      const __half greater = __hmax(__low2half(most), __high2half(most));
      if (greater >= __half(kSmall) && greater < __half(kLarge)) {
        greatest_ = __hmax(greatest_, greater);
      } else {
#pragma unroll
        for (int i = 0; i < 8 * kTurns; ++i) exact_.add(values[i / 8][i % 8]);
      }
    }

    const float scale_;
    const int places_, row_vectors_, octet_, first_, place_;
    __half greatest_;
    LargestFinite exact_;
  };
};

}  // namespace megaconv::cuda
