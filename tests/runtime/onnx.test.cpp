// SPDX-License-Identifier: Apache-2.0
// ONNX models, made here, as networks: what their operators compute, and what is refused.
#include "megaconv/onnx.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tasks/network_reference.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/runtime/network_run.hpp"
#include "tests/runtime/onnx_model.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

std::vector<float> counted(std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  return numbers;
}

/// The first output, in double, of the input "x" 1, 2, 3, ...
std::vector<double> run(const OnnxModel& model) {
  const Network network = parse_onnx(model.bytes());
  DoubleValues inputs;
  for (const NetworkInput& input : network.inputs) {
    inputs[input.name] = widened(counted(input.shape.size()));
  }
  return reference_network(network, inputs).at(network.outputs.front());
}

/// A model of one node y = op(x), of an x of 1 x 1 x 2 x 3 unless said otherwise.
struct OneNode {
  explicit OneNode(const std::string& op, std::vector<std::string> reads = {"x"},
                   std::int64_t opset = 13, Ints dims = {1, 1, 2, 3})
      : model(opset) {
    model.input("x", dims);
    model.output("y");
    node = &model.node(op, reads, {"y"}).proto();
  }
  OnnxNode attributes() { return OnnxNode(*node); }
  std::vector<double> run() { return ::run(model); }
  std::string refusal(Status status = Status::invalid_argument) {
    return error_of([&] { parse_onnx(model.bytes()); }, status);
  }
  OnnxModel model;
  onnx_file::NodeProto* node;
};

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("a small ONNX model runs, and its outputs have its names") {
  OnnxModel model;
  model.input("image", {-1, 3, 8, 8});
  model.weights("w", {4, 3, 3, 3}, std::vector<float>(108, 0.5f));
  model.weights("b", {4}, {1, 2, 3, 4});
  model.weights("fc.w", {2, 64}, std::vector<float>(128, 0.25f));
  model.weights("fc.b", {2}, {1, -1});
  model.ints("shape", {0, -1});
  model.node("Conv", {"image", "w", "b"}, {"conv"}).with("pads", Ints{1, 1, 1, 1});
  model.node("Relu", {"conv"}, {"relu"});
  model.node("MaxPool", {"relu"}, {"pool"})
      .with("kernel_shape", Ints{2, 2})
      .with("strides", Ints{2, 2});
  model.node("Reshape", {"pool", "shape"}, {"flat"});
  model.node("Gemm", {"flat", "fc.w", "fc.b"}, {"scores"}).with("transB", 1);
  model.output("scores");
  const Network network = parse_onnx(model.bytes(), {.batch = 2});
  REQUIRE(network.inputs.size() == 1);
  CHECK(network.inputs[0].shape == Shape{2, 3, 8, 8});
  CHECK(network.outputs == std::vector<std::string>{"scores"});
  const auto inputs = random_inputs(network, {.kind = Filling::Kind::integers, .density = 0.2});
  PlanOptions options{.num_threads = 2};
  options.tiling.algorithm = Algorithm::direct;
  const auto scores = NetworkRun(network, options).run(inputs).at("scores");
  DoubleValues wide{{"image", widened(inputs.at("image"))}};
  const std::vector<double> truth = reference_network(network, wide).at("scores");
  CHECK(widened(scores) == truth);  // halves and quarters of small whole numbers
  CHECK(truth.size() == 4);
  CHECK(truth[0] - truth[1] == 2);
}

TEST_CASE("padding of a convolution that is unequal is added before it") {
  OneNode one("Conv", {"x", "w"});
  one.model.weights("w", {1, 1, 2, 2}, {1, 10, 100, 1000});
  one.attributes().with_text("auto_pad", "SAME_UPPER");
  // 1 2 3 0
  // 4 5 6 0
  // 0 0 0 0
  CHECK(one.run() == Numbers{1 + 20 + 400 + 5000, 2 + 30 + 500 + 6000, 3 + 600, 54, 65, 6});
  OneNode lower("Conv", {"x", "w"});
  lower.model.weights("w", {1, 1, 2, 2}, {1, 10, 100, 1000});
  lower.attributes().with_text("auto_pad", "SAME_LOWER");
  CHECK(lower.run() == Numbers{1000, 2100, 3200, 4010, 5421, 6532});
}

