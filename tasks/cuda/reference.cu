// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/tabulate.h>
#include <thrust/transform_reduce.h>

#include <string>

#include "megaconv/error.hpp"
#include "tasks/activation.hpp"
#include "tasks/cuda/reference.hpp"

namespace megaconv::cuda {
namespace {

// Thrust reports by exceptions of its own.
template <class Body>
auto guarded(const char* doing, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    cudaGetLastError();
    throw Error(Status::device_error, std::string(doing) + ": " + error.what());
  }
}

template <class T>
struct FillingAt {
  Filling filling;
  std::uint64_t seed;
  __device__ T operator()(std::int64_t i) const {
    return from_float<T>(filling.at(seed, static_cast<std::uint64_t>(i)));
  }
};

// One output in double. Neighbouring numbers are neighbouring filters, whose weights are neighbours
// in wt [C / groups][R S][K], while x is the same for all of them.
template <class T>
struct OutputAt {
  ConvProblem problem;
  std::int64_t p, q;
  Strides in, out;
  const T *x, *wt, *scale, *bias, *residual;
  double *y, *magnitude;

  __device__ void operator()(std::int64_t index) const {
    const std::int64_t k = index % problem.k, pixel = index / problem.k % (p * q);
    const std::int64_t n = index / problem.k / (p * q);
    const std::int64_t channels = problem.c / problem.groups;
    const std::int64_t first_c = k / (problem.k / problem.groups) * channels;
    const std::int64_t row = pixel / q * problem.stride_h - problem.pad_h;
    const std::int64_t col = pixel % q * problem.stride_w - problem.pad_w;
    double sum = 0, abs_sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const T* plane = x + n * in.image + (first_c + c) * in.channel;
      for (std::int64_t r = 0; r < problem.r; ++r) {
        const std::int64_t h = row + r * problem.dilation_h;
        if (h < 0 || h >= problem.h) continue;
        for (std::int64_t s = 0; s < problem.s; ++s) {
          const std::int64_t w = col + s * problem.dilation_w;
          if (w < 0 || w >= problem.w) continue;
          const double value = to_float(plane[(h * problem.w + w) * in.pixel]);
          const double weight = to_float(wt[((c * problem.r + r) * problem.s + s) * problem.k + k]);
          sum += value * weight;
          abs_sum += fabs(value * weight);
        }
      }
    }
    const std::int64_t at = n * out.image + k * out.channel + pixel * out.pixel;
    if (problem.epilogue.scale) {
      const double factor = to_float(scale[k]);
      sum *= factor;
      abs_sum *= fabs(factor);
    }
    if (problem.epilogue.bias) {
      const double term = to_float(bias[k]);
      sum += term;
      abs_sum += fabs(term);
    }
    if (problem.epilogue.residual) {
      const double term = to_float(residual[at]);
      sum += term;
      abs_sum += fabs(term);
    }
    y[at] = activated(problem.epilogue.activation, sum);
    magnitude[at] = abs_sum + error_of(problem.epilogue.activation).offset;
  }
};

template <class T>
struct TurnedWeight {
  std::int64_t k, taps;
  Strides filter;
  const T* w;
  __device__ T operator()(std::int64_t index) const {
    const std::int64_t tap = index / k % taps, c = index / k / taps;
    return w[index % k * filter.image + c * filter.channel + tap * filter.pixel];
  }
};

template <class T>
struct Reorder {
  Extents extents;
  const T* from;
  Strides from_strides;
  T* to;
  Strides to_strides;
  __device__ void operator()(std::int64_t index) const {
    const std::int64_t pixel = index % extents.pixels;
    const std::int64_t channel = index / extents.pixels % extents.channels;
    const std::int64_t image = index / extents.pixels / extents.channels;
    const auto at = [&](const Strides& s) {
      return image * s.image + channel * s.channel + pixel * s.pixel;
    };
    to[at(to_strides)] = from[at(from_strides)];
  }
};

struct Sum {
  __device__ ErrorSums operator()(ErrorSums a, const ErrorSums& b) const { return a += b; }
};

struct ByteIs {
  unsigned char value;
  __device__ bool operator()(unsigned char byte) const { return byte == value; }
};

