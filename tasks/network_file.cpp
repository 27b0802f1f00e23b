// SPDX-License-Identifier: Apache-2.0
// The safetensors format (github.com/huggingface/safetensors):
//
//   8 bytes   length of the header, little-endian
//   header    JSON: of every tensor its dtype, shape and bytes [begin, end) of the data; and texts
//             in "__metadata__", of which one is the network
//   data      the tensors, which leave no gap
#include "megaconv/network_file.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "mapping/json_text.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tasks/operators.hpp"

namespace megaconv {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "numbers are copied as they stand");

constexpr const char* kFormat = "megaconv network 1";
constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 26;
constexpr JsonLimits kLimits{kMostHeaderBytes, std::size_t{1} << 22};
constexpr std::size_t kMostOperators = 1 << 16;

// Values that a file may have; their names are to_string()'s.
constexpr DataType kDataTypes[] = {DataType::f32, DataType::f16, DataType::bf16};
constexpr Layout kLayouts[] = {Layout::nhwc, Layout::nchw};

// --- Writing.

class Writer {
 public:
  std::string write(const Network& network) {
    Json json{{"format", kFormat}};
    json["dtype"] = to_string(network.dtype);
    json["layout"] = to_string(network.layout);
    json["inputs"] = Json::array();
    for (const NetworkInput& input : network.inputs) {
      const Shape& s = input.shape;
      json["inputs"].push_back({{"name", input.name}, {"shape", {s.n, s.c, s.h, s.w}}});
    }
    json["operators"] = Json::array();
    for (const Operator& op : network.operators) {
      op_ = &op;
      json_ = {{"name", op.name}, {"does", kOperatorNames[op.does.index()]}, {"reads", op.reads}};
      auto does = op.does;
      std::visit([this](auto& alternative) { describe(*this, alternative); }, does);
      json["operators"].push_back(std::move(json_));
    }
    json["outputs"] = network.outputs;
    header_["__metadata__"] = {{"megaconv_network", json.dump()}};
    std::string header = header_.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');  // tensors are aligned to 8 bytes
    std::string file(sizeof(std::uint64_t), '\0');
    const std::uint64_t length = header.size();
    std::memcpy(file.data(), &length, sizeof length);
    file.reserve(file.size() + header.size() + bytes_);
    file += header;
    for (const Weights& weights : tensors_) {
      file.append(reinterpret_cast<const char*>(weights.data.get()), bytes_of(weights));
    }
    return file;
  }

  void operator()(const char* key, std::int64_t value) { json_[key] = value; }
  void operator()(const char* key, bool value) { json_[key] = value; }
  void operator()(const char* key, double value) {
    if (std::isinf(value)) {
      json_[key] = value > 0 ? "inf" : "-inf";
    } else {
      json_[key] = value;
    }
  }
  void operator()(const char* key, float value) { (*this)(key, double{value}); }
  template <class Enum, std::size_t kCount>
  void operator()(const char* key, Enum value, const Enum (&)[kCount]) {
    json_[key] = to_string(value);
  }
  void operator()(const char* key, const Weights& weights) {
    if (weights.data == nullptr) return;
    const std::uint64_t begin = bytes_;
    bytes_ += bytes_of(weights);
    header_[op_->name + "." + key] = {
        {"dtype", "F32"}, {"shape", {weights.size}}, {"data_offsets", {begin, bytes_}}};
    tensors_.push_back(weights);
  }

 private:
  static std::uint64_t bytes_of(const Weights& weights) {
    return static_cast<std::uint64_t>(weights.size) * sizeof(float);
  }

  const Operator* op_ = nullptr;
  Json json_, header_;
  std::vector<Weights> tensors_;
  std::uint64_t bytes_ = 0;
};

// --- Reading.

