// SPDX-License-Identifier: Apache-2.0
// Direct tasks on a CUDA device, by the checks of `megaconv verify`: poisoned memory, canaries, the
// double reference, the same bits again and on one block.
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/cuda/layer.hpp"
#include "tools/run/verify_case.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::DeviceLayer;
using megaconv::test::have_device;
using megaconv::test::Layer;
using megaconv::test::uses_tensor_cores;

namespace {

// Every compiled shape of task, whole and cut off; one filter, one term, many of both; conv groups
// of one filter and of several; strides, dilations, padding and extents that differ by direction.
const char* const kShapes[] = {
    "n1c1h1k1r1p0",
    "n2c3h29w17k20r7u2p3+bias+relu",
    "n1c33h12w9k70r1p0+residual",
    "n2c20h8k300",
    "n1c160h7k160+bias",
    "n3c5h40w33k30r5",
    "n2c16h23w21k40r5s3d2x3u1x2p4x1+bias+residual+relu",
    "n1c4h40k8r7d6p0",
    "n2c24h11k48g4+residual",
    "n1c6h9k352g2",
    "n1c12h10w3k6g6p0",
};
const char* const kDepthwiseShapes[] = {"n3c19h14w15k19g19r3u2+bias+relu",
                                        "n2c64h9w40k64g64r5d2",
                                        "n1c1h5k1+residual",
                                        "n2c40h21w17k40g40u2+bias+residual",
                                        "n1c44h11w35k44g44r7u1x2+relu",
                                        "n2c40h9w7k40g40+scale+bias+relu",
                                        "n2c20h11w9k20g20r7+bias+residual",
                                        "n1c9h10w9k9g9r5u2",
                                        "n9c72h31k72g72+bias",
                                        "n5c48h57w58k48g48u2+relu",
                                        "n3c72h27w31k72r5p2g72+bias+relu",
                                        "n2c96h20k96r7p3g96u2+scale+residual",
                                        "n4c24h33w6k24r5p1x2g24u2"};

// 1x1 filters on few channels, in NHWC: y in columns whose vectors have one pixel or several, and
// by threads of a few pixels.
const char* const kFewChannels[] = {"n2c6h64w65k627r1p0+bias",
                                    "n1c7h91w90k129r1p0+scale+residual",
                                    "n3c16h40w41k50r1p0+bias+residual+relu",
                                    "n2c3h111w81k136r1p0",
                                    "n1c4h200w14k404r1p0+relu",
                                    "n5c1h9w7k33r1p0",
                                    "n3c8h136w53k4r1p0+residual",
                                    "n2c5h19w18k7r1p0+bias"};

// Sums of few terms, in NHWC on tensor cores, exact on integers: by every number of steps, with and
// without whole quads of channels, by filters that are stored in vectors of 16, 8 and 4 bytes and
// one by one.
const char* const kFewTerms[] = {"n2c3h43w50k64r1s3p0x1+bias",
                                 "n1c16h31w37k200r1p0+scale+residual",
                                 "n2c3h33w20k33+bias",
                                 "n3c4h58k36+residual+relu",
                                 "n2c12h26w31k72r5s1p2x0+bias",
                                 "n1c8h40w50k196+relu",
                                 "n1c6h22w31k50r5s3p2u2x1+bias+residual",
                                 "n1c16h29w28k1000+residual+relu",
                                 "n1c24h29k600+scale",
                                 "n1c3h64k64r7p3u2+bias+relu"};

// Of few filters: in one or two columns, of every number of steps, of parts of one quad and two.
const char* const kFewFilters[] = {"n2c8h43w50k5r1p0+scale+bias+residual",
                                   "n1c76h31w37k16r1p0+bias",
                                   "n3c96h33w20k8r1p0+residual+relu",
                                   "n2c4h58k16+bias+relu",
                                   "n2c3h26w31k12u2+residual",
                                   "n1c24h29k11+relu",
                                   "n1c6h22w31k13r4s3d2x3u1x2p4x1+bias",
                                   "n2c13h11w90k9r3s1p0+scale",
                                   "n1c16h64w40k2+bias"};
// Many short pixels, channels in eights, fours or not, filters in eights or not; long ones.
const char* const kPixelStreams[] = {
    "n1c3h1w150001k5r1p0+bias",
    "n2c24h250w301k40r1p0+scale+bias",
    "n1c5h388w389k50r1p0+relu",
    "n3c16h223w225k33r1p0+residual",
    "n1c170h173w173k16r1p0+scale+bias+residual+relu",
    "n5c266h67w59k11r1p0",
    "n3c48h53w61k37r1p0+bias+residual",
    "n4c128h60w47k101r1p0+scale",
    "n9c24h31w33k439r1p0",
};

void check_all(const char* shape, Algorithm algorithm, const char* dtype = "",
               std::initializer_list<FilterMode> modes = {FilterMode::every_run,
                                                          FilterMode::prepared},
               Precision precision = Precision::f32) {
  for (const char* layout : {"+nchw", "+nhwc"}) {
    for (const bool integer : {false, true}) {
      for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
        for (const FilterMode filters : modes) {
          cli::VerifyCase item{parse_problem(std::string(shape) + layout + dtype), {}, integer};
          item.plan.options.backend = Backend::cuda;
          item.plan.options.cuda_launch = launch;
          item.plan.options.tiling.algorithm = algorithm;
          item.plan.options.tiling.filters = filters;
          item.plan.options.tiling.precision = precision;
          const cli::CaseVerdict verdict = cli::check(item);
          CAPTURE(cli::to_command(item));
          CHECK(verdict.failure == "");
          CHECK(verdict.algorithm.starts_with("direct"));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("cuda direct: any filter, stride, dilation, padding and conv groups, any shape") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : kShapes) check_all(shape, Algorithm::direct);
}

void check_on_tensor_cores(const char* shape) {
  const auto modes = {FilterMode::every_run, FilterMode::prepared};
  check_all(shape, Algorithm::direct, "+f16", modes);
  check_all(shape, Algorithm::direct, "+bf16", modes);
  check_all(shape, Algorithm::direct, "", modes, Precision::tf32);
}

TEST_CASE("cuda direct: depthwise convolution") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : kDepthwiseShapes) check_all(shape, Algorithm::direct);
}

// TMA loads boxes of x that begins at a multiple of 16 bytes; of another one threads do, by the
// same sums.
TEST_CASE("cuda direct: depthwise convolution takes x wherever it lies", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : {"n2c40h21w17k40g40+bias", "n1c32h20k32r5p2g32u2", "n2c8h12k8r7p3g8"}) {
    const Layer layer(parse_problem(std::string(shape) + "+nhwc+f16"), false);
    DeviceLayer<Float16> device(layer);
    PlanOptions options{.backend = Backend::cuda, .cuda_launch = CudaLaunch::staged};
    options.tiling.algorithm = Algorithm::direct;
    options.tiling.whole_tensors = true;
    const Plan plan = Plan::create(layer.problem, options);
    const std::vector<Float16> y = device.run(plan);
    std::vector<Float16> shifted{Float16{}};
    for (const float value : layer.x) shifted.push_back(from_float<Float16>(value));
    const DeviceBuffer x(shifted);
    Tensors tensors = device.tensors();
    tensors.x = static_cast<const Float16*>(x.get()) + 1;
    const std::vector<Float16> again = device.run(plan, tensors);
    CAPTURE(shape, plan.describe());
    CHECK(std::memcmp(again.data(), y.data(), y.size() * sizeof(Float16)) == 0);
  }
}