const unsigned char* bytes_of(const void* memory) {
  return static_cast<const unsigned char*>(memory);
}

}  // namespace

void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
          std::uint64_t seed) {
  guarded("filling a tensor", [&] {
    with_storage(dtype, [&](auto number) {
      using T = decltype(number);
      T* const begin = static_cast<T*>(values);
      thrust::tabulate(thrust::device, begin, begin + count, FillingAt<T>{filling, seed});
    });
  });
}

void reference_convolution(const ConvProblem& problem, const Tensors& tensors, double* y,
                           double* magnitude) {
  guarded("the reference in double", [&] {
    with_storage(problem.dtype, [&](auto number) {
      using T = decltype(number);
      const auto typed = [](const void* tensor) { return static_cast<const T*>(tensor); };
      thrust::device_vector<T> wt(static_cast<std::size_t>(problem.w_size()));
      thrust::tabulate(
          thrust::device, wt.begin(), wt.end(),
          TurnedWeight<T>{problem.k, problem.r * problem.s, w_strides(problem), typed(tensors.w)});
      const std::int64_t p = problem.p(), q = problem.q();
      thrust::for_each_n(
          thrust::device, thrust::counting_iterator<std::int64_t>(0), problem.y_size(),
          OutputAt<T>{problem, p, q, x_strides(problem), y_strides(problem, p * q),
                      typed(tensors.x), thrust::raw_pointer_cast(wt.data()), typed(tensors.scale),
                      typed(tensors.bias), typed(tensors.residual), y, magnitude});
    });
  });
}

ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                    const double* magnitude) {
  return guarded("comparing with the reference", [&] {
    return with_storage(tiling.problem.dtype, [&](auto number) {
      using T = decltype(number);
      const TileErrors<T> errors_of(tiling, static_cast<const T*>(y), reference, magnitude);
      const thrust::counting_iterator<std::int64_t> begin(0), end(errors_of.num_tiles());
      return report(tiling, thrust::transform_reduce(thrust::device, begin, end, errors_of,
                                                     ErrorSums{}, Sum{}));
    });
  });
}

Mismatch mismatch(DataType dtype, const void* y, const double* reference, std::int64_t count) {
  return guarded("comparing with the reference", [&] {
    return with_storage(dtype, [&](auto number) {
      using T = decltype(number);
      const thrust::counting_iterator<std::int64_t> begin(0), end(count);
      const Differs<T> differs{static_cast<const T*>(y), reference};
      Mismatch found;
      found.count = thrust::count_if(thrust::device, begin, end, differs);
      if (found.count != 0) found.first = *thrust::find_if(thrust::device, begin, end, differs);
      return found;
    });
  });
}

void reorder(DataType dtype, const Extents& extents, const void* from, const Strides& from_strides,
             void* to, const Strides& to_strides) {
  guarded("reordering a tensor", [&] {
    with_storage(dtype, [&](auto number) {
      using T = decltype(number);
      thrust::for_each_n(thrust::device, thrust::counting_iterator<std::int64_t>(0),
                         extents.images * extents.channels * extents.pixels,
                         Reorder<T>{extents, static_cast<const T*>(from), from_strides,
                                    static_cast<T*>(to), to_strides});
    });
  });
}

bool same_bytes(const void* a, const void* b, std::size_t bytes) {
  return guarded("comparing memory", [&] {
    // Counted: equal() and all_of() reduce pairs whose padding initcheck takes for uninitialised
    // memory.
    return thrust::inner_product(thrust::device, bytes_of(a), bytes_of(a) + bytes, bytes_of(b),
                                 std::int64_t{0}, thrust::plus<std::int64_t>(),
                                 thrust::not_equal_to<unsigned char>()) == 0;
  });
}

bool all_bytes_are(const void* memory, std::byte value, std::size_t bytes) {
  return guarded("looking through memory", [&] {
    // Counted, as above.
    return thrust::count_if(thrust::device, bytes_of(memory), bytes_of(memory) + bytes,
                            ByteIs{static_cast<unsigned char>(value)}) ==
           static_cast<std::ptrdiff_t>(bytes);
  });
}

}  // namespace megaconv::cuda