TEST_CASE("poolings pad as ONNX says") {
  const auto pooled = [](const char* op, auto change) {
    OneNode one(op);
    OnnxNode node = one.attributes();
    node.with("kernel_shape", Ints{2, 2});
    change(node);
    return one.run();
  };
  // 1 2 3
  // 4 5 6
  CHECK(pooled("MaxPool", [](OnnxNode&) {}) == Numbers{5, 6});
  CHECK(pooled("MaxPool", [](OnnxNode& node) {
          node.with("pads", Ints{0, 0, 1, 1});
        }) == Numbers{5, 6, 6, 5, 6, 6});
  CHECK(pooled("MaxPool", [](OnnxNode& node) {
          node.with("strides", Ints{2, 2}).with("ceil_mode", 1);
        }) == Numbers{5, 6});
  CHECK(pooled("MaxPool", [](OnnxNode& node) { node.with("strides", Ints{2, 2}); }) == Numbers{5});
  CHECK(pooled("AveragePool", [](OnnxNode& node) {
          node.with("pads", Ints{0, 0, 1, 1});
        }) == Numbers{3, 4, 4.5, 4.5, 5.5, 6});
  CHECK(pooled("AveragePool", [](OnnxNode& node) {
          node.with("pads", Ints{1, 1, 0, 0});
        }) == Numbers{1, 1.5, 2.5, 2.5, 3, 4});
  CHECK(pooled("AveragePool", [](OnnxNode& node) {
          node.with("pads", Ints{1, 1, 0, 0}).with("count_include_pad", 1);
        }) == Numbers{0.25, 0.75, 1.25, 1.25, 3, 4});
  CHECK(pooled("AveragePool", [](OnnxNode& node) {
          node.with("strides", Ints{2, 1}).with("ceil_mode", 1);
        }) == Numbers{3, 4});
  OneNode wide("AveragePool");
  wide.attributes()
      .with("kernel_shape", Ints{1, 3})
      .with("pads", Ints{0, 0, 0, 2})
      .with("strides", Ints{1, 2});
  CHECK(wide.run() == Numbers{2, 3, 5, 6});
  OneNode one("AveragePool");
  one.attributes()
      .with("kernel_shape", Ints{2, 3})
      .with("pads", Ints{0, 0, 0, 1})
      .with("strides", Ints{2, 2});
  CHECK(one.run() == Numbers{3.5});  // nobody reads the padding
  OneNode bad("AveragePool", {"x"}, 13, {1, 1, 2, 4});
  bad.attributes()
      .with("kernel_shape", Ints{1, 3})
      .with("pads", Ints{0, 0, 0, 2})
      .with("strides", Ints{1, 3});
  CHECK(bad.refusal(Status::unsupported) ==
        "node \"y\" (AveragePool): padding of 0 before and 2 behind that the average does not "
        "count: must be equal, or the window larger");
}

TEST_CASE("arithmetic with constants is scale and shift, of one number or of one a channel") {
  const auto computed = [](const char* op, bool constant_first, const Ints& dims,
                           const std::vector<float>& numbers) {
    OneNode one(
        op,
        constant_first ? std::vector<std::string>{"c", "x"} : std::vector<std::string>{"x", "c"},
        13, {1, 2, 1, 1});
    one.model.weights("c", dims, numbers);
    return one.run();
  };
  CHECK(computed("Add", false, {}, {5}) == Numbers{6, 7});
  CHECK(computed("Add", true, {2, 1, 1}, {5, 7}) == Numbers{6, 9});
  CHECK(computed("Sub", false, {1, 2, 1, 1}, {5, 7}) == Numbers{-4, -5});
  CHECK(computed("Sub", true, {1, 2, 1, 1}, {5, 7}) == Numbers{4, 5});
  CHECK(computed("Mul", true, {2, 1, 1}, {5, 7}) == Numbers{5, 14});
  CHECK(computed("Div", false, {1}, {4}) == Numbers{0.25, 0.5});
}

