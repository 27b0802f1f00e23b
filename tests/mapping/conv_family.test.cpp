// SPDX-License-Identifier: Apache-2.0
// Small tiles or kernels of its own: what a convolution of a network on a GPU has, without a GPU.
#include "tasks/conv_family.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mapping/places.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/fuse.hpp"
#include "tasks/launch.hpp"
#include "tasks/lower.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"

namespace megaconv {
namespace {

using test::kAmpere;
using test::kHopper;

// With what small tiles ask for.
Target h100() {
  Target target = kHopper;
  target.shared_bytes = 227 << 10;
  target.cluster_blocks = 4;
  return target;
}

Target in_stages(Target target = kHopper) {
  target.stages = true;
  return target;
}

PlanOptions on_cuda(Precision precision = Precision::f32) {
  return {.tiling = {.precision = precision}, .backend = Backend::cuda};
}

Network resnet50(std::int64_t batch, DataType dtype, std::int64_t image = 224) {
  return make_network("resnet50", {.batch = batch, .image = image, .dtype = dtype});
}

std::size_t count_own(const std::vector<OperatorCut>& cuts) {
  return static_cast<std::size_t>(std::count_if(cuts.begin(), cuts.end(), [](const auto& cut) {
    return std::holds_alternative<Tiling>(cut.cut);
  }));
}

std::vector<OperatorCut> cuts_of(const Network& network, const TilingOptions& options,
                                 const Target& target) {
  return cut_operators(fuse(network, options, target), options, target);
}

// Of convolutions with small tiles, by name.
std::map<std::string, PairTensors> pairs_of(const std::string& name, const TilingOptions& options,
                                            const Target& target) {
  const FusedNetwork network =
      fuse(make_network(name, {.batch = 1, .dtype = DataType::f32}), options, target);
  const std::vector<OperatorCut> cuts = cut_operators(network, options, target);
  std::map<std::string, PairTensors> pairs;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    if (const auto* cut = std::get_if<SmallGemmCut>(&cuts[i].cut)) {
      pairs[network.operators[i].name()] = cut->pairs;
    }
  }
  return pairs;
}

TEST_CASE("Convolutions of one launch hand floats to each other in pairs where all can") {
  const TilingOptions tf32{.precision = Precision::tf32};
  std::map<std::string, PairTensors> pairs = pairs_of("resnet50", tf32, h100());
  CHECK(pairs.size() == 54);
  CHECK(pairs["conv1"] == PairTensors{.inputs = true, .pooled = true});
  CHECK(pairs["layer1.0.conv1"] == PairTensors{.inputs = true, .y = true});
  CHECK(pairs["layer1.0.downsample"] == PairTensors{.inputs = true, .y = true, .rests = true});
  CHECK(pairs["layer1.0.conv3"] == PairTensors{.inputs = true, .y = true, .rests = true});
  CHECK(pairs["layer4.2.conv3"] == PairTensors{.inputs = true, .pooled = true});
  CHECK(pairs["fc"] == PairTensors{.inputs = true});
  const auto has_none = [](const std::map<std::string, PairTensors>& of) {
    return std::all_of(of.begin(), of.end(),
                       [](const auto& one) { return one.second == PairTensors{}; });
  };
  CHECK(has_none(pairs_of("resnet50", {}, h100())));               // FP32
  CHECK(has_none(pairs_of("resnet50", tf32, in_stages(h100()))));  // may have large tiles
  CHECK(has_none(pairs_of("densenet121", tf32, h100())));          // concatenates
  TilingOptions whole = tf32;
  whole.whole_tensors = true;
  CHECK(has_none(pairs_of("resnet50", whole, h100())));  // somebody may look at them
}

TEST_CASE("All convolutions of 32 images have kernels of their own, and none of one launch") {
  for (const DataType dtype : {DataType::f16, DataType::bf16, DataType::f32}) {
    for (const Precision precision : {Precision::f32, Precision::tf32}) {
      CAPTURE(to_string(dtype), to_string(precision));
      const TilingOptions options{.precision = precision};
      const Network network = resnet50(32, dtype);
      CHECK(count_own(cuts_of(network, options, in_stages())) == 54);
      CHECK(count_own(cuts_of(network, options, kHopper)) == 0);
      CHECK(count_own(cuts_of(network, options, in_stages(kAmpere))) == 0);
      const NetworkLaunch made = choose_launch(network, on_cuda(precision), kHopper);
      CHECK(made.options.cuda_launch == CudaLaunch::staged);
      CHECK(made.options.mapping.policy == "staged");
      CHECK(made.reason.find("estimated ") == 0);
      CHECK(made.reason.find(" us, in one launch ") != std::string::npos);
    }
  }
}

TEST_CASE("A pixel of each of eight images has large tiles, which read filters once") {
  const TilingOptions tf32{.precision = Precision::tf32};
  const Target target = in_stages(h100());
  const auto is_own = [&](std::int64_t batch) {
    const Network network = resnet50(batch, DataType::f32);
    return std::holds_alternative<Tiling>(cuts_of(network, tf32, target).back().cut);
  };
  CHECK(is_own(8));
  CHECK_FALSE(is_own(1));
  CHECK_FALSE(is_own(2));
}

TEST_CASE("One image in FP32 has small tiles in one launch, and so have GPUs without our kernels") {
  const NetworkLaunch made = choose_launch(resnet50(1, DataType::f32), on_cuda(), h100());
  CHECK(made.options.cuda_launch == CudaLaunch::persistent);
  CHECK(made.reason.find(" us, in stages ") != std::string::npos);
  const NetworkLaunch other = choose_launch(resnet50(32, DataType::f16), on_cuda(), kAmpere);
  CHECK(other.options.cuda_launch == CudaLaunch::persistent);
  CHECK(other.reason == "for a network");
}

TEST_CASE("Options of a network that one launch or stages alone have decide about the launch") {
  const Network network = resnet50(32, DataType::f16, 64);
  const auto check = [&](CudaLaunch launch, const char* reason, auto change) {
    PlanOptions options = on_cuda();
    change(options);
    const NetworkLaunch made = choose_launch(network, options, kHopper);
    CHECK(made.options.cuda_launch == launch);
    CHECK(made.reason == reason);
  };
  check(CudaLaunch::persistent, "for the order asked for",
        [](auto& o) { o.mapping.policy = "depth_first"; });
  check(CudaLaunch::persistent, "for the number of blocks asked for",
        [](auto& o) { o.num_blocks = 132; });
  check(CudaLaunch::staged, "for the algorithm asked for",
        [](auto& o) { o.tiling.algorithm = Algorithm::implicit_gemm; });
  check(CudaLaunch::persistent, "as asked for",
        [](auto& o) { o.cuda_launch = CudaLaunch::persistent; });
  check(CudaLaunch::persistent, "of no meaning", [](auto& o) { o.backend = Backend::cpu; });
}

// A guess about x may be wrong, and is found wrong when y is there.
TEST_CASE("A convolution that may be computed again does not write over what it reads") {
  const Network network = make_network("vgg16", {.batch = 32});
  const PlanOptions options = choose_launch(network, on_cuda(), kHopper).options;
  const Target target = in_stages();
  const FusedNetwork fused = fuse(network, options.tiling, target);
  const Lowering lowering = lower(fused, options.tiling, options.mapping, target, nullptr);
  int several_stages = 0;
  for (const Node& node : lowering.nodes) {
    const auto* const tiling = std::get_if<Tiling>(&node.cut);
    if (tiling == nullptr) continue;
    if (tiling->tiles() != nullptr) ++several_stages;
    const Buffer& x = lowering.graph.buffers[node.buffers.x];
    const Buffer& y = lowering.graph.buffers[node.buffers.y];
    if (x.place == kNoPlace || y.place == kNoPlace) continue;
    CAPTURE(x.name, y.name);
    CHECK((bytes_of(x).end <= bytes_of(y).begin || bytes_of(y).end <= bytes_of(x).begin));
  }
  CHECK(several_stages >= 8);
}

TEST_CASE("A network in stages has whole V and M, reasons, and an order that is proven") {
  const Network network = resnet50(2, DataType::f32, 64);
  for (const Algorithm algorithm :
       {Algorithm::automatic, Algorithm::implicit_gemm, Algorithm::direct}) {
    const TilingOptions options{.algorithm = algorithm};
    const Lowering lowering = lower(network, options, {.policy = "staged"}, in_stages());
    CHECK(!validate(lowering.graph, lowering.mapping));
    for (const Node& node : lowering.nodes) {
      const auto* const tiling = std::get_if<Tiling>(&node.cut);
      const bool small = std::holds_alternative<SmallGemmCut>(node.cut);
      const bool chosen = algorithm == Algorithm::automatic && (small || tiling != nullptr);
      CHECK(node.reason.empty() == !chosen);
      CHECK((!small || algorithm == Algorithm::automatic));
      if (tiling == nullptr || tiling->window() == nullptr) continue;
      CHECK(*tiling->window() == Window{tiling->num_groups, tiling->num_groups});
    }
  }
}

TEST_CASE("A stage waits for another one by one edge, wherever its tasks read rows of two images") {
  for (const char* name : {"unet", "resnet50", "densenet121"}) {
    const Network network = make_network(name, {.batch = 5, .image = 64, .dtype = DataType::f16});
    const Lowering lowering = lower(network, {}, {.policy = "staged"}, in_stages(h100()));
    std::map<std::pair<StageId, StageId>, int> edges;
    for (const Edge& edge : lowering.graph.edges) {
      if (!edge.reuse) ++edges[{edge.producer.stage, edge.consumer.stage}];
    }
    const auto is_one = [](const auto& pair) { return pair.second == 1; };
    CAPTURE(name, edges.size());
    CHECK(edges.size() > 20);
    CHECK(std::all_of(edges.begin(), edges.end(), is_one));
  }
}

TEST_CASE("All convolutions of a network have small tiles if these are asked for") {
  const Network network = resnet50(32, DataType::f16, 64);
  const TilingOptions options{.algorithm = Algorithm::small_gemm};
  for (const Target& target : {kHopper, in_stages(), kAmpere}) {
    for (const OperatorCut& cut : cuts_of(network, options, target)) {
      CHECK_FALSE(std::holds_alternative<Tiling>(cut.cut));
    }
  }
}

TEST_CASE("An algorithm without tasks for a convolution of a network is refused by name") {
  CHECK_THROWS_WITH(
      lower(resnet50(1, DataType::f32), {.algorithm = Algorithm::winograd}, {}, in_stages()),
      "conv1: winograd: filter 7x7, must be 3x3");
}

TEST_CASE("Within an error budget a network in stages has cuts that keep it") {
  const Network network = resnet50(32, DataType::f32);
  for (const double budget : {2e-3, 1e-5}) {
    const TilingOptions options{.max_error = budget};
    const std::vector<OperatorCut> cuts = cuts_of(network, options, in_stages());
    CHECK(count_own(cuts) > 0);
    for (const OperatorCut& cut : cuts) {
      const auto* const tiling = std::get_if<Tiling>(&cut.cut);
      if (tiling != nullptr) CHECK(error_bound(*tiling).relative_l2 <= budget);
    }
  }
}

// H100, of a graph that repeats one layer (docs/results: resnet50_n32_f16_80b4726_h100,
// resnet50_n32_f32_h100, mobilenetv2_n32_f32_h100; of wide tiles epilogue_branch_h100). The first
// layer and the third, and resnet50_f16_nhwc_h200, are of an H200, and so is FP32 in tall tiles
// (resnet50_n32_f32_h200).
TEST_CASE("Estimates of kernels of their own are within a factor of what was measured") {
  struct Measured {
    const char* problem;
    double us;
  };
  const Measured all[] = {
      {"n1c64h56w56k64r1s1p0u1d1g1+nhwc+f16+bias+relu", 2.0},
      {"n1c256h14w14k256r3s3p1u1d1g1+nhwc+f16+bias+relu", 5.4},
      {"n1c2048h7w7k512r1s1p0u1d1g1+nhwc+f16+bias+relu", 3.8},
      {"n32c3h224w224k64r7s7p3u2d1g1+nhwc+f16", 52.1},
      {"n32c64h56w56k256r1s1p0u1d1g1+nhwc+f16", 26.8},
      {"n32c256h56w56k64r1s1p0u1d1g1+nhwc+f16", 25.6},
      {"n32c256h14w14k256r3s3p1u1d1g1+nhwc+f16", 13.7},
      {"n32c512h7w7k2048r1s1p0u1d1g1+nhwc+f16", 10.6},
      {"n32c64h56w56k64r1s1p0u1d1g1+nhwc", 19.8},
      {"n32c256h56w56k64r1s1p0u1d1g1+nhwc", 37.9},
      {"n32c128h28w28k128r3s3p1u1d1g1+nhwc", 45.5},
      {"n32c256h14w14k1024r1s1p0u1d1g1+nhwc", 29.5},
      {"n32c512h14w14k512r3s3p1u2d1g1+nhwc", 70.3},
      {"n32c512h7w7k512r3s3p1u1d1g1+nhwc", 42.4},
      {"n32c32h112w112k32r3s3p1u1d1g32+nhwc", 38.9},
      {"n32c384h14w14k384r3s3p1u1d1g384+nhwc", 6.2},
      {"n32c144h56w56k144r3s3p1u1d1g144+nhwc+f16", 27.1},
      {"n32c96h112w112k96r3s3p1u2d1g96+nhwc+f16", 37.6},
  };
  for (const auto& [text, us] : all) {
    const ConvProblem problem = parse_problem(text);
    const TilingOptions options{.filters = FilterMode::prepared, .whole_tensors = true};
    const double estimated = own_kernels_us(make_tiling(problem, options, kHopper), kHopper);
    constexpr double kColdUs = 4;  // of a kernel that does not run again and again
    CAPTURE(text, us, estimated);
    CHECK(estimated - kColdUs > us / 1.5);
    CHECK(estimated - kColdUs < us * 1.5);
  }
}

// H100 (docs/notebook/networks_gpu.md): us of one image in one launch and in stages.
struct MeasuredNetwork {
  const char* network;
  DataType dtype;
  Precision precision;
  double one_us, staged_us;
};
constexpr MeasuredNetwork kMeasuredNetworks[] = {
    {"resnet50", DataType::f16, Precision::f32, 253, 275},
    {"resnet50", DataType::f32, Precision::tf32, 334, 371},
    {"resnet50", DataType::f32, Precision::f32, 443, 502},
    {"vgg16", DataType::f16, Precision::f32, 383, 287},
    {"vgg16", DataType::f32, Precision::tf32, 530, 391},
    {"vgg16", DataType::f32, Precision::f32, 910, 632},
    {"mobilenet_v2", DataType::f16, Precision::f32, 188, 172},
    {"mobilenet_v2", DataType::f32, Precision::tf32, 229, 228},
    {"densenet161", DataType::f16, Precision::f32, 770, 885},
    {"densenet161", DataType::f32, Precision::tf32, 1032, 1258},
    {"densenet161", DataType::f32, Precision::f32, 1254, 1480},
};

TEST_CASE("Estimates of networks are within a factor of what was measured") {
  for (const auto& [name, dtype, precision, one_us, staged_us] : kMeasuredNetworks) {
    double one = 0, staged = 0;
    const Network network = make_network(name, {.dtype = dtype});
    for (const OperatorCut& cut : cuts_of(network, {.precision = precision}, in_stages(h100()))) {
      one += cut.one_launch_us;
      staged += cut.us;
    }
    CAPTURE(name, to_string(dtype), to_string(precision), one_us, one, staged_us, staged);
    CHECK(one > one_us / 1.4);
    CHECK(one < one_us * 1.4);
    CHECK(staged > staged_us / 1.4);
    CHECK(staged < staged_us * 1.4);
    CHECK((staged < one) == (staged_us < one_us));
  }
}

TEST_CASE("A convolution stores what the next concatenation makes of its outputs") {
  const Network network = make_network("densenet121", {.image = 64, .dtype = DataType::f16});
  for (const bool stages : {false, true}) {
    const Lowering lowering = lower(network, {}, {}, stages ? in_stages(h100()) : h100());
    std::map<BufferId, std::uint32_t> stored;  // tensors, by y of the concatenation
    std::size_t stores = 0;
    for (const Node& node : lowering.nodes) {
      if (node.buffers.second != kNoBuffer) ++stored[node.buffers.second];
    }
    for (const Node& node : lowering.nodes) {
      const auto* const cut = std::get_if<ElementwiseCut>(&node.cut);
      if (cut == nullptr) continue;
      CHECK(cut->written_by_makers == stored[node.buffers.y]);
      stores += cut->written_by_makers;
    }
    CHECK(stores == (stages ? 0 : 58));  // its 3x3 convolutions
  }
}

TEST_CASE("A convolution of small tiles pools its outputs, and the pooling has no tasks") {
  for (const auto& [name, poolings] : {std::pair("resnet50", 2), std::pair("densenet121", 4)}) {
    const Network network = make_network(name, {.dtype = DataType::f16});
    const Lowering lowering = lower(network, {}, {}, h100());
    int pooled = 0, written = 0;
    for (const Node& node : lowering.nodes) {
      const auto* const conv = std::get_if<SmallGemmCut>(&node.cut);
      pooled += conv != nullptr && conv->pool.has_value();
      const auto* const pooling = std::get_if<PoolCut>(&node.cut);
      if (pooling == nullptr || !pooling->written_by_maker) continue;
      ++written;
      CHECK(pooling->num_groups == 0);
    }
    CAPTURE(name);
    CHECK(pooled == poolings);
    CHECK(written == poolings);
  }
}

TEST_CASE("Blocks of MobileNet in stages are tasks of their last convolution, where that pays") {
  const auto network = [](DataType dtype) {
    return make_network("mobilenet_v2", {.batch = 1, .dtype = dtype});
  };
  const auto count = [&](const Network& of, const TilingOptions& options, const Target& target,
                         auto is) {
    const std::vector<OperatorCut> cuts = cuts_of(of, options, target);
    return std::count_if(cuts.begin(), cuts.end(), [&](const OperatorCut& one) {
      const auto* const cut = std::get_if<SmallGemmCut>(&one.cut);
      return cut != nullptr && is(*cut);
    });
  };
  const auto computes = [](const SmallGemmCut& cut) { return cut.depthwise.has_value(); };
  const auto expands = [](const SmallGemmCut& cut) { return cut.expand.has_value(); };
  for (const DataType dtype : {DataType::f16, DataType::f32}) {
    CAPTURE(to_string(dtype));
    CHECK(count(network(dtype), {}, in_stages(h100()), computes) >= 10);
    CHECK(count(network(dtype), {}, in_stages(h100()), expands) >= 4);
    CHECK(count(network(dtype), {}, h100(), computes) == 0);  // one launch has one kernel
    CHECK(count(network(dtype), {.whole_tensors = true}, in_stages(h100()), computes) == 0);
    const Lowering lowering = lower(network(dtype), {}, {.policy = "staged"}, in_stages(h100()));
    CHECK(!validate(lowering.graph, lowering.mapping));
  }
  // The caller, as a second reader, needs what a depthwise convolution makes.
  Network read_twice = network(DataType::f16);
  const auto all = count(read_twice, {}, in_stages(h100()), computes);
  for (const FusedOperator& op : fuse(read_twice).operators) {
    if (op.name() == "block5.depthwise") read_twice.outputs.push_back(op.value());
  }
  CHECK(count(read_twice, {}, in_stages(h100()), computes) == all - 1);
}

TEST_CASE("Large tiles of stages store the poolings of VGG-16 in groups of whole windows") {
  for (const auto& [dtype, precision] :
       {std::pair(DataType::f16, Precision::f32), std::pair(DataType::f32, Precision::tf32)}) {
    const Network network = make_network("vgg16", {.dtype = dtype});
    const Lowering lowering = lower(network, {.precision = precision}, {}, in_stages(h100()));
    int pooled = 0, written = 0;
    for (const Node& node : lowering.nodes) {
      if (const auto* const pooling = std::get_if<PoolCut>(&node.cut)) {
        written += pooling->written_by_maker;
        CHECK((pooling->num_groups == 0) == pooling->written_by_maker);
      }
      const auto* const tiling = std::get_if<Tiling>(&node.cut);
      if (tiling == nullptr || node.buffers.second == kNoBuffer) continue;
      const auto& cut = std::get<ImplicitGemmCut>(tiling->cut);
      ++pooled;
      CHECK(cut.pools);
      CHECK(cut.places_per_group % (2 * (tiling->problem.w + tiling->problem.pad_w)) == 0);
      CHECK(to_string(*tiling).find("pools y") != std::string::npos);
    }
    CAPTURE(to_string(dtype), pooled, written);
    CHECK(pooled == 4);
    CHECK(written == pooled + (dtype == DataType::f16 ? 1 : 0));  // one by small tiles
  }
}

TEST_CASE("Large tiles pool nothing that others read, nor of several images") {
  const auto pooled = [](const Network& network, const TilingOptions& options) {
    const std::vector<OperatorCut> cuts = cuts_of(network, options, in_stages(h100()));
    return std::count_if(cuts.begin(), cuts.end(), [](const OperatorCut& one) {
      const auto* const tiling = std::get_if<Tiling>(&one.cut);
      const auto* const cut = tiling ? std::get_if<ImplicitGemmCut>(&tiling->cut) : nullptr;
      return cut != nullptr && cut->pools;
    });
  };
  const auto vgg = [](std::int64_t batch) {
    return make_network("vgg16", {.batch = batch, .dtype = DataType::f16});
  };
  CHECK(pooled(vgg(1), {}) == 4);
  // Of images down to 2x2, which are one group.
  const Network small = make_network("vgg16", {.image = 32, .classes = 10, .dtype = DataType::f16});
  CHECK(pooled(small, {.algorithm = Algorithm::implicit_gemm}) == 5);
  CHECK(pooled(vgg(1), {.whole_tensors = true}) == 0);
  CHECK(pooled(vgg(8), {}) == 0);
  CHECK(pooled(make_network("unet", {.dtype = DataType::f16}), {}) == 0);  // skips read them
}

}  // namespace
}  // namespace megaconv
