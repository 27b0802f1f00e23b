// SPDX-License-Identifier: Apache-2.0
// Filter, input and output transform tasks for tensor cores: V and U are FP16 operands of a tensor
// tile. The transforms themselves are those of winograd_transforms.cuh, all in FP32; only what
// becomes of their results differs. x and w are scaled by guesses (scale_guess.cuh).
//
//   V, U   by positions, operands of Tile (TensorOperand, RowOperand); behind U an OperandFooter
#pragma once

#include "tasks/cuda/block_store.cuh"
#include "tasks/cuda/scale_guess.cuh"
#include "tasks/cuda/tensor_tile.cuh"
#include "tasks/winograd/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

/// kLoadsAhead: input tasks load a channel while they transform the one before; takes registers.
template <int kM, Points kPoints, Layout kLayout, class Tile, class Stored, bool kLoadsAhead>
struct WinogradTensorTransforms {
  static constexpr int kThreads = Tile::kThreads;
  using Operand = typename Tile::Operand;
  using Base = WinogradTransforms<kM, kPoints, kLayout, kThreads, Stored, typename Tile::NumberOfM>;
  static constexpr int kPositions = Base::kPositions;

  // Scaled numbers from kLeast to kMost keep all bits: of split ones the low halves, too, even
  // where they are 2^5 times smaller than the largest. The guesses suit |V| from 1 to 2^13 and |U|
  // from 2^-7 to 2^6, single numbers 2^5 less as well.
  static constexpr float kLeast = Operand::kParts == 2 ? 0x1p3f : 0x1p-2f;
  static constexpr float kMost = 65504;  // of FP16
  static constexpr ScaleGuess kInputGuess{0x1p3f, kLeast, kMost};
  static constexpr ScaleGuess kFilterGuess{0x1p10f, kLeast, kMost};

  /// Elements of a position of V or U.
  static __device__ std::int64_t position_stride(const TaskArgs& a, int rows) {
    return static_cast<std::int64_t>(a.c_padded) * rows * Operand::kParts;
  }
  static __device__ OperandFooter& footer(const TaskArgs& a) {
    const int chunks = (a.k_padded + a.filters_per_gemm_task - 1) / a.filters_per_gemm_task;
    return *reinterpret_cast<OperandFooter*>(
        reinterpret_cast<__half*>(a.u) + chunks * kPositions * position_stride(a, Tile::kFilters));
  }

  static __device__ void filter(const TaskArgs& a, std::uint32_t block) {
    const typename Base::FilterChunk chunk(a, block);
    const std::int64_t stride = position_stride(a, Tile::kFilters);
    LargestFinite most;
    // A thread takes two channels of a filter, four neighbours an octet, or all a row.
    const int pairs = Operand::kInRows ? chunk.num_c / 2 : 4;
    for (int item = threadIdx.x; item < chunk.num_k * chunk.num_c / 2; item += kThreads) {
      const int k = chunk.first_k + item / pairs % chunk.num_k;
      const int c = chunk.first_c + item / pairs / chunk.num_k * 8 + item % pairs * 2;
      __half* u =
          reinterpret_cast<__half*>(a.u) + k / a.filters_per_gemm_task * kPositions * stride +
          Operand::element(Tile::filter_row(k % a.filters_per_gemm_task), c, Tile::kFilters);
      Base::template transform_filter<2, float>(a, k, c, [&](const Vec<2>& value) {
        most.add(value.lane[0]);
        most.add(value.lane[1]);
        const SplitPair pair = split_pair(value.lane[0] * a.w_scale, value.lane[1] * a.w_scale);
        *reinterpret_cast<__half2*>(u) = pair.high;
        if constexpr (Operand::kParts == 2) {
          *reinterpret_cast<__half2*>(u + Operand::next_part(Tile::kFilters)) = pair.low;
        }
        u += stride;
      });
    }
    publish_to_copy_engine();
    note_magnitude<kThreads>(most.bits(), &footer(a).most[block]);
    if (block == 0 && threadIdx.x == 0) footer(a).scale = a.w_scale;
  }

