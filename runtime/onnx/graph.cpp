// SPDX-License-Identifier: Apache-2.0
#include "runtime/onnx/graph.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "mapping/text.hpp"

namespace megaconv::onnx {
namespace {

constexpr int kMostNodes = 1 << 16;
constexpr int kMostOutputs = 1 << 10;
constexpr std::int64_t kLeastOpset = 7;

std::string in_quotes(std::string_view text) { return '"' + excerpt(text) + '"'; }

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::int64_t opset_of(const onnx_file::ModelProto& model) {
  for (const auto& opset : model.opset_import()) {
    if (!is_default_domain(opset.domain())) continue;
    if (opset.version() >= kLeastOpset) return opset.version();
    throw Error(Status::unsupported,
                "operator set " + std::to_string(opset.version()) + ", must be 7 or newer");
  }
  throw Error(Status::invalid_argument, "no operator set, must be 7 or newer of domain \"\"");
}

}  // namespace

Graph::Graph(onnx_file::ModelProto& model, const OnnxOptions& options, const std::string* folder)
    : graph_(*model.mutable_graph()),
      options_(options),
      folder_(folder),
      budget_(options.most_weights),
      opset_(opset_of(model)) {
  network_.dtype = options.dtype;
  network_.layout = options.layout;
}

Network Graph::run() {
  if (graph_.node_size() == 0) throw Error(Status::invalid_argument, "no nodes, must be 1 or more");
  if (graph_.node_size() > kMostNodes) {
    throw Error(Status::invalid_argument,
                std::to_string(graph_.node_size()) + " nodes, must be at most 65536");
  }
  if (graph_.output_size() > kMostOutputs) {
    throw Error(Status::invalid_argument,
                std::to_string(graph_.output_size()) + " outputs, must be at most 1024");
  }
  if (graph_.sparse_initializer_size() > 0) {
    throw Error(Status::unsupported, "sparse initializers, must be dense");
  }
  for (auto& tensor : *graph_.mutable_initializer()) {
    const std::string name = tensor.name(), who = "initializer " + in_quotes(name);
    Value value{.is_constant = true, .constant = read_tensor(tensor, who, folder_, budget_)};
    value.dims = value.constant.dims;
    if (!values_.emplace(name, std::move(value)).second) {
      throw Error(Status::invalid_argument, who + ": there twice");
    }
  }
  for (const auto& info : graph_.input()) {
    if (!values_.contains(info.name())) read_input(info);  // else what it is unless it is given
  }
  for (auto& node : *graph_.mutable_node()) read_node(node);
  name_outputs();
  validate(network_);
  return std::move(network_);
}

void Graph::read_input(const onnx_file::ValueInfoProto& info) {
  const std::string who = "input " + in_quotes(info.name());
  const auto& type = info.type().tensor_type();
  if (!is_floating_point(type.elem_type())) {
    throw Error(Status::unsupported,
                who + " has " + type_name(type.elem_type()) + ", must have floating-point numbers");
  }
  const int rank = type.shape().dim_size();
  if (rank != 4 && rank != 2) {
    throw Error(Status::unsupported,
                who + " has " + std::to_string(rank) +
                    " dimensions, must have 4 (batch, channels, height, width) or 2");
  }
  Dims dims;
  for (int i = 0; i < rank; ++i) {
    const auto& extent = type.shape().dim(i);
    const bool open = !extent.has_dim_value() || extent.dim_value() <= 0;
    const char* const option = i == 0 ? "batch" : i == 1 ? nullptr : "image";
    const std::int64_t wanted = i == 0 ? options_.batch : i == 1 ? 0 : options_.image;
    if (open && wanted == 0 && i != 0) {
      throw Error(Status::invalid_argument,
                  who + ": dimension " + std::to_string(i) + " is left open by the model, " +
                      (option != nullptr ? "must be given: image, 1 to 2^31 - 1"
                                         : "must be a number in it"));
    }
    if (!open && option != nullptr && wanted != 0 && wanted != extent.dim_value()) {
      throw Error(Status::invalid_argument, who + ": " + option + " " + std::to_string(wanted) +
                                                ", must be " + std::to_string(extent.dim_value()) +
                                                " as the model says");
    }
    dims.push_back(!open ? extent.dim_value() : wanted != 0 ? wanted : 1);
  }
  count_elements(dims, who);
  const Shape shape{dims[0], dims[1], rank == 4 ? dims[2] : 1, rank == 4 ? dims[3] : 1};
  const std::string name = unique_name(info.name());
  if (!values_.emplace(info.name(), Value{.name = name, .dims = dims}).second) {
    throw Error(Status::invalid_argument, who + ": there twice");
  }
  shapes_[name] = shape;
  network_.inputs.push_back({name, shape});
}

void Graph::read_node(onnx_file::NodeProto& node) {
  node_ = &node;
  used_.clear();
  const bool named = !node.name().empty() || node.output_size() == 0;
  node_text_ = "node " + in_quotes(named ? node.name() : node.output(0)) + " (" +
               excerpt(node.op_type(), 40) + ")";
  const auto handler = handlers().find(node.op_type());
  if (!is_default_domain(node.domain()) || handler == handlers().end()) {
    refuse("operator " + excerpt(node.op_type(), 40) +
           (is_default_domain(node.domain()) ? "" : " of domain " + in_quotes(node.domain())) +
           " is not supported");
  }
  if (node.output_size() == 0) fail("makes no value, must make 1 or more");
  (this->*handler->second)();
  check_attributes();
}

// Outputs of the network have the names of the model's, so far as no value is two of them or an
// input: then a copy has the name.
void Graph::name_outputs() {
  std::set<std::string> made;
  for (const auto& info : graph_.output()) {
    const std::string who = "output " + in_quotes(info.name());
    const auto found = values_.find(info.name());
    if (found == values_.end() || found->second.is_constant) {
      throw Error(Status::invalid_argument,
                  who + (found == values_.end() ? ", which no node makes" : " is a constant") +
                      ", must be the value of a node");
    }
    Value& value = found->second;
    const bool is_input =
        std::any_of(network_.inputs.begin(), network_.inputs.end(),
                    [&](const NetworkInput& input) { return input.name == value.name; });
    const std::string before = value.name;
    if (is_input || made.contains(before)) {
      const std::string name = unique_name(info.name());
      const float infinity = std::numeric_limits<float>::infinity();
      network_.operators.push_back({name, Clamp{-infinity, infinity}, {before}});
      shapes_[name] = shapes_.at(before);
      made.insert(name);
      network_.outputs.push_back(name);
      continue;
    }
    std::string name = before;
    if (before != info.name()) {  // a shape that nothing else was left of
      name = unique_name(info.name());
      for (Operator& op : network_.operators) {
        if (op.name == before) op.name = name;
        std::replace(op.reads.begin(), op.reads.end(), before, name);
      }
      for (auto& [_, other] : values_) {
        if (!other.is_constant && other.name == before) other.name = name;
      }
      shapes_[name] = shapes_.at(before);
      names_.erase(before);
    }
    made.insert(name);
    network_.outputs.push_back(name);
  }
}

std::string Graph::unique_name(const std::string& name) {
  constexpr std::size_t kMost = 72;  // of the 80 that a name may have
  std::string text;
  for (const char ch : name.substr(0, kMost)) text += ch >= ' ' && ch <= '~' ? ch : '?';
  if (text.empty()) text = "value";
  std::string unique = text;
  for (std::size_t i = names_.size(); !names_.insert(unique).second; ++i) {
    unique = text + "#" + std::to_string(i);
  }
  return unique;
}

void Graph::fail(const std::string& message, Status status) const {
  throw Error(status, node_text_ + ": " + message);
}
void Graph::refuse(const std::string& message) const { fail(message, Status::unsupported); }

bool Graph::has_input(int i) const { return i < node_->input_size() && !node_->input(i).empty(); }

std::string Graph::input_text(int i) const {
  return "input " + std::to_string(i) +
         (i < node_->input_size() ? ", " + in_quotes(node_->input(i)) + "," : "");
}

const Value& Graph::input(int i) const {
  if (!has_input(i)) fail(input_text(i) + " is missing, must be given");
  const auto found = values_.find(node_->input(i));
  if (found == values_.end()) {
    fail(input_text(i) +
         " is made by no node before this one; must be an input, an initializer or the output of "
         "an earlier node, without cycles");
  }
  return found->second;
}

const Value& Graph::activation(int i) const {
  const Value& value = input(i);
  if (value.is_constant) refuse(input_text(i) + " is a constant, must be a value of the network");
  return value;
}

const Shape& Graph::image(int i) const {
  const Value& value = activation(i);
  const Shape& shape = shape_of(value);
  if (value.dims == Dims{shape.n, shape.c, shape.h, shape.w}) return shape;
  refuse(input_text(i) + " has shape " + to_string(value.dims) + " and is " +
         megaconv::to_string(shape) +
         ", must have 4 dimensions, batch, channels, height and width, and not be reshaped");
}

const Constant& Graph::constant(int i, const char* what) const {
  const Value& value = input(i);
  if (!value.is_constant) refuse(input_text(i) + " " + what + ", must be a constant");
  return value.constant;
}

std::vector<std::int64_t> Graph::ints_of(int i, const char* what) const {
  const Constant& numbers = constant(i, what);
  if (numbers.floating_point || numbers.dims.size() > 1) {
    fail(input_text(i) + " " + what + ", must be a list of whole numbers");
  }
  return numbers.ints;
}

std::vector<float> Graph::floats_of(const Constant& numbers, const std::string& who) {
  const auto count = static_cast<std::size_t>(count_elements(numbers.dims, who));
  if (!numbers.floating_point) {
    return {numbers.ints.begin(), numbers.ints.end()};
  }
  if (!numbers.uniform) {
    const auto values = numbers.floats.values();
    return {values.begin(), values.end()};
  }
  budget_.take(static_cast<std::int64_t>(count), who);
  return std::vector<float>(count, *numbers.uniform);
}

Weights Graph::weights(int i, const char* what, std::int64_t count) {
  const std::string who = node_text_ + ": " + input_text(i) + " " + what;
  const Constant& numbers = constant(i, what);
  if (!numbers.floating_point) fail(input_text(i) + " " + what + ", must be floating-point");
  if (count_elements(numbers.dims, who) != count) {
    fail(input_text(i) + " " + what + ", has shape " + to_string(numbers.dims) + ", must have " +
         std::to_string(count) + " numbers");
  }
  return numbers.uniform ? make_weights(floats_of(numbers, who)) : numbers.floats;
}

float Graph::number_of(int i, const char* what) const {
  const Constant& numbers = constant(i, what);
  if (count_elements(numbers.dims, node_text_ + ": " + input_text(i)) != 1) {
    fail(input_text(i) + " " + what + ", has shape " + to_string(numbers.dims) +
         ", must be one number");
  }
  return static_cast<float>(numbers.at(0));
}

onnx_file::AttributeProto* Graph::attribute(const char* name, int type) {
  for (auto& candidate : *node_->mutable_attribute()) {
    if (candidate.name() != name) continue;
    if (!used_.insert(&candidate).second) continue;
    if (candidate.has_ref_attr_name()) refuse(std::string(name) + " refers to a function's");
    if (candidate.has_type() && candidate.type() != type) {
      fail(std::string(name) + " has attribute type " + std::to_string(candidate.type()) +
           ", must be " + std::to_string(type));
    }
    return &candidate;
  }
  return nullptr;
}

std::int64_t Graph::integer(const char* name, std::int64_t otherwise) {
  const auto* const found = attribute(name, kInt);
  return found != nullptr ? found->i() : otherwise;
}
float Graph::real(const char* name, float otherwise) {
  const auto* const found = attribute(name, kFloat);
  return found != nullptr ? found->f() : otherwise;
}
std::string Graph::text(const char* name, const std::string& otherwise) {
  const auto* const found = attribute(name, kText);
  return found != nullptr ? found->s() : otherwise;
}
std::vector<std::int64_t> Graph::integers(const char* name, std::vector<std::int64_t> otherwise) {
  const auto* const found = attribute(name, kInts);
  if (found == nullptr) return otherwise;
  if (found->ints_size() > kMostInts) {
    fail(std::string(name) + " has " + std::to_string(found->ints_size()) +
         " numbers, must have at most " + std::to_string(kMostInts));
  }
  return {found->ints().begin(), found->ints().end()};
}

std::vector<std::int64_t> Graph::ints_since(std::int64_t since, int i, const char* name,
                                            std::vector<std::int64_t> otherwise) {
  if (opset_ < since) return integers(name, std::move(otherwise));
  return has_input(i) ? ints_of(i, name) : otherwise;
}

void Graph::check_attributes() const {
  for (const auto& left : node_->attribute()) {
    if (!used_.contains(&left)) refuse("attribute " + in_quotes(left.name()) + " is not supported");
  }
}

std::int64_t Graph::axis_in(std::int64_t axis, std::size_t rank) const {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis >= -count && axis < count) return axis < 0 ? axis + count : axis;
  fail("axis " + std::to_string(axis) + ", must be " + std::to_string(-count) + " to " +
       std::to_string(count - 1));
}