class Reader {
 public:
  Reader(std::string_view file, const std::string& name) : name_(excerpt(name)) {
    std::uint64_t length = 0;
    if (file.size() < sizeof length) fail("no safetensors file, or one that is cut off");
    std::memcpy(&length, file.data(), sizeof length);
    file.remove_prefix(sizeof length);
    if (length > file.size() || length > kMostHeaderBytes) {
      fail("a header of " + std::to_string(length) + " bytes, must be at most " +
           std::to_string(std::min(file.size(), kMostHeaderBytes)));
    }
    header_ = parse(file.substr(0, length));
    data_ = file.substr(length);
  }

  Network read() {
    const Json* text = nullptr;
    if (const auto metadata = header_.find("__metadata__"); metadata != header_.end()) {
      text = metadata->is_object() && metadata->contains("megaconv_network")
                 ? &(*metadata)["megaconv_network"]
                 : nullptr;
    }
    if (text == nullptr || !text->is_string()) {
      fail("no text \"megaconv_network\" in \"__metadata__\", must be a file of net export");
    }
    const Json network = parse(text->get_ref<const std::string&>());
    json_ = &network;
    Network made;
    const std::string format = text_of("format");
    if (format != kFormat) {
      fail("format \"" + excerpt(format) + "\", must be \"" + kFormat + '"');
    }
    (*this)("dtype", made.dtype, kDataTypes);
    (*this)("layout", made.layout, kLayouts);
    for (const Json& input : list("inputs")) {
      json_ = &input;
      made.inputs.push_back({text_of("name"), shape_of(list("shape"))});
      json_ = &network;
    }
    const Json& operators = list("operators");
    if (operators.size() > kMostOperators) {
      fail(std::to_string(operators.size()) + " operators, must be at most 65536");
    }
    for (const Json& op : operators) made.operators.push_back(read_operator(op));
    json_ = &network;
    made.outputs = texts("outputs");
    validate_named(made);
    return made;
  }