  /// V of some channels of some tiles on their way to memory, collected in shared memory so that
  /// TMA writes long runs. Neighbouring threads take what lies side by side in x:
  /// channels in NHWC, else tiles, whose rows are a sector of memory each.
  struct Patch {
    static constexpr int kOctets = kLayout == Layout::nchw ? 1 : 2, kTiles = 64 / kOctets;
    static constexpr int kWarpChannels = kLayout == Layout::nchw ? 4 : 8;
    static constexpr int kWarpTiles = 32 / kWarpChannels;
    __half value[kPositions][Operand::kParts][kOctets][kTiles][8];
  };
  // While one is written to memory, the next is computed, if both fit.
  static constexpr int kPatches = 2 / Operand::kParts;
  static constexpr int kPatchBytes =
      Operand::kInRows ? 0 : kPatches * static_cast<int>(sizeof(Patch));

  static __device__ void input(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                               std::byte* shared) {
    const InputPart part(a, group, block);
    if constexpr (!Operand::kInRows) {
      input_patches(a, part, reinterpret_cast<Patch*>(shared));
    } else if (a.c % 2 == 0 && are_aligned<Vec<2, Stored>>(a.x)) {
      input_rows<2>(a, part);
    } else {
      input_rows<1>(a, part);
    }
    publish_to_copy_engine();
  }
  /// Of a group.
  static __device__ std::uint32_t input_tasks(const TaskArgs& a) {
    return static_cast<std::uint32_t>(a.tile_chunks) *
           static_cast<std::uint32_t>(a.input_channel_chunks);
  }

