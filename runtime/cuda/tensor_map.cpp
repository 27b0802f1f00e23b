// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tensor_map.hpp"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>

#include "runtime/cuda/error.hpp"

namespace megaconv::cuda {
namespace {

// A function of the driver, which this library is not linked to.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  constexpr unsigned kCuda12 = 12000;
  check(cudaGetDriverEntryPointByVersion(name, &function, kCuda12, cudaEnableDefault, &found),
        name);
#else
  check(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found), name);
#endif
  if (found != cudaDriverEntryPointSuccess) {
    throw Error(Status::device_error, std::string(name) + ": the CUDA driver has no such function");
  }
  return reinterpret_cast<Function>(function);
}

CUtensorMapDataType type_of(Elements elements) {
  switch (elements) {
    case Elements::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case Elements::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case Elements::f32_rounded_to_tf32:
      return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

cuuint64_t bytes_of(Elements elements) {
  return elements == Elements::f16 || elements == Elements::bf16 ? 2 : 4;
}

// Of rows of so many bytes.
CUtensorMapSwizzle swizzle_of(cuuint64_t row_bytes) {
  return row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

void check_made(CUresult code, const char* name) {
  if (code == CUDA_SUCCESS) return;
  throw Error(Status::device_error,
              std::string("tensor map of ") + name + ": CUDA driver error " + std::to_string(code));
}

cuuint64_t u64(std::int64_t value) { return static_cast<cuuint64_t>(value); }

// Boxes of a tensor. Strides in bytes, of the second dimension on.
template <cuuint32_t kRank>
CUtensorMap tiled_tensor(const char* name, Elements elements, const void* address,
                         const std::array<cuuint64_t, kRank>& sizes,
                         const std::array<cuuint64_t, kRank - 1>& strides,
                         const std::array<cuuint32_t, kRank>& box, CUtensorMapSwizzle swizzle) {
  check_whole_octets(name, address);
  static const auto encode =
      driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  std::array<cuuint32_t, kRank> steps;
  steps.fill(1);
  CUtensorMap map{};
  check_made(encode(&map, type_of(elements), kRank, const_cast<void*>(address), sizes.data(),
                    strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                    swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
             name);
  return map;
}

}  // namespace

void check_whole_octets(const char* name, const void* address) {
  constexpr std::uintptr_t kAlignment = 16;
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(address) % kAlignment;
  if (past == 0) return;
  throw Error(Status::invalid_argument,
              std::string(name) + ": its address is " + std::to_string(past) +
                  " bytes past a multiple of 16, must be a multiple for implicit GEMM in nhwc, "
                  "which reads it in place");
}

Elements elements_of(const ConvProblem& p) {
  return p.dtype == DataType::f16    ? Elements::f16
         : p.dtype == DataType::bf16 ? Elements::bf16
                                     : Elements::f32;
}

CUtensorMap pixel_tensor(const ConvProblem& p, const Pixels& pixels, const Stripes& stripes,
                         int stripe, int k_block_channels, int places) {
  check_whole_octets("x", pixels.x);
  static const auto encode =
      driver_function<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  constexpr cuuint32_t kRank = 4;
  const cuuint64_t bytes = bytes_of(pixels.elements);
  const cuuint64_t pixel_bytes = u64(pixels.pitch) * bytes;
  const cuuint64_t row_bytes = pixel_bytes * u64(pixels.row_pixels);
  // The columns that there are of the stripe's, padding included.
  const std::int64_t first = std::int64_t{stripe} * stripes.cols - p.pad_w;
  const std::int64_t end = stripes.by_taps ? p.w : first + stripes.pitch;
  const std::int64_t first_col = std::max<std::int64_t>(first, 0), end_col = std::min(end, p.w);
  const cuuint64_t sizes[kRank] = {u64(pixels.channels), u64(end_col - first_col), u64(p.h),
                                   u64(p.n)};
  const cuuint64_t strides[kRank - 1] = {pixel_bytes, row_bytes, row_bytes * u64(p.h)};
  // Rows begin with the padding, which the row before ends with if there is one stripe; so do
  // images.
  const int lower[] = {static_cast<int>(first - first_col), static_cast<int>(-p.pad_h)};
  int upper[] = {static_cast<int>(end - end_col), 0};
  if (stripes.by_taps) {  // to the last output's first tap
    upper[0] = static_cast<int>((p.q() - 1) * p.stride_w + 1 - p.pad_w - p.w);
    upper[1] = static_cast<int>((p.p() - 1) * p.stride_h + 1 - p.pad_h - p.h);
  }
  const cuuint32_t steps[kRank] = {1, static_cast<cuuint32_t>(p.stride_w),
                                   static_cast<cuuint32_t>(p.stride_h), 1};
  CUtensorMap map{};
  const auto* const x = static_cast<const std::byte*>(pixels.x) + u64(first_col) * pixel_bytes;
  check_made(encode(&map, type_of(pixels.elements), kRank, const_cast<std::byte*>(x), sizes,
                    strides, lower, upper, static_cast<cuuint32_t>(k_block_channels),
                    static_cast<cuuint32_t>(places), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                    swizzle_of(u64(k_block_channels) * bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
             "x");
  return map;
}

CUtensorMap abreast_tensor(const ConvProblem& p, const Pixels& pixels, const Stripes& stripes,
                           int k_block_channels, int rows) {
  const cuuint64_t bytes = bytes_of(pixels.elements), pixel_bytes = u64(pixels.pitch) * bytes;
  const cuuint64_t row_bytes = pixel_bytes * u64(pixels.row_pixels);
  return tiled_tensor<4>(
      "x", pixels.elements, pixels.x, {u64(pixels.channels), u64(p.w), u64(p.n), u64(p.h)},
      {pixel_bytes, row_bytes * u64(p.h), row_bytes},
      {static_cast<cuuint32_t>(k_block_channels), static_cast<cuuint32_t>(stripes.pitch),
       static_cast<cuuint32_t>(stripes.images), static_cast<cuuint32_t>(rows)},
      swizzle_of(u64(k_block_channels) * bytes));
}

CUtensorMap box_tensor(const ConvProblem& p, const void* x, const DepthwiseBox& box) {
  const Elements elements = elements_of(p);
  const cuuint64_t pixel_bytes = u64(p.c) * bytes_of(elements), row_bytes = pixel_bytes * u64(p.w);
  return tiled_tensor<4>("x", elements, x, {u64(p.c), u64(p.w), u64(p.h), u64(p.n)},
                         {pixel_bytes, row_bytes, row_bytes * u64(p.h)},
                         {static_cast<cuuint32_t>(box.channels), static_cast<cuuint32_t>(box.cols),
                          static_cast<cuuint32_t>(box.rows), 1},
                         CU_TENSOR_MAP_SWIZZLE_NONE);
}

CUtensorMap filter_tensor(const ConvProblem& p, const void* w, std::int64_t tap_numbers,
                          Elements elements, int k_block_channels, int filters) {
  const cuuint64_t tap_bytes = u64(tap_numbers) * bytes_of(elements);
  return tiled_tensor<3>(
      "w", elements, w, {u64(tap_numbers), u64(p.k), u64(p.r * p.s)},
      {tap_bytes * u64(p.r * p.s), tap_bytes},
      {static_cast<cuuint32_t>(k_block_channels), static_cast<cuuint32_t>(filters), 1},
      swizzle_of(u64(k_block_channels) * bytes_of(elements)));
}

CUtensorMap output_tensor(const char* name, const ConvProblem& p, const void* y, int cols,
                          bool in_order) {
  constexpr cuuint32_t kRowBytes = 128;
  const Elements elements = elements_of(p);
  const auto bytes = static_cast<cuuint32_t>(bytes_of(elements));
  const cuuint64_t pixel_bytes = u64(p.k) * bytes, row_bytes = pixel_bytes * u64(p.q());
  const std::array<cuuint64_t, 4> sizes =
      in_order ? std::array<cuuint64_t, 4>{u64(p.k), u64(p.n * p.p() * p.q()), 1, 1}
               : std::array<cuuint64_t, 4>{u64(p.k), u64(p.q()), u64(p.p()), u64(p.n)};
  return tiled_tensor<4>(name, elements, y, sizes, {pixel_bytes, row_bytes, row_bytes * u64(p.p())},
                         {kRowBytes / bytes, static_cast<cuuint32_t>(cols), 1, 1},
                         CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace megaconv::cuda
