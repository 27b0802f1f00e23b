// SPDX-License-Identifier: Apache-2.0
// Arrays in device memory that belong to a plan, filled when it is made.
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

}  // namespace megaconv::cuda