TEST_CASE("values of a model add, subtract and multiply, also by one number a channel") {
  const auto computed = [](const char* op, const Ints& dims) {
    OnnxModel model;
    model.input("x", {1, 2, 1, 2});
    model.input("z", dims);
    model.node(op, {"z", "x"}, {"y"});
    model.output("y");
    return run(model);
  };
  CHECK(computed("Add", {1, 2, 1, 2}) == Numbers{2, 4, 6, 8});
  CHECK(computed("Sub", {1, 2, 1, 2}) == Numbers{0, 0, 0, 0});
  CHECK(computed("Sum", {1, 2, 1, 2}) == Numbers{2, 4, 6, 8});
  CHECK(computed("Mul", {1, 2, 1, 2}) == Numbers{1, 4, 9, 16});
  CHECK(computed("Mul", {1, 2, 1, 1}) == Numbers{1, 2, 6, 8});
  OnnxModel model;
  model.input("x", {1, 2, 1, 2});
  model.input("z", {1, 2, 1, 1});
  model.node("Add", {"x", "z"}, {"y"});
  model.output("y");
  CHECK(error_of([&] { parse_onnx(model.bytes()); }, Status::unsupported) ==
        "node \"y\" (Add): shapes [1, 2, 1, 2] and [1, 2, 1, 1], must be equal");
}

TEST_CASE("activations and normalisations compute what ONNX says") {
  CHECK(OneNode("Relu").run() == Numbers{1, 2, 3, 4, 5, 6});
  OneNode leaky("LeakyRelu", {"x"}, 13, {1, 1, 1, 2});
  leaky.attributes().with_float("alpha", 0.5f);
  CHECK(leaky.run() == Numbers{1, 2});
  OneNode gelu("Gelu", {"x"}, 20, {1, 1, 1, 1});
  CHECK(std::fabs(gelu.run()[0] - 0.841344746068543) < 1e-15);
  gelu.attributes().with_text("approximate", "tanh");
  CHECK(std::fabs(gelu.run()[0] - 0.841191990608276) < 1e-14);
  OneNode clip("Clip", {"x"}, 10);
  clip.attributes().with_float("min", 2).with_float("max", 4);
  CHECK(clip.run() == Numbers{2, 2, 3, 4, 4, 4});
  OneNode newer("Clip", {"x", "", "most"});
  newer.model.weights("most", {}, {4});
  CHECK(newer.run() == Numbers{1, 2, 3, 4, 4, 4});
  OneNode norm("LRN", {"x"}, 13, {1, 3, 1, 1});
  norm.attributes()
      .with("size", 2)
      .with_float("alpha", 2)
      .with_float("beta", 1)
      .with_float("bias", 1);
  CHECK(norm.run() == Numbers{1.0 / 6, 2.0 / 14, 3.0 / 10});
  OneNode softmax("Softmax", {"x"}, 13, {1, 2});
  const Numbers even = softmax.run();
  CHECK(std::fabs(even[1] - 1 / (1 + std::exp(-1.0))) < 1e-15);
  OneNode older("Softmax", {"x"}, 9, {1, 2, 2, 1});
  CHECK(older.refusal(Status::unsupported) ==
        "node \"y\" (Softmax): axis 1 of shape [1, 2, 2, 1], must be the channels of every pixel");
}