void Graph::check_integer(const char* name, std::int64_t value, std::int64_t allowed) const {
  if (value == allowed) return;
  refuse(std::string(name) + " = " + std::to_string(value) + ", must be " +
         std::to_string(allowed));
}

// A network of this operator alone says what is wrong with it, and what shape its value has.
std::string Graph::emit(decltype(Operator::does) does, std::vector<std::string> reads,
                        const std::string& suffix) {
  const std::string name = unique_name(node_->output(0) + suffix);
  Network alone{.outputs = {name}, .dtype = network_.dtype, .layout = network_.layout};
  for (const std::string& read : std::set<std::string>(reads.begin(), reads.end())) {
    alone.inputs.push_back({read, shapes_.at(read)});
  }
  Operator op{name, std::move(does), std::move(reads)};
  alone.operators.push_back(op);
  shapes_[name] = megaconv::shapes_of(alone).at(name);
  network_.operators.push_back(std::move(op));
  return name;
}

void Graph::make_output(int i, Value value) {
  if (i >= node_->output_size() || node_->output(i).empty()) return;
  if (!values_.emplace(node_->output(i), std::move(value)).second) {
    fail("output " + in_quotes(node_->output(i)) + ", another node, input or initializer makes it");
  }
}

void Graph::make_constant(Constant numbers) {
  Dims dims = numbers.dims;
  make_output(0, {.is_constant = true, .constant = std::move(numbers), .dims = std::move(dims)});
}

