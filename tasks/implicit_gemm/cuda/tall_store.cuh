// SPDX-License-Identifier: Apache-2.0
// Storers of tall tiles: a warp for each consumer warpgroup, which stores its outputs to y while
// the next tile is multiplied, and loads a residual before to where the outputs will be. Padded
// pixels are the pixels of y in order. Neighbouring threads have neighbouring vectors of a pixel:
// TMA would store boxes of 128 bytes, and rows of y that begin amid a sector of 32 bytes would cost
// it twice the time.
#pragma once

#include <cuda_pipeline.h>

#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape of tall tiles.
template <class Shape>
class TallStorers : Shape {
  using Shape::kGroupsOfPlaces;
  using typename Shape::OutputCursor, typename Shape::Shared, typename Shape::Stored;
  using typename Shape::Walk;
  static constexpr int kPlaces = kTallPlaces / kGroupsOfPlaces;

 public:
  /// A warp: outputs of a warpgroup's share of each tile.
  template <class Source, class Wait>
  static __device__ void store_outputs(const TaskArgs& a, int warpgroup, const Source& source,
                                       const Shared& shared, Wait wait) {
    OutputCursor output(a);
    Shape::store_tasks(source, shared, [&](const Task& task) {
      store_task(a, Walk(a, task), warpgroup, output, shared, wait);
    });
  }

 private:
  // Of pixels of a tensor and rows of shared memory, the same part: so many bytes each, from where
  // both begin.
  struct Part {
    std::byte* tensor;
    std::byte* rows;
    std::int64_t tensor_pitch;
    int row_pitch, num_rows, row_bytes;
  };
  static __device__ Part part_of(const TaskArgs& a, const float* tensor, int pixel, int first_k,
                                 int num_pixels, int num_filters, std::byte* rows, int row_pitch) {
    constexpr int kBytes = sizeof(Stored);
    const std::int64_t pitch = static_cast<std::int64_t>(a.k) * kBytes;
    auto* const begin = reinterpret_cast<std::byte*>(const_cast<float*>(tensor));
    return {begin + pixel * pitch + first_k * kBytes, rows, pitch, row_pitch, num_pixels,
            min(num_filters, a.k - first_k) * kBytes};
  }

  template <class Wait>
  static __device__ void store_task(const TaskArgs& a, const Walk& walk, int warpgroup,
                                    OutputCursor& output, const Shared& shared, Wait wait) {
    auto& ring = shared.barriers.output[warpgroup];
    const bool speaker = threadIdx.x % 32 == 0;
    const int at_once = output.in_parts() ? kColumnsOfPart : a.gemm_filters;
    const int pitch = output_pitch_of_tall(at_once, sizeof(Stored));
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      const int first = walk.first_place + tile * kTallPlaces + warpgroup * kPlaces;
      const int pixels = min(kPlaces, walk.end_place - first);
      for (int filter = 0; filter < a.gemm_filters; filter += at_once, output.advance()) {
        std::byte* const rows = reinterpret_cast<std::byte*>(shared.outputs) +
                                (warpgroup * output.stages + output.at.stage) * (kPlaces * pitch);
        const auto part_of_tensor = [&](const float* tensor) {
          return part_of(a, tensor, first, walk.first_k + filter, pixels,
                         min(at_once, a.gemm_filters - filter), rows, pitch);
        };
        if (a.residual != nullptr) {
          wait();
          load_residual(part_of_tensor(a.residual));
          if (speaker) shared.barriers.residual[warpgroup].arrive_full(0);
        }
        ring.wait_full(output.at);
        store(a, part_of_tensor(a.y));
        __syncwarp();
        if (speaker) ring.arrive_empty(output.at.stage);
      }
    }
  }
  static __device__ void store(const TaskArgs& a, const Part& part) {
    if (a.output_cols != 0) {
      store<uint4>(part);
    } else if (sizeof(Stored) == 2 && a.k % 2 == 0 &&
               reinterpret_cast<std::uintptr_t>(a.y) % sizeof(std::uint32_t) == 0) {
      store<std::uint32_t>(part);
    } else {
      store<Stored>(part);
    }
  }
  // In words, as many side by side as a pixel has: a warp has one pixel, or several.
  template <class Word>
  static __device__ void store(const Part& part) {
    constexpr int kWord = sizeof(Word), kBatch = kPlaces / 8;
    const int words = part.row_bytes / kWord, lane = static_cast<int>(threadIdx.x) % 32;
    for (int first = 0, across; first < words; first += across) {
      const int left = words - first;
      across = left > 16 ? 32 : left > 8 ? 16 : 8;
      const int down = 32 / across, row = lane / across, word = first + lane % across;
      if (word >= words) continue;
      const std::byte* from = part.rows + row * part.row_pitch + word * kWord;
      std::byte* to = part.tensor + row * part.tensor_pitch + word * kWord;
#pragma unroll 1
      for (int i = row; i < part.num_rows; i += kBatch * down) {
        Word batch[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          batch[j] = *reinterpret_cast<const Word*>(from + j * down * part.row_pitch);
        }
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          if (i + j * down >= part.num_rows) continue;
          *reinterpret_cast<Word*>(to + j * down * part.tensor_pitch) = batch[j];
        }
        from += kBatch * down * part.row_pitch;
        to += kBatch * down * part.tensor_pitch;
      }
    }
  }
  // Filters come in whole vectors.
  static __device__ void load_residual(const Part& part) {
    constexpr int kVector = sizeof(uint4);
    const int vectors = part.row_bytes / kVector, lane = static_cast<int>(threadIdx.x) % 32;
    for (int first = 0, across; first < vectors; first += across) {
      const int left = vectors - first;
      across = left > 16 ? 32 : left > 8 ? 16 : 8;
      const int down = 32 / across, vector = first + lane % across;
      if (vector >= vectors) continue;
      for (int i = lane / across; i < part.num_rows; i += down) {
        __pipeline_memcpy_async(part.rows + i * part.row_pitch + vector * kVector,
                                part.tensor + i * part.tensor_pitch + vector * kVector, kVector);
      }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
  }
};

}  // namespace megaconv::cuda