TEST_CASE("places of numbers change as ONNX says") {
  OneNode pad("Pad", {"x", "pads", "fill"});
  pad.model.ints("pads", {0, 0, 1, -1, 0, 0, 0, 1});
  pad.model.weights("fill", {}, {9});
  CHECK(pad.run() == Numbers{9, 9, 9, 2, 3, 9, 5, 6, 9});
  OneNode up("Resize", {"x", "", "scales"});
  up.model.weights("scales", {4}, {1, 1, 1, 2});
  CHECK(up.run() == Numbers{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
  OneNode rows("Slice", {"x", "from", "to", "axes"});
  rows.model.ints("from", {1, -2});
  rows.model.ints("to", {99, 3});
  rows.model.ints("axes", {2, -1});
  CHECK(rows.run() == Numbers{5, 6});
  OnnxModel shuffle;
  shuffle.input("x", {1, 6, 1, 1});
  shuffle.ints("groups", {1, 2, 3, 1, 1});
  shuffle.ints("back", {1, 6, 1, 1});
  shuffle.node("Reshape", {"x", "groups"}, {"a"});
  shuffle.node("Transpose", {"a"}, {"b"}).with("perm", Ints{0, 2, 1, 3, 4});
  shuffle.node("Reshape", {"b", "back"}, {"y"});
  shuffle.output("y");
  CHECK(run(shuffle) == Numbers{1, 4, 2, 5, 3, 6});
  CHECK(parse_onnx(shuffle.bytes()).operators.size() == 1);
  OnnxModel split;
  split.input("x", {1, 5, 1, 1});
  split.ints("parts", {2, 3});
  split.node("Split", {"x", "parts"}, {"a", "b"}).with("axis", 1);
  split.node("Concat", {"b", "a"}, {"y"}).with("axis", -3);
  split.output("y");
  CHECK(run(split) == Numbers{3, 4, 5, 1, 2});
}

TEST_CASE("shapes that are computed from shapes are constants") {
  OnnxModel model;
  model.input("x", {2, 3, 2, 2});
  model.ints("zero", {0});
  model.ints("rest", {-1});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "zero"}, {"batch"}).with("axis", 0);
  model.node("Concat", {"batch", "rest"}, {"flat"}).with("axis", 0);
  model.node("Reshape", {"x", "flat"}, {"matrix"});
  model.weights("w", {12, 1}, counted(12));
  model.node("MatMul", {"matrix", "w"}, {"y"});
  model.output("y");
  CHECK(run(model) == Numbers{650, 1586});
}

TEST_CASE("an output that is an input, a shape of another value or there twice has its name") {
  OnnxModel model;
  model.input("x", {1, 2, 1, 1});
  model.ints("two", {1, 2});
  model.node("Relu", {"x"}, {"hidden"});
  model.node("Reshape", {"hidden", "two"}, {"flat"});
  model.node("Identity", {"x"}, {"same"});
  model.output("flat");
  model.output("hidden");
  model.output("same");
  const Network network = parse_onnx(model.bytes());
  REQUIRE(network.outputs.size() == 3);
  CHECK(network.outputs == std::vector<std::string>{"flat", "hidden", "same"});
  const DoubleValues values = reference_network(network, {{"x", {1, 2}}});
  for (const std::string& output : network.outputs) CHECK(values.at(output) == Numbers{1, 2});
}

TEST_CASE("weights are read of every way that ONNX keeps them") {
  const auto half_of = [](auto change) {
    OneNode one("Mul", {"x", "c"});
    onnx_file::TensorProto& tensor = one.model.weights("c", {}, {});
    change(tensor);
    return one.run().front();
  };
  CHECK(half_of([](auto& t) { t.set_raw_data(std::string("\0\0\0\x3f", 4)); }) == 0.5);
  CHECK(half_of([](auto& t) { t.set_data_type(10), t.set_raw_data(std::string("\0\x38", 2)); }) ==
        0.5);
  CHECK(half_of([](auto& t) { t.set_data_type(10), t.add_int32_data(0x3800); }) == 0.5);
  CHECK(half_of([](auto& t) { t.set_data_type(16), t.add_int32_data(0x3f00); }) == 0.5);
  CHECK(half_of([](auto& t) { t.set_data_type(11), t.add_double_data(0.5); }) == 0.5);
  OnnxModel model;
  model.input("x", {1, 2, 1, 1});
  model.ints("shape", {2, 1, 1});
  model.node("ConstantOfShape", {"shape"}, {"c"}).with_tensor("value", {1}, {0.5f});
  model.node("Mul", {"x", "c"}, {"y"});
  model.output("y");
  CHECK(run(model) == Numbers{0.5, 1});
}