TEST_CASE("cuda direct: 1x1 filters on few channels", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* dtype : {"", "+f16", "+bf16"}) {
    for (const char* shape : kFewChannels) check_all(shape, Algorithm::direct, dtype);
  }
}

TEST_CASE("cuda direct: sums of few terms on tensor cores", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : kFewTerms) check_on_tensor_cores(shape);
}

TEST_CASE("cuda direct: few filters on tensor cores", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : kFewFilters) check_on_tensor_cores(shape);
}

TEST_CASE("cuda direct: streams of pixels", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* shape : kPixelStreams) check_on_tensor_cores(shape);
}

TEST_CASE("cuda direct: plans of streams that need less shared memory take none from others") {
  if (!uses_tensor_cores()) SKIP("no device of compute capability 8.0, or not its mma");
  const auto plan_of = [](const ConvProblem& problem) {
    PlanOptions options{.backend = Backend::cuda};
    options.tiling.algorithm = Algorithm::direct;
    options.tiling.arithmetic = Arithmetic::f16;
    options.tiling.filters = FilterMode::prepared;
    return Plan::create(problem, options);
  };
  const Layer layer(parse_problem("n1c1002h72k8r1p0+nhwc+f16"), true);
  DeviceLayer<Float16> device(layer);
  const Plan plan = plan_of(layer.problem);
  const std::vector<Float16> y = device.run_prepared(plan);
  const Plan smaller = plan_of(parse_problem("n1c8h400k16r1p0+nhwc+f16"));
  const std::vector<Float16> again = device.run_prepared(plan);
  CHECK(std::memcmp(again.data(), y.data(), y.size() * sizeof(Float16)) == 0);
}

TEST_CASE("cuda direct: tensors of 16 bits, whatever the shape") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* dtype : {"+f16", "+bf16"}) {
    for (const char* shape : kShapes) check_all(shape, Algorithm::direct, dtype);
    for (const char* shape : kDepthwiseShapes) check_all(shape, Algorithm::direct, dtype);
  }
}

TEST_CASE("cuda direct: what others cannot compute is left to direct tasks", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  // Fewer channels than large tiles multiply at a time, and filters that small tiles cannot have.
  const auto modes = {FilterMode::every_run};
  check_all("n2c12h13w9k36u2g2", Algorithm::automatic, "", modes);
  check_all("n1c20h9k20g20", Algorithm::automatic, "", modes);
  check_all("n2c12h13w9k36u2g2", Algorithm::automatic, "+f16", modes);
}
