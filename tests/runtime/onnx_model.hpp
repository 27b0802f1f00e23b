// SPDX-License-Identifier: Apache-2.0
// ONNX models made by hand.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace megaconv::test {

using Ints = std::vector<std::int64_t>;

inline void fill_tensor(onnx_file::TensorProto& tensor, const std::string& name, const Ints& dims,
                        const std::vector<float>& numbers) {
  tensor.set_name(name);
  tensor.set_data_type(1);
  for (const std::int64_t extent : dims) tensor.add_dims(extent);
  for (const float number : numbers) tensor.add_float_data(number);
}

/// A node whose attributes are added by calls.
class OnnxNode {
 public:
  explicit OnnxNode(onnx_file::NodeProto& node) : node_(&node) {}
  OnnxNode& with(const std::string& name, std::int64_t value) {
    onnx_file::AttributeProto& attribute = add(name, 2);
    attribute.set_i(value);
    return *this;
  }
  OnnxNode& with_float(const std::string& name, float value) {
    add(name, 1).set_f(value);
    return *this;
  }
  OnnxNode& with_text(const std::string& name, const std::string& value) {
    add(name, 3).set_s(value);
    return *this;
  }
  OnnxNode& with(const std::string& name, const Ints& values) {
    onnx_file::AttributeProto& attribute = add(name, 7);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  OnnxNode& with_tensor(const std::string& name, const Ints& dims,
                        const std::vector<float>& numbers) {
    fill_tensor(*add(name, 4).mutable_t(), "", dims, numbers);
    return *this;
  }
  onnx_file::NodeProto& proto() { return *node_; }

 private:
  onnx_file::AttributeProto& add(const std::string& name, int type) {
    onnx_file::AttributeProto& attribute = *node_->add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  onnx_file::NodeProto* node_;
};

class OnnxModel {
 public:
  explicit OnnxModel(std::int64_t opset = 13) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
  }

  void input(const std::string& name, const Ints& dims, int type = 1) {
    onnx_file::ValueInfoProto& info = *graph().add_input();
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    for (const std::int64_t extent : dims) {
      auto& dim = *tensor.mutable_shape()->add_dim();
      extent > 0 ? dim.set_dim_value(extent) : dim.set_dim_param("N");
    }
  }
  void output(const std::string& name) { graph().add_output()->set_name(name); }
  onnx_file::TensorProto& weights(const std::string& name, const Ints& dims,
                                  const std::vector<float>& numbers) {
    onnx_file::TensorProto& tensor = *graph().add_initializer();
    fill_tensor(tensor, name, dims, numbers);
    return tensor;
  }
  void ints(const std::string& name, const Ints& numbers) {
    onnx_file::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(7);
    tensor.add_dims(static_cast<std::int64_t>(numbers.size()));
    for (const std::int64_t number : numbers) tensor.add_int64_data(number);
  }
  /// A node named like its first output.
  OnnxNode node(const std::string& op, const std::vector<std::string>& reads,
                const std::vector<std::string>& makes) {
    onnx_file::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(makes.front());
    for (const std::string& name : reads) node.add_input(name);
    for (const std::string& name : makes) node.add_output(name);
    return OnnxNode(node);
  }
  onnx_file::GraphProto& graph() { return *proto.mutable_graph(); }
  std::string bytes() const { return proto.SerializeAsString(); }

  onnx_file::ModelProto proto;
};

}  // namespace megaconv::test
