// SPDX-License-Identifier: Apache-2.0
// Tensors of an ONNX model that are known before a run: weights, shapes.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/network.hpp"

namespace megaconv::onnx {

using Dims = std::vector<std::int64_t>;

/// "[1, 3, 224, 224]"
std::string to_string(const Dims& dims);

/// The product, or Error(invalid_argument) "WHO has shape [...]": an extent below 0, more than 8
/// extents, more than 2^40 elements.
std::int64_t count_elements(const Dims& dims, const std::string& who);

/// Types of ONNX by their numbers.
enum class ElementType : int {
  f32 = 1,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  bf16 = 16,
};
/// "float32", ...; "type 42" for what is none.
std::string type_name(int type);
bool is_floating_point(int type) noexcept;

/// Numbers of any floating-point type are FP32 here, all others 64-bit whole numbers.
struct Constant {
  Dims dims{};
  bool floating_point = true;
  Weights floats{};                  ///< unless all are `uniform`
  std::optional<float> uniform{};    ///< not stored: a small model can have many
  std::vector<std::int64_t> ints{};  ///< unless floating_point

  /// The i-th number; of few, for folding and for shapes.
  double at(std::size_t i) const {
    return !floating_point ? static_cast<double>(ints[i]) : uniform ? *uniform : floats.data[i];
  }
};

/// Whole numbers that a constant may have: they are shapes and places.
inline constexpr std::int64_t kMostInts = 1 << 16;

/// How many numbers weights may still have.
class Budget {
 public:
  explicit Budget(std::int64_t most) : most_(most), left_(most) {}
  /// Throws Error(out_of_memory).
  void take(std::int64_t numbers, const std::string& who);

 private:
  std::int64_t most_, left_;
};

/// Reads a tensor and empties it. `folder`: of the model, where its external data is; none: it may
/// have none. Throws Error(invalid_argument) naming `who` for one that is not what it says,
/// Error(unsupported) for a type that is not read, Error(device_error) for a file.
Constant read_tensor(onnx_file::TensorProto& tensor, const std::string& who,
                     const std::string* folder, Budget& budget);

}  // namespace megaconv::onnx
