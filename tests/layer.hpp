// SPDX-License-Identifier: Apache-2.0
// One layer with seeded data, and its truth.
#pragma once

#include <cstddef>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tasks/reference.hpp"
#include "tasks/storage.hpp"

namespace megaconv::test {

// Floats that the problem's storage type can hold.
struct Layer {
  explicit Layer(const ConvProblem& p, bool integers)
      : problem(p),
        x(static_cast<std::size_t>(p.x_size())),
        w(static_cast<std::size_t>(p.w_size())),
        scale(static_cast<std::size_t>(p.k)),
        bias(static_cast<std::size_t>(p.k)),
        residual(static_cast<std::size_t>(p.y_size())) {
    if (integers) {
      fill_integers(x, 1);
      fill_integers(w, 2, 0.11, 576);
      fill_integers(bias, 3, 1.0);
      fill_integers(residual, 4, 1.0);
      fill_integers(scale, 5, 1.0);
    } else {
      fill_normal(x, 1);
      fill_normal(w, 2);
      fill_normal(bias, 3);
      fill_normal(residual, 4);
      fill_normal(scale, 5);
    }
    with_storage(p.dtype, [&](auto number) {
      for (std::vector<float>* tensor : {&x, &w, &scale, &bias, &residual}) {
        for (float& value : *tensor) value = to_float(from_float<decltype(number)>(value));
      }
    });
  }
  std::vector<double> reference(std::vector<double>* magnitude = nullptr) const {
    std::vector<double> y(residual.size());
    if (magnitude != nullptr) magnitude->resize(y.size());
    ConvProblem of_floats = problem;
    of_floats.dtype = DataType::f32;
    reference_convolution(of_floats,
                          {.x = x.data(),
                           .w = w.data(),
                           .scale = scale.data(),
                           .bias = bias.data(),
                           .residual = residual.data()},
                          y.data(), magnitude != nullptr ? magnitude->data() : nullptr);
    return y;
  }
  ConvProblem problem;
  std::vector<float> x, w, scale, bias, residual;
};

}  // namespace megaconv::test
