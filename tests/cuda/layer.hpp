// SPDX-License-Identifier: Apache-2.0
// One layer with seeded data, on the host and on the device.
#pragma once

#include <cstddef>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"

namespace megaconv::test {

template <class T>
std::vector<T> stored(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(from_float<T>(value));
  return result;
}

// Floats that the problem's storage type can hold.
struct Layer {
  explicit Layer(const ConvProblem& p, bool integers)
      : problem(p),
        x(static_cast<std::size_t>(p.x_size())),
        w(static_cast<std::size_t>(p.w_size())),
        bias(static_cast<std::size_t>(p.k)),
        residual(static_cast<std::size_t>(p.y_size())) {
    if (integers) {
      fill_integers(x, 1);
      fill_integers(w, 2, 0.11, 576);
      fill_integers(bias, 3, 1.0);
      fill_integers(residual, 4, 1.0);
    } else {
      fill_normal(x, 1);
      fill_normal(w, 2);
      fill_normal(bias, 3);
      fill_normal(residual, 4);
    }
    with_storage(p.dtype, [&](auto number) {
      for (std::vector<float>* tensor : {&x, &w, &bias, &residual}) {
        for (float& value : *tensor) value = to_float(from_float<decltype(number)>(value));
      }
    });
  }
  std::vector<double> reference(std::vector<double>* magnitude = nullptr) const {
    std::vector<double> y(residual.size());
    if (magnitude != nullptr) magnitude->resize(y.size());
    ConvProblem of_floats = problem;
    of_floats.dtype = DataType::f32;
    reference_convolution(
        of_floats, {.x = x.data(), .w = w.data(), .bias = bias.data(), .residual = residual.data()},
        y.data(), magnitude != nullptr ? magnitude->data() : nullptr);
    return y;
  }
  ConvProblem problem;
  std::vector<float> x, w, bias, residual;
};

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
  /// With a plan made for prepared filters.
  std::vector<T> run_prepared(const Plan& plan) {
    const DeviceBuffer prepared(plan.prepared_filter_bytes());
    DeviceBuffer workspace(plan.workspace_bytes());
    plan.prepare_filters(w_.get(), prepared.get());
    Tensors arguments = tensors();
    arguments.w = nullptr;
    arguments.prepared_filters = prepared.get();
    std::vector<T> y = run(plan, arguments, workspace);
    CHECK(prepared.guards_intact());
    return y;
  }

 private:
  std::vector<T> run(const Plan& plan, const Tensors& arguments, DeviceBuffer& workspace) {
    y_.poison();
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