TEST_CASE("external data lies in the folder of the model, and has what it says") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "megaconv_onnx_test";
  fs::remove_all(folder);
  fs::create_directories(folder / "model");
  const auto write = [](const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  };
  write(folder / "secret.bin", std::string(16, 'x'));
  write(folder / "model" / "data.bin", std::string("....\0\0\0\x3f", 8));
  fs::create_symlink(folder / "secret.bin", folder / "model" / "link.bin");
  const auto outcome = [&](const std::string& location, const std::string& offset,
                           const std::string& length) {
    OneNode one("Mul", {"x", "c"});
    onnx_file::TensorProto& tensor = one.model.weights("c", {}, {});
    tensor.set_data_location(1);
    for (const auto& [key, value] : std::map<std::string, std::string>{
             {"location", location}, {"offset", offset}, {"length", length}}) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    const std::string path = (folder / "model" / "model.onnx").string();
    write(path, one.model.bytes());
    CHECK(error_of([&] { parse_onnx(one.model.bytes()); }) ==
          "initializer \"c\": external data, must be in the model itself");
    try {
      return std::to_string(read_onnx(path).operators.size());
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(text.find("external data"));
    }
  };
  CHECK(outcome("data.bin", "4", "4") == "1");
  CHECK(outcome("data.bin", "5", "4") ==
        "external data is bytes 5 to 9 of \"data.bin\", which has 8");
  CHECK(outcome("data.bin", "4", "8") == "external data of 8 bytes, must be 4");
  CHECK(outcome("data.bin", "-1", "4") == "external data, offset \"-1\", must be 0 to 2^62");
  for (const char* location : {"../secret.bin", "/etc/hostname", "sub/../../secret.bin", ""}) {
    CAPTURE(location);
    CHECK_THAT(outcome(location, "0", "4"),
               ContainsSubstring("must be a file in the folder of the model or below"));
  }
  CHECK(outcome("link.bin", "0", "4") ==
        "external data in \"link.bin\", a link that leaves the folder of the model");
  CHECK_THAT(outcome("model.bin", "0", "4"), ContainsSubstring("No such file"));
  fs::remove_all(folder);
}