  void operator()(const char* key, std::int64_t& value) {
    const Json& json = at(key);
    if (!json.is_number_integer() ||
        (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{1} << 62) ||
        (!json.is_number_unsigned() && json.get<std::int64_t>() < -(std::int64_t{1} << 62))) {
      fail_at(key, "must be a whole number of -2^62 to 2^62");
    }
    value = json.get<std::int64_t>();
  }
  void operator()(const char* key, bool& value) {
    if (!at(key).is_boolean()) fail_at(key, "must be true or false");
    value = at(key).get<bool>();
  }
  void operator()(const char* key, double& value) {
    const Json& json = at(key);
    if (json == "inf" || json == "-inf") {
      value = json == "inf" ? std::numeric_limits<double>::infinity()
                            : -std::numeric_limits<double>::infinity();
      return;
    }
    if (!json.is_number()) fail_at(key, "must be a number, \"inf\" or \"-inf\"");
    value = json.get<double>();
  }
  void operator()(const char* key, float& value) {
    double wide = 0;
    (*this)(key, wide);
    if (!std::isinf(wide) && std::fabs(wide) > double{std::numeric_limits<float>::max()}) {
      fail_at(key, "must be a number of FP32");
    }
    value = static_cast<float>(wide);
  }
  template <class Enum, std::size_t kCount>
  void operator()(const char* key, Enum& value, const Enum (&allowed)[kCount]) {
    const std::string word = text_of(key);
    std::string names;
    for (const Enum one : allowed) {
      value = one;
      if (word == to_string(one)) return;
      if (!names.empty()) names += ", ";
      names += to_string(one);
    }
    fail_at(key, std::string(1, '"') + excerpt(word) + "\", must be one of " + names);
  }
  /// Those that are not there stay missing.
  void operator()(const char* key, Weights& weights) {
    const std::string tensor = op_ + "." + key;
    const auto found = header_.find(tensor);
    if (found == header_.end()) return;
    const auto refuse = [&](const std::string& why) {
      fail("tensor \"" + excerpt(tensor) + "\": " + why);
    };
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    const bool known = found->is_object() && found->contains("dtype") && found->contains("shape") &&
                       found->contains("data_offsets");
    const Json* const offsets = known ? &(*found)["data_offsets"] : nullptr;
    if (!known || !offsets->is_array() || offsets->size() != 2) {
      refuse("must have dtype, shape and two data_offsets");
    }
    if ((*found)["dtype"] != "F32") refuse("must be of dtype \"F32\"");
    const auto begin = whole_number((*offsets)[0], kMost), end = whole_number((*offsets)[1], kMost);
    if (!begin || !end || *begin > *end || *end > data_.size() ||
        (*end - *begin) % sizeof(float) != 0) {
      refuse("data_offsets must lie in order in the " + std::to_string(data_.size()) +
             " bytes that there are, and have whole numbers of FP32");
    }
    const std::uint64_t count = (*end - *begin) / sizeof(float);
    if ((*found)["shape"] != Json::array({count})) {
      refuse("must have shape [" + std::to_string(count) + "] for its data_offsets");
    }
    taken_ += *end - *begin;
    if (taken_ > data_.size()) refuse("data_offsets overlap those of another tensor");
    std::vector<float> numbers(count);
    if (count > 0) std::memcpy(numbers.data(), data_.data() + *begin, *end - *begin);
    weights = make_weights(std::move(numbers));
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(Status::invalid_argument, name_ + ": " + message);
  }
  [[noreturn]] void fail_at(const char* key, const std::string& message) const {
    fail((op_.empty() ? "" : "operator \"" + excerpt(op_) + "\": ") + std::string(key) + ": " +
         message);
  }
  Json parse(std::string_view text) const { return parse_json<Json>(text, kLimits, name_.c_str()); }
  const Json& at(const char* key) const {
    if (!json_->is_object()) fail_at(key, "stands in what is no object");
    const auto found = json_->find(key);
    if (found == json_->end()) fail_at(key, "is missing");
    return *found;
  }
  std::string text_of(const char* key) const {
    if (!at(key).is_string()) fail_at(key, "must be a text");
    return at(key).get<std::string>();
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) fail_at(key, "must be a list");
    return at(key);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> all;
    for (const Json& text : list(key)) {
      if (!text.is_string()) fail_at(key, "must be a list of texts");
      all.push_back(text.get<std::string>());
    }
    return all;
  }
  Shape shape_of(const Json& json) const {
    std::vector<std::int64_t> extents;
    for (const Json& extent : json) {
      const auto value = whole_number(extent, std::uint64_t{1} << 31);
      if (!value) fail_at("shape", "must be 4 whole numbers");
      extents.push_back(static_cast<std::int64_t>(*value));
    }
    if (extents.size() != 4) fail_at("shape", "must be 4 whole numbers");
    return {extents[0], extents[1], extents[2], extents[3]};
  }

  template <std::size_t kIndex = 0>
  void make(decltype(Operator::does)& does, const std::string& kind) {
    if constexpr (kIndex == std::size(kOperatorNames)) {
      std::string allowed;
      for (const char* known : kOperatorNames)
        allowed += (allowed.empty() ? "" : ", ") + std::string(known);
      fail_at("does", "\"" + excerpt(kind) + "\", must be one of " + allowed);
    } else if (kind == kOperatorNames[kIndex]) {
      describe(*this, does.template emplace<kIndex>());
    } else {
      make<kIndex + 1>(does, kind);
    }
  }

  Operator read_operator(const Json& json) {
    json_ = &json;
    op_.clear();
    Operator op{.name = text_of("name"), .does = Add{}, .reads = texts("reads")};
    op_ = op.name;
    make(op.does, text_of("does"));
    op_.clear();
    return op;
  }

  void validate_named(const Network& network) const {
    try {
      validate(network);
    } catch (const Error& error) {
      throw Error(error.status(), name_ + ": " + error.what());
    }
  }

  const std::string name_;
  Json header_;
  std::string_view data_;
  const Json* json_ = nullptr;  // what keys are looked up in
  std::string op_;              // at hand
  std::uint64_t taken_ = 0;     // bytes of tensors that have been read
};

}  // namespace

std::string export_network(const Network& network) {
  validate(network);
  return Writer().write(network);
}

Network import_network(std::string_view file, const std::string& name) {
  return Reader(file, name).read();
}

}  // namespace megaconv