Dims Graph::dims_of(const std::string& name) const {
  const Shape& shape = shapes_.at(name);
  return {shape.n, shape.c, shape.h, shape.w};
}
void Graph::make_image(const std::string& name) { make(name, dims_of(name)); }
void Graph::make_alike(decltype(Operator::does) does, const Value& x) {
  const Dims dims = x.dims;
  make(emit(std::move(does), {x.name}), dims);
}

const std::map<std::string_view, Graph::Handler>& Graph::handlers() {
  static const std::map<std::string_view, Handler> table{
      {"Add", &Graph::add},
      {"AveragePool", &Graph::average_pool},
      {"BatchNormalization", &Graph::batch_normalization},
      {"Cast", &Graph::cast},
      {"Clip", &Graph::clip},
      {"Concat", &Graph::concat},
      {"Constant", &Graph::constant_node},
      {"ConstantOfShape", &Graph::constant_of_shape},
      {"Conv", &Graph::conv},
      {"Div", &Graph::divide},
      {"Dropout", &Graph::dropout},
      {"Flatten", &Graph::flatten},
      {"Gather", &Graph::gather},
      {"Gelu", &Graph::gelu},
      {"Gemm", &Graph::gemm},
      {"GlobalAveragePool", &Graph::global_average_pool},
      {"GlobalMaxPool", &Graph::global_max_pool},
      {"HardSigmoid", &Graph::hard_sigmoid},
      {"HardSwish", &Graph::hard_swish},
      {"Identity", &Graph::alias},
      {"LRN", &Graph::local_response_norm},
      {"LeakyRelu", &Graph::leaky_relu},
      {"MatMul", &Graph::mat_mul},
      {"MaxPool", &Graph::max_pool},
      {"Mul", &Graph::multiply},
      {"PRelu", &Graph::p_relu},
      {"Pad", &Graph::pad},
      {"ReduceMean", &Graph::reduce_mean},
      {"Relu", &Graph::relu},
      {"Reshape", &Graph::reshape},
      {"Resize", &Graph::resize},
      {"Shape", &Graph::shape},
      {"Sigmoid", &Graph::sigmoid},
      {"Slice", &Graph::slice},
      {"Softmax", &Graph::softmax},
      {"Split", &Graph::split},
      {"Squeeze", &Graph::squeeze},
      {"Sub", &Graph::subtract},
      {"Sum", &Graph::sum},
      {"Tanh", &Graph::tanh},
      {"Transpose", &Graph::transpose},
      {"Unsqueeze", &Graph::unsqueeze},
      {"Upsample", &Graph::upsample},
  };
  return table;
}

}  // namespace megaconv::onnx
