// SPDX-License-Identifier: Apache-2.0
// Networks as files: they read as they were written, and what is wrong is refused.
#include "megaconv/network_file.hpp"

#include <cstring>
#include <limits>
#include <string>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/runtime/network_run.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

Network every_operator() {
  const float infinity = std::numeric_limits<float>::infinity();
  Network network{.inputs = {{"x", {2, 4, 8, 8}}, {"gate", {2, 8, 1, 1}}},
                  .outputs = {"scores", "cut"},
                  .dtype = DataType::bf16,
                  .layout = Layout::nchw};
  Convolution conv{.k = 8, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .w = whole_weights(288, 1)};
  network.operators = {
      {"conv", conv, {"x"}},
      {"norm",
       BatchNorm{.gamma = constant(8, 2),
                 .beta = constant(8, 1),
                 .mean = constant(8, 0.1f),
                 .variance = constant(8, 3),
                 .epsilon = 1e-3},
       {"conv"}},
      {"cut", Clamp{.least = -infinity, .most = 6}, {"norm"}},
      {"leaky", Pixelwise{.function = PixelFunction::leaky_relu, .alpha = 0.1f}, {"norm"}},
      {"scaled", Pixelwise{.function = PixelFunction::multiply}, {"leaky", "gate"}},
      {"pool", Pooling{PoolMode::average, 2, 2, 0, 0, 2, 2}, {"scaled"}},
      {"up", Rearrangement{.groups = 2, .repeat_h = 2, .repeat_w = 2, .fill = -infinity}, {"pool"}},
      {"sum", Add{}, {"up", "cut"}},
      {"both", Concatenation{}, {"sum", "norm"}},
      {"mean", GlobalAveragePooling{}, {"both"}},
      {"scores",
       FullyConnected{.k = 3, .w = whole_weights(48, 2), .bias = constant(3, 1)},
       {"mean"}},
  };
  return network;
}

/// A file with that header and no data.
std::string file_of(const std::string& header) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  return file + header;
}

/// A good file with a text in its header replaced by one as long.
std::string changed(const std::string& from, std::string to) {
  std::string file = export_network(every_operator());
  const std::size_t at = file.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(to.size() <= from.size());
  to.resize(from.size(), ' ');
  return file.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a network reads as it was written, and computes the same bits") {
  const Network network = every_operator();
  const std::string file = export_network(network);
  const Network again = import_network(file);
  CHECK(export_network(again) == file);
  CHECK(again.operators.size() == network.operators.size());
  CHECK(again.outputs == network.outputs);
  CHECK(again.dtype == DataType::bf16);
  CHECK(again.layout == Layout::nchw);
  const auto inputs = random_inputs(network, {});
  CHECK(NetworkRun(again, {.num_threads = 2}).run(inputs) ==
        NetworkRun(network, {.num_threads = 2}).run(inputs));
}

TEST_CASE("files of networks that are wrong are refused") {
  const auto refusal = [](const std::string& file) {
    return error_of([&] { import_network(file, "f"); });
  };
  CHECK(refusal("") == "f: no safetensors file, or one that is cut off");
  CHECK(refusal(std::string(8, '\xff')) ==
        "f: a header of 18446744073709551615 bytes, must be at most 0");
  CHECK_THAT(refusal(file_of("{")), ContainsSubstring("f: "));
  CHECK(refusal(file_of("{}")) ==
        "f: no text \"megaconv_network\" in \"__metadata__\", must be a file of net export");
  CHECK_THAT(refusal(file_of(R"({"__metadata__":{"megaconv_network":"[]"}})")),
             ContainsSubstring("stands in what is no object"));
  CHECK(refusal(changed("megaconv network 1", "megaconv network 2")) ==
        "f: format \"megaconv network 2\", must be \"megaconv network 1\"");
  CHECK(refusal(changed("concatenation", "concatenatiom")) ==
        "f: operator \"both\": does: \"concatenatiom\", must be one of convolution, pooling, "
        "global_average_pooling, batch_norm, add, concatenation, fully_connected, clamp, "
        "pixelwise, rearrangement");
  CHECK_THAT(refusal(changed("\\\"leaky_relu\\\"", "\\\"lucky_relu\\\"")),
             ContainsSubstring("operator \"leaky\": function: \"lucky_relu\", must be one of"));
  CHECK(refusal(changed("\\\"k\\\":8", "\\\"k\\\":9")) ==
        "f: operator \"conv\": w has 288 numbers, must have 324, [9][4][3][3]");
  CHECK(refusal(changed("\\\"pad_h\\\":1", "\\\"pad_g\\\":1")) ==
        "f: operator \"conv\": pad_h: is missing");
  CHECK_THAT(refusal(changed("\"F32\"", "\"F16\"")), ContainsSubstring("must be of dtype \"F32\""));
  CHECK(refusal(changed("\"conv.w\"", "\"conv.u\"")) ==
        "f: operator \"conv\": w is missing, must be [8][4][3][3]");
  std::string file = export_network(every_operator());
  file.pop_back();
  CHECK_THAT(refusal(file), ContainsSubstring("data_offsets must lie in order"));
  Network network = every_operator();
  network.operators[0].reads = {"nothing"};
  CHECK_THAT(error_of([&] { export_network(network); }), ContainsSubstring("which is none"));
}
