// SPDX-License-Identifier: Apache-2.0
// cudnnConvolutionForward with each of its algorithms.
#include <memory>
#include <type_traits>
#include <utility>

#include "tools/peers/cudnn.hpp"

namespace megaconv::cli::cudnn {
namespace {

template <class Raw, const auto& kCreate, const auto& kDestroy>
class Owned {
 public:
  Owned() { check(kCreate(&raw_), "descriptor"); }
  ~Owned() { kDestroy(raw_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Raw get() const { return raw_; }

 private:
  Raw raw_ = nullptr;
};

int i32(std::int64_t value) { return static_cast<int>(value); }

/// The descriptors of one problem.
struct Descriptors {
  Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor> x, y;
  Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor> w;
  Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
        cudnnDestroyConvolutionDescriptor>
      convolution;

  explicit Descriptors(const TensorView& tensors) {
    const ConvProblem& p = tensors.problem;
    const Arithmetic arithmetic = arithmetic_of(p.dtype, tensors.precision);
    const cudnnTensorFormat_t order =
        p.layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    check(cudnnSetTensor4dDescriptor(x.get(), order, arithmetic.storage, i32(p.n), i32(p.c),
                                     i32(p.h), i32(p.w)),
          "x");
    check(cudnnSetTensor4dDescriptor(y.get(), order, arithmetic.storage, i32(p.n), i32(p.k),
                                     i32(p.p()), i32(p.q())),
          "y");
    check(cudnnSetFilter4dDescriptor(w.get(), arithmetic.storage, order, i32(p.k),
                                     i32(p.c / p.groups), i32(p.r), i32(p.s)),
          "w");
    check(cudnnSetConvolution2dDescriptor(
              convolution.get(), i32(p.pad_h), i32(p.pad_w), i32(p.stride_h), i32(p.stride_w),
              i32(p.dilation_h), i32(p.dilation_w), CUDNN_CROSS_CORRELATION, arithmetic.sums),
          "convolution");
    check(cudnnSetConvolutionMathType(convolution.get(), arithmetic.math), "math type");
    check(cudnnSetConvolutionGroupCount(convolution.get(), i32(p.groups)), "groups");
  }
};

constexpr std::pair<const char*, cudnnConvolutionFwdAlgo_t> kAlgorithms[] = {
    {"IMPLICIT_GEMM", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM},
    {"IMPLICIT_PRECOMP_GEMM", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM},
    {"GEMM", CUDNN_CONVOLUTION_FWD_ALGO_GEMM},
    {"DIRECT", CUDNN_CONVOLUTION_FWD_ALGO_DIRECT},
    {"FFT", CUDNN_CONVOLUTION_FWD_ALGO_FFT},
    {"FFT_TILING", CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING},
    {"WINOGRAD", CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD},
    {"WINOGRAD_NONFUSED", CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED},
};

}  // namespace

std::vector<Algorithm> legacy_algorithms(cudnnHandle_t handle, const TensorView& tensors) {
  const auto descriptors = std::make_shared<Descriptors>(tensors);
  const Descriptors& d = *descriptors;
  std::vector<Algorithm> algorithms;
  for (const auto& [name, id] : kAlgorithms) {
    Algorithm& algorithm = algorithms.emplace_back();
    algorithm.name = std::string(name) + ", " + to_string(tensors.problem.layout);
    std::size_t bytes = 0;
    const cudnnStatus_t status = cudnnGetConvolutionForwardWorkspaceSize(
        handle, d.x.get(), d.w.get(), d.convolution.get(), d.y.get(), id, &bytes);
    if (status != CUDNN_STATUS_SUCCESS) {
      algorithm.obstacle = status_text(status);
      continue;
    }
    algorithm.workspace_bytes = bytes;
    algorithm.enqueue = [handle, descriptors, tensors, bytes, id = id](cudaStream_t stream,
                                                                       void* workspace) {
      const Descriptors& own = *descriptors;
      const float one = 1, zero = 0;
      check(cudnnSetStream(handle, stream), "stream");
      check(cudnnConvolutionForward(handle, &one, own.x.get(), tensors.x, own.w.get(), tensors.w,
                                    own.convolution.get(), id, workspace, bytes, &zero, own.y.get(),
                                    tensors.y),
            "cudnnConvolutionForward");
    };
  }
  return algorithms;
}

}  // namespace megaconv::cli::cudnn