TEST_CASE("ONNX models that are wrong are refused with node, value and what is allowed") {
  CHECK(OneNode("LSTM").refusal(Status::unsupported) ==
        "node \"y\" (LSTM): operator LSTM is not supported");
  OneNode domain("Relu");
  domain.node->set_domain("com.microsoft");
  CHECK(domain.refusal(Status::unsupported) ==
        "node \"y\" (Relu): operator Relu of domain \"com.microsoft\" is not supported");
  CHECK(OneNode("Relu", {"x"}, 6).refusal(Status::unsupported) ==
        "operator set 6, must be 7 or newer");
  OneNode attribute("Relu");
  attribute.attributes().with("new", 1);
  CHECK(attribute.refusal(Status::unsupported) ==
        "node \"y\" (Relu): attribute \"new\" is not supported");
  OneNode type("LeakyRelu");
  type.attributes().with("alpha", 1);
  CHECK(type.refusal() == "node \"y\" (LeakyRelu): alpha has attribute type 2, must be 1");
  CHECK_THAT(OneNode("Relu", {"y"}).refusal(), ContainsSubstring("without cycles"));
  CHECK(OneNode("Relu", {}).refusal() == "node \"y\" (Relu): input 0 is missing, must be given");
  OneNode twice("Relu");
  twice.model.node("Relu", {"x"}, {"y"});
  CHECK(twice.refusal() ==
        "node \"y\" (Relu): output \"y\", another node, input or initializer makes it");
  OneNode output("Relu");
  output.model.output("z");
  CHECK(output.refusal() == "output \"z\", which no node makes, must be the value of a node");
  OneNode channels("Conv", {"x", "w"});
  channels.model.weights("w", {1, 2, 1, 1}, {1, 1});
  CHECK(channels.refusal() ==
        "node \"y\" (Conv): input 1, \"w\", (w) has shape [1, 2, 1, 1] and group is 1, must be of "
        "1 channels");
  OneNode one_dimensional("Conv", {"x", "w"});
  one_dimensional.model.weights("w", {1, 1, 3}, {1, 1, 1});
  CHECK_THAT(one_dimensional.refusal(Status::unsupported), ContainsSubstring("must have 4"));
  OneNode lies("Mul", {"x", "c"});
  lies.model.weights("c", {2}, {1, 2, 3});
  CHECK(lies.refusal() == "initializer \"c\" has 3 numbers, must have 2 for shape [2] of float32");
  OneNode raw("Mul", {"x", "c"});
  raw.model.weights("c", {2}, {}).set_raw_data("123");
  CHECK(raw.refusal() == "initializer \"c\" has 3 bytes, must have 8 for shape [2] of float32");
  OneNode other("Mul", {"x", "c"});
  other.model.weights("c", {1}, {}).set_data_type(3);
  CHECK(other.refusal(Status::unsupported) ==
        "initializer \"c\" has int8, must have float32, float16, bfloat16, float64, int32, int64 "
        "or bool");
  OneNode whole("Mul", {"x", "c"});
  whole.model.ints("c", Ints(2, 1));
  CHECK_THAT(whole.refusal(Status::unsupported), ContainsSubstring("must be one number"));
  OneNode huge("Mul", {"x", "c"});
  huge.model.weights("c", {1 << 21, 1 << 21}, {});
  CHECK(huge.refusal() ==
        "initializer \"c\" has shape [2097152, 2097152], must have at most 2^40 elements");
  OneNode negative("Mul", {"x", "c"});
  negative.model.weights("c", {-1}, {});
  CHECK_THAT(negative.refusal(), ContainsSubstring("no extent may be negative"));

  OnnxModel many;
  many.input("x", {1, 1 << 20, 1, 1});
  many.ints("shape", {1 << 20, 1 << 20, 1, 1});
  many.node("ConstantOfShape", {"shape"}, {"w"});
  many.node("Conv", {"x", "w"}, {"y"});
  many.output("y");
  CHECK_THAT(error_of([&] { parse_onnx(many.bytes()); }, Status::out_of_memory),
             ContainsSubstring("all weights together must have at most 536870912"));

  OnnxModel open;
  open.input("x", {-1, 3, -1, -1});
  open.node("Relu", {"x"}, {"y"});
  open.output("y");
  CHECK(error_of([&] { parse_onnx(open.bytes()); }) ==
        "input \"x\": dimension 2 is left open by the model, must be given: image, 1 to 2^31 - 1");
  CHECK(parse_onnx(open.bytes(), {.image = 5}).inputs[0].shape == Shape{1, 3, 5, 5});
  CHECK(error_of([&] { parse_onnx(OneNode("Relu").model.bytes(), {.batch = 4}); }) ==
        "input \"x\": batch 4, must be 1 as the model says");

  const std::string right = OneNode("Relu").model.bytes();
  CHECK(error_of([&] { parse_onnx("hello"); }) == "no ONNX model, or one that is cut off");
  CHECK(error_of([&] { parse_onnx(""); }) == "no graph, must have one");
  for (std::size_t size = 1; size < right.size(); ++size) {  // every one ends in an answer
    try {
      parse_onnx(std::string_view(right).substr(0, size));
    } catch (const Error&) {
    }
  }
  CHECK_THAT(error_of([&] { read_onnx("/nowhere/model.onnx"); }, Status::device_error),
             ContainsSubstring("/nowhere/model.onnx: "));
}