  static constexpr int kOutputBytes = Base::kOutputBytes;
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                                std::byte* shared) {
    const float of_input = 1.0f / a.x_scale, of_filter = 1.0f / footer(a).scale;
    // The smaller factor first: no step overflows where the result does not.
    const float first = fminf(of_input, of_filter), second = fmaxf(of_input, of_filter);
    Base::output(a, group, block, shared, [=](float sum) { return sum * first * second; });
  }

 private:
  // What an input task is.
  struct InputPart {
    std::uint32_t group, block;
    typename Base::TileChunk tiles;
    int first_tile;  // of all
    int first_c, end_c;
    __device__ InputPart(const TaskArgs& a, std::uint32_t own_group, std::uint32_t own_block)
        : group(own_group),
          block(own_block),
          tiles(a, static_cast<int>(group), static_cast<int>(block)),
          first_tile(static_cast<int>(group) * a.group_tiles + tiles.first) {
      const int chunk = static_cast<int>(block) / a.tile_chunks;
      first_c = chunk * a.channels_per_input_task;
      end_c =
          chunk + 1 == a.input_channel_chunks ? a.c_padded : first_c + a.channels_per_input_task;
    }
  };

  // Notes the largest |V| of an input task, by all threads. `most`: of a thread, scaled.
  // find(largest) adds all V of a thread anew: an infinity came from one in x, or from too large a
  // scale, and very small numbers may have become zeros. What was the largest one then?
  template <class Find>
  static __device__ void note_most(const TaskArgs& a, const InputPart& part, __half2 most,
                                   Find&& find) {
    LargestFinite largest;
    const float scaled = fmaxf(__low2float(most), __high2float(most));
    const bool too_large = __syncthreads_or(scaled > kMost) != 0;
    if (too_large || __syncthreads_or(scaled >= kLeast) == 0) {
      find(largest);
    } else {
      largest.add(scaled / a.x_scale);
    }
    note_magnitude<kThreads>(largest.bits(),
                             &a.x_magnitudes[part.group * input_tasks(a) + part.block]);
  }

  static __device__ void input_patches(const TaskArgs& a, const InputPart& part, Patch* patches) {
    const auto for_each_patch = [&](auto&& take) {
      for (int tile = 0; tile < part.tiles.count; tile += Patch::kTiles) {
        PatchPart in_patch(a, part.first_tile + tile, part.tiles.count - tile, part.first_c,
                           part.end_c);
        for (int octet = part.first_c / 8; octet < part.end_c / 8; octet += Patch::kOctets) {
          take(in_patch, tile, octet);
        }
      }
    };
    int next = 0;
    __half2 most = {};
    for_each_patch([&](PatchPart& in_patch, int first_tile, int octet) {
      Patch& patch = patches[next++ % kPatches];
      wait_until_read<kPatches - 1>();
      __syncthreads();
      in_patch.for_each(a, octet * 8, [&](int tile, int channel, int col, const auto& rows) {
        put_column(&patch.value[col][0][channel / 8][Tile::tile_row(tile)][channel % 8], rows,
                   a.x_scale, most);
      });
      publish_shared();
      __syncthreads();
      write(a, patch, part.group, part.tiles.first + first_tile, part.tiles.count - first_tile,
            octet);
    });
    note_most(a, part, most, [&](LargestFinite& largest) {
      for_each_patch([&](PatchPart& in_patch, int, int octet) {
        in_patch.for_each(a, octet * 8, [&](int, int, int, const auto& rows) {
          for (const Vec<1>& value : rows) largest.add(value.lane[0]);
        });
      });
    });
    wait_until_stored();
  }

  // V in rows: the lanes of a warp have neighbouring channels of the same tile, two each. Then
  // whole lines of x are loaded and of V stored, and no lane waits for another one's padding.
  // kOfLoad: channels that a load has; C is a multiple.
  template <int kOfLoad>
  static __device__ void input_rows(const TaskArgs& a, const InputPart& part) {
    const std::int64_t stride = position_stride(a, Tile::kRows);
    __half* const slot =
        reinterpret_cast<__half*>(a.v) + part.group % a.v_slots * kPositions * stride;
    __half2 most = {};
    for_each_column<kOfLoad>(a, part, [&](int tile, int c, int col, const auto& rows) {
      __half* v = slot + Operand::element(part.tiles.first + tile, c, Tile::kRows) + col * stride;
#pragma unroll
      for (int row = 0; row < Base::kAlpha; ++row, v += Base::kAlpha * stride) {
        const __half2 pair =
            __floats2half2_rn(rows[row].lane[0] * a.x_scale, rows[row].lane[1] * a.x_scale);
        most = __hmax2(most, __habs2(pair));
        *reinterpret_cast<__half2*>(v) = pair;
      }
    });
    note_most(a, part, most, [&](LargestFinite& largest) {
      for_each_column<kOfLoad>(a, part, [&](int, int, int, const auto& rows) {
        for (const Vec<2>& pair : rows) largest.add(pair.lane[0]), largest.add(pair.lane[1]);
      });
    });
  }
  // Calls put(tile of the task, channel, column, rows of V) for what a thread has, two channels
  // each.
  template <int kOfLoad, class Put>
  static __device__ void for_each_column(const TaskArgs& a, const InputPart& part, Put&& put) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int tile = warp; tile < part.tiles.count; tile += kThreads / 32) {
      const typename Base::Window window(a, part.first_tile + tile);
#pragma unroll 1
      for (int c = part.first_c + lane * 2; c < part.end_c; c += Operand::kDepth) {
        Vec<2> d[Base::kAlpha][Base::kAlpha];
        Base::template load_channels<kOfLoad>(a, window, c, d);
        Base::transform_input(d, [&](int col, const auto& rows) { put(tile, c, col, rows); });
      }
    }
  }

  // The tile that a thread transforms for one patch after the other, in some channels of each.
  class PatchPart {
   public:
    /// Of num_tiles tiles from first_tile of all on; channels [first_c, end_c).
    __device__ PatchPart(const TaskArgs& a, int first_tile, int num_tiles, int first_c, int end_c)
        : exists_(tile() < num_tiles),
          end_c_(end_c),
          window_(a, first_tile + (exists_ ? tile() : 0)) {
      if constexpr (kLoadsAhead) load_next(a, first_c + channel());
    }
    /// Calls put(tile and channel of the patch, column, rows of V) for all columns. Patches come in
    /// order.
    template <class Put>
    __device__ void for_each(const TaskArgs& a, int first_c, Put&& put) {
      if (!exists_) return;
#pragma unroll 1
      for (int c = channel(); c < Patch::kOctets * 8; c += Patch::kWarpChannels) {
        Input input;
        if constexpr (kLoadsAhead) {
          input = next_;
          load_next(a, first_c + c + Patch::kWarpChannels);
        } else {
          Base::load_tile(a, window_, first_c + own(c), input.value);
        }
        Base::transform_input(input.value, [&](int col, const Vec<1>(&rows)[Base::kAlpha]) {
          put(tile(), own(c), col, rows);
        });
      }
    }

   private:
    static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
    static __device__ int tile() {
      static_assert(Patch::kTiles == Patch::kWarpTiles * kThreads / 32);
      return static_cast<int>(threadIdx.x) / 32 * Patch::kWarpTiles +
             (Base::kTilesSideBySide ? lane() % Patch::kWarpTiles : lane() / Patch::kWarpChannels);
    }
    static __device__ int channel() {
      return Base::kTilesSideBySide ? lane() / Patch::kWarpTiles : lane() % Patch::kWarpChannels;
    }

    // Every other pair of tiles takes the channels of an octet in another order: tile_row() puts
    // them into the same banks.
    static __device__ int own(int c) { return Base::kTilesSideBySide ? c ^ tile() / 2 % 2 * 4 : c; }

    struct Input {
      Vec<1> value[Base::kAlpha][Base::kAlpha];
    };
    __device__ void load_next(const TaskArgs& a, int c) {
      if (exists_ && c < end_c_) Base::load_tile(a, window_, own(c), next_.value);
    }

    const bool exists_;
    const int end_c_;
    const typename Base::Window window_;
    Input next_;
  };

  // A column of V as numbers of an operand in a patch; `most` becomes the largest magnitude, two at
  // a time.
  static __device__ void put_column(__half* to, const Vec<1> (&rows)[Base::kAlpha], float scale,
                                    __half2& most) {
    constexpr int kNextPart = sizeof(Patch::value[0][0]) / sizeof(__half);
    constexpr int kNextRow = Base::kAlpha * sizeof(Patch::value[0]) / sizeof(__half);
#pragma unroll
    for (int row = 0; row < Base::kAlpha; row += 2, to += 2 * kNextRow) {
      const float first = rows[row].lane[0] * scale, second = rows[row + 1].lane[0] * scale;
      const __half2 high = __floats2half2_rn(first, second);
      most = __hmax2(most, __habs2(high));
      to[0] = __low2half(high);
      to[kNextRow] = __high2half(high);
      if constexpr (Operand::kParts == 2) {
        const float2 of_high = __half22float2(high);
        const __half2 low = __floats2half2_rn(first - of_high.x, second - of_high.y);
        to[kNextPart] = __low2half(low);
        to[kNextPart + kNextRow] = __high2half(low);
      }
    }
  }

  // Stores the first num_tiles of a patch, and those that they are permuted with.
  static __device__ void write(const TaskArgs& a, const Patch& patch, std::uint32_t group,
                               int tile_in_group, int num_tiles, int first_octet) {
    if constexpr (Base::kTilesSideBySide) {
      constexpr int kWhole = Tile::kPermuted;
      num_tiles = (num_tiles + kWhole - 1) / kWhole * kWhole;
    }
    const auto num_bytes = static_cast<std::uint32_t>(min(num_tiles, Patch::kTiles) * 16);
    const std::int64_t stride = position_stride(a, Tile::kRows);
    __half* const slot = reinterpret_cast<__half*>(a.v) + group % a.v_slots * kPositions * stride;
    constexpr int kRuns = kPositions * Operand::kParts * Patch::kOctets;
    using Share = ShareOfRuns<kThreads>;
    for (int run = Share::first(); run < kRuns; run += Share::kStep) {
      const int octet = run % Patch::kOctets, part = run / Patch::kOctets % Operand::kParts;
      const int position = run / Patch::kOctets / Operand::kParts;
      store_run(slot + position * stride + Operand::octet(first_octet + octet, Tile::kRows) +
                    part * Operand::next_part(Tile::kRows) + tile_in_group * 8,
                &patch.value[position][part][octet], num_bytes);
    }
    commit_runs();
  }
};

}  // namespace megaconv::cuda
