// SPDX-License-Identifier: Apache-2.0
// Arrays in device memory that belong to a plan, filled when it is made, and copies for one run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cuda/error.hpp"

namespace megaconv::cuda {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    if (size_ == 0) return;
    check(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)),
          "task array of " + std::to_string(size_ * sizeof(T)) + " bytes");
    const cudaError_t code =
        cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
    if (code != cudaSuccess) cudaFree(data_);
    check(code, "upload of the task array");
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);  // even freeing nothing would end a stream capture
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A copy in device memory for what is enqueued on a stream as long as this exists.
class StreamCopy {
 public:
  StreamCopy(const void* from, std::size_t bytes, cudaStream_t stream) : stream_(stream) {
    const std::string what = "copy of " + std::to_string(bytes) + " bytes";
    check(cudaMallocAsync(&data_, bytes, stream), what);
    const cudaError_t code = cudaMemcpyAsync(data_, from, bytes, cudaMemcpyDeviceToDevice, stream);
    if (code != cudaSuccess) cudaFreeAsync(data_, stream);
    check(code, what);
  }
  ~StreamCopy() { cudaFreeAsync(data_, stream_); }
  StreamCopy(const StreamCopy&) = delete;
  StreamCopy& operator=(const StreamCopy&) = delete;
  const void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  const cudaStream_t stream_;
};

}  // namespace megaconv::cuda
