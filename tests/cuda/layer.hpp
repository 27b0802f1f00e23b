// SPDX-License-Identifier: Apache-2.0
// One layer on the device.
#pragma once

#include <cstddef>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/layer.hpp"

namespace megaconv::test {

template <class T>
std::vector<T> stored(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(from_float<T>(value));
  return result;
}

// One layer on the device, T its storage type: inputs uploaded, output and workspace poisoned.
template <class T = float>
class DeviceLayer {
 public:
  explicit DeviceLayer(const Layer& layer)
      : problem_(layer.problem),
        x_(stored<T>(layer.x)),
        w_(stored<T>(layer.w)),
        bias_(stored<T>(layer.bias)),
        residual_(stored<T>(layer.residual)),
        y_(layer.residual.size() * sizeof(T)) {}
  Tensors tensors() const {
    Tensors t;
    t.x = x_.get();
    t.w = w_.get();
    if (problem_.epilogue.bias) t.bias = bias_.get();
    if (problem_.epilogue.residual) t.residual = residual_.get();
    t.y = y_.get();
    return t;
  }
  std::vector<T> run(const Plan& plan) {
    DeviceBuffer workspace(plan.workspace_bytes());
    return run(plan, workspace);
  }
  std::vector<T> run(const Plan& plan, DeviceBuffer& workspace) {
    return run(plan, tensors(), workspace);
  }
  /// On other tensors, but to the same y.
  std::vector<T> run(const Plan& plan, const Tensors& arguments) {
    DeviceBuffer workspace(plan.workspace_bytes());
    return run(plan, arguments, workspace);
  }
  /// With a plan made for prepared filters; `in_place`: with the residual where y will be.
  std::vector<T> run_prepared(const Plan& plan, bool in_place = false) {
    const DeviceBuffer prepared(plan.prepared_filter_bytes());
    DeviceBuffer workspace(plan.workspace_bytes());
    plan.prepare_filters(w_.get(), prepared.get());
    Tensors arguments = tensors();
    arguments.w = nullptr;
    arguments.prepared_filters = prepared.get();
    y_.poison();
    if (in_place) put_residual(arguments);
    std::vector<T> y = run_on(plan, arguments, workspace);
    CHECK(prepared.guards_intact());
    return y;
  }
  /// With the residual where y will be.
  std::vector<T> run_in_place(const Plan& plan) {
    DeviceBuffer workspace(plan.workspace_bytes());
    Tensors arguments = tensors();
    put_residual(arguments);
    return run_on(plan, arguments, workspace);
  }

 private:
  void put_residual(Tensors& arguments) {
    arguments.residual = y_.get();
    require_cuda(
        cudaMemcpy(y_.get(), residual_.get(), residual_.bytes(), cudaMemcpyDeviceToDevice));
  }
  std::vector<T> run(const Plan& plan, const Tensors& arguments, DeviceBuffer& workspace) {
    y_.poison();
    return run_on(plan, arguments, workspace);
  }
  std::vector<T> run_on(const Plan& plan, const Tensors& arguments, DeviceBuffer& workspace) {
    plan.execute(arguments, workspace.get(), workspace.bytes());
    plan.wait(workspace.get());
    CHECK(y_.guards_intact());
    CHECK(workspace.guards_intact());
    return y_.download<T>();
  }

  ConvProblem problem_;
  DeviceBuffer x_, w_, bias_, residual_, y_;
};

}  // namespace megaconv::test
