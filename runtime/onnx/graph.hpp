// SPDX-License-Identifier: Apache-2.0
// From the graph of an ONNX model to a network, node by node.
//
//   GraphProto --Graph--> Network
//
// A value of the model is a constant, which nodes fold, or the value of an operator seen in some
// shape: what only changes a shape makes no operator. Nodes are functions of Graph by their
// operator's name; layers.cpp, arithmetic.cpp and shapes.cpp have them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/onnx.hpp"
#include "runtime/onnx/constant.hpp"

namespace megaconv::onnx {

/// What AttributeProto::type says.
enum AttributeType {
  kFloat = 1,
  kInt = 2,
  kText = 3,
  kTensor = 4,
  kFloats = 6,
  kInts = 7,
};

struct Value {
  bool is_constant = false;
  Constant constant{};
  std::string name{};  ///< else: of the network's value
  Dims dims{};         ///< of the model's; numbers are in the order of [N][C][H][W]
};

/// A window along rows or columns.
struct Axis {
  std::int64_t input = 1, extent = 1, stride = 1, dilation = 1;
  std::int64_t before = 0, behind = 0;  ///< padding
  std::int64_t output(bool ceil) const;
};

class Graph {
 public:
  /// `folder`: where external data is; none: there is none.
  Graph(onnx_file::ModelProto& model, const OnnxOptions& options, const std::string* folder);

  /// Throws as read_onnx() does.
  Network run();

 private:
  using Handler = void (Graph::*)();
  static const std::map<std::string_view, Handler>& handlers();

  // --- The model: graph.cpp.
  void read_input(const onnx_file::ValueInfoProto& info);
  void read_node(onnx_file::NodeProto& node);
  void name_outputs();
  /// A name for a value of the network: the model's, as far as it is printable, short and not
  /// taken.
  std::string unique_name(const std::string& name);

  // --- The node at hand: graph.cpp. All throw Error naming it.
  [[noreturn]] void fail(const std::string& message, Status = Status::invalid_argument) const;
  [[noreturn]] void refuse(const std::string& message) const;  ///< not supported
  /// The i-th input is given; one that is optional may have an empty name.
  bool has_input(int i) const;
  std::string input_text(int i) const;  ///< "input 1, \"w\""
  const Value& input(int i) const;
  /// An input that is not a constant.
  const Value& activation(int i) const;
  /// An activation seen in the four dimensions that it has.
  const Shape& image(int i) const;
  /// Extents of the network's value.
  const Shape& shape_of(const Value& value) const { return shapes_.at(value.name); }
  const Constant& constant(int i, const char* what) const;
  std::vector<std::int64_t> ints_of(int i, const char* what) const;
  std::vector<float> floats_of(const Constant& constant, const std::string& who);
  /// Of so many numbers, or of one number that stands for all.
  Weights weights(int i, const char* what, std::int64_t count);
  float number_of(int i, const char* what) const;

  // Attributes; each may be asked for once. What is left in the end is refused.
  onnx_file::AttributeProto* attribute(const char* name, int type);
  std::int64_t integer(const char* name, std::int64_t otherwise);
  float real(const char* name, float otherwise);
  std::string text(const char* name, const std::string& otherwise);
  std::vector<std::int64_t> integers(const char* name, std::vector<std::int64_t> otherwise);
  void check_attributes() const;
  /// Whole numbers of the i-th input, or before the operator set `since` of the attribute.
  std::vector<std::int64_t> ints_since(std::int64_t since, int i, const char* name,
                                       std::vector<std::int64_t> otherwise);
  /// From -rank to rank - 1, as 0 to rank - 1.
  std::int64_t axis_in(std::int64_t axis, std::size_t rank) const;
  void check_integer(const char* name, std::int64_t value, std::int64_t allowed) const;

  /// Appends an operator that makes the node's first output, or with a suffix a value on the way.
  std::string emit(decltype(Operator::does) does, std::vector<std::string> reads,
                   const std::string& suffix = {});
  void make_output(int i, Value value);
  /// The first output is that value of the network.
  void make(const std::string& name, Dims dims) { make_output(0, {.name = name, .dims = dims}); }
  void make_constant(Constant constant);
  /// The first output is that value of the network, whose shape is the model's.
  void make_image(const std::string& name);
  /// y of an activation that stays in its shape.
  void make_alike(decltype(Operator::does) does, const Value& x);
  Dims dims_of(const std::string& name) const;

  // --- layers.cpp
  Axis window_axis(std::size_t axis, std::int64_t input, const std::vector<std::int64_t>& extents,
                   const std::vector<std::int64_t>& strides,
                   const std::vector<std::int64_t>& dilations,
                   const std::vector<std::int64_t>& pads, const std::string& auto_pad) const;
  struct Window {
    Axis rows, cols;
  };
  Window read_window(const Shape& x, std::vector<std::int64_t> extents);
  std::string padded(const std::string& x, const Rearrangement& padding);
  void conv();
  void pool(PoolMode mode);
  void max_pool();
  void average_pool();
  void global_average_pool();
  void global_max_pool();
  void reduce_mean();
  void batch_normalization();
  void gemm();
  void mat_mul();
  void local_response_norm();
  void softmax();

  // --- arithmetic.cpp
  enum class Arithmetic { add, subtract, multiply, divide };
  void binary(Arithmetic op);
  void fold_binary(Arithmetic op);
  void with_constant(Arithmetic op, int activation_index);
  void add() { binary(Arithmetic::add); }
  void subtract() { binary(Arithmetic::subtract); }
  void multiply() { binary(Arithmetic::multiply); }
  void divide() { binary(Arithmetic::divide); }
  void sum();
  void relu();
  void clip();
  void leaky_relu();
  void p_relu();
  void sigmoid();
  void gelu();
  void hard_sigmoid();
  void hard_swish();
  void tanh();

  // --- shapes.cpp
  void alias();
  void dropout();
  void cast();
  void constant_node();
  void constant_of_shape();
  void shape();
  void gather();
  void reshape();
  void flatten();
  void squeeze();
  void unsqueeze();
  void view(Dims dims);
  void transpose();
  void concat();
  void slice();
  void split();
  void pad();
  void resize();
  void upsample();
  void upsample_by(const std::vector<double>& scales);
  std::string channel_slice(const Value& x, std::int64_t first, std::int64_t count,
                            const std::string& suffix);

  onnx_file::GraphProto& graph_;
  const OnnxOptions options_;
  const std::string* folder_;
  Budget budget_;
  std::int64_t opset_ = 0;
  Network network_;
  std::map<std::string, Shape> shapes_;  ///< of the network's values
  std::unordered_map<std::string, Value> values_;
  std::set<std::string> names_;

  onnx_file::NodeProto* node_ = nullptr;  ///< at hand
  std::string node_text_;                 ///< "node \"conv1\" (Conv)"
  std::set<const void*> used_;            ///< its attributes that have been asked for
};

}  // namespace megaconv::onnx
