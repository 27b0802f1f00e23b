// SPDX-License-Identifier: Apache-2.0
// megaconv run: one problem, with seeded data or with tensors from .npy files.
#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "megaconv/plan.hpp"
#include "tasks/activation.hpp"
#include "tasks/same_padding.hpp"
#include "tasks/storage.hpp"
#include "tools/report/records.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/file_io.hpp"
#include "tools/run/npy.hpp"
#include "tools/run/tensors.hpp"
#include "tools/run/timing.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kRunFooter = R"(
Examples:
  megaconv run n1c64h56k64
  megaconv run n8c256h14k256+bias+relu --algo winograd --tile 4 --threads 2
  megaconv run --input x.npy --weights w.npy --output y.npy
  megaconv run --input x.npy --weights w.npy --bias b.npy --epilogue relu --stride 2 --output y.npy

Files are what numpy.save writes, all of float32, all of float16, all of bfloat16 ('V2', as
ml_dtypes' are saved; y too is then V2), or all of int8 but for scale and bias, which are then of
float32; in C order; x [N][C][H][W], w [K][C/groups][R][S], scale and bias [K], residual and y
[N][K][P][Q]; with --layout nhwc x [N][H][W][C], w [K][R][S][C/groups], residual and y
[N][P][Q][K].)";

/// "--pad 1" or "--pad 1x2": vertical and horizontal.
struct Pair {
  std::int64_t vertical = 1, horizontal = 1;
};

struct RunArguments {
  ProblemArguments problem;
  PlanArguments plan;
  std::string input, weights, scale, bias, residual, output;
  std::optional<Pair> pad, stride, dilation;
  std::optional<std::int64_t> groups;
  bool no_check = false, json = false;
  TimingOptions timing;
};

Pair parse_pair(const char* option, const std::string& text) {
  Pair pair;
  const char* const end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, pair.vertical);
  pair.horizontal = pair.vertical;
  if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == 'x') {
    parsed = std::from_chars(parsed.ptr + 1, end, pair.horizontal);
  }
  if (parsed.ec == std::errc() && parsed.ptr == end) return pair;
  throw Error(Status::invalid_argument,
              fmt::format("{} {}, must be a number or two: 1 or 1x2", option, text));
}

/// The problem that the shapes of x and w and the options describe.
ConvProblem problem_from_shapes(const RunArguments& arguments, const NpyArray& x,
                                const NpyArray& w) {
  ConvProblem problem;
  problem.dtype = x.dtype;
  problem.layout = arguments.problem.layout.value_or(Layout::nchw);
  problem.epilogue = arguments.problem.epilogue.value_or(Epilogue{});
  problem.epilogue.scale = !arguments.scale.empty();
  problem.epilogue.bias = !arguments.bias.empty();
  problem.epilogue.residual = !arguments.residual.empty();
  problem.groups = arguments.groups.value_or(1);
  if (problem.layout != Layout::nchw && problem.layout != Layout::nhwc) {
    throw Error(Status::unsupported, std::string("--layout ") + to_string(problem.layout) +
                                         " of files, must be nchw or nhwc");
  }
  const bool nhwc = problem.layout == Layout::nhwc;
  const std::size_t channel = nhwc ? 3 : 1, row = nhwc ? 1 : 2, column = nhwc ? 2 : 3;
  problem.n = x.shape[0];
  problem.c = x.shape[channel];
  problem.h = x.shape[row];
  problem.w = x.shape[column];
  problem.k = w.shape[0];
  problem.r = w.shape[row];
  problem.s = w.shape[column];
  if (problem.groups < 1 || problem.c % problem.groups != 0 ||
      w.shape[channel] != problem.c / problem.groups) {
    throw Error(Status::invalid_argument,
                fmt::format("{}: {} channels a group, must be {} / {} (channels of {} / --groups)",
                            arguments.weights, w.shape[channel], problem.c, problem.groups,
                            arguments.input));
  }
  const Pair stride = arguments.stride.value_or(Pair{});
  const Pair dilation = arguments.dilation.value_or(Pair{});
  problem.stride_h = stride.vertical;
  problem.stride_w = stride.horizontal;
  problem.dilation_h = dilation.vertical;
  problem.dilation_w = dilation.horizontal;
  pad_same(problem);
  if (arguments.pad) {
    problem.pad_h = arguments.pad->vertical;
    problem.pad_w = arguments.pad->horizontal;
  }
  validate(problem);
  return problem;
}

std::vector<std::int64_t> output_shape(const ConvProblem& p) {
  return p.layout == Layout::nhwc ? std::vector{p.n, p.p(), p.q(), p.k}
                                  : std::vector{p.n, p.k, p.p(), p.q()};
}

/// The bounds of a comparison hold for finite numbers.
void require_finite(const NpyArray& array, const std::string& path) {
  with_storage(array.dtype, [&](auto type) {
    const auto* const numbers = reinterpret_cast<const decltype(type)*>(array.data.data());
    for (std::size_t i = 0; i < array.data.bytes() / sizeof type; ++i) {
      if (const float number = to_float(numbers[i]); !std::isfinite(number)) {
        throw Error(Status::invalid_argument,
                    fmt::format("{}: element {} of {} is {}, must be finite (--no-check computes "
                                "with it, and compares nothing)",
                                path, i, shape_text(array.shape), number));
      }
    }
  });
}

NpyArray read_npy_of(const std::string& path, std::size_t rank, DataType dtype,
                     const char* why = "--input has") {
  NpyArray array = read_npy(path, rank);
  if (array.dtype != dtype) {
    throw Error(Status::invalid_argument,
                fmt::format("{}: numbers of {}, must be {} as {}", path, to_string(array.dtype),
                            to_string(dtype), why));
  }
  return array;
}

NpyArray read_tensor(const std::string& path, const std::vector<std::int64_t>& shape,
                     DataType dtype, const char* why = "--input has") {
  NpyArray array = read_npy_of(path, shape.size(), dtype, why);
  if (array.shape != shape) {
    throw Error(Status::invalid_argument, fmt::format("{}: shape {}, must be {}", path,
                                                      shape_text(array.shape), shape_text(shape)));
  }
  return array;
}

TensorSet tensors_from_files(const RunArguments& arguments, Device& device) {
  const NpyArray x = read_npy(arguments.input, 4);
  const NpyArray w = read_npy_of(arguments.weights, 4, x.dtype);
  const ConvProblem problem = problem_from_shapes(arguments, x, w);
  TensorSet tensors = allocate_tensors(device, problem, !arguments.no_check);
  const auto upload = [&](Buffer& to, const NpyArray& array, const std::string& path) {
    if (!arguments.no_check) require_finite(array, path);
    device.upload(to.data(), array.data.data(), array.data.bytes());
  };
  upload(tensors.x, x, arguments.input);
  upload(tensors.w, w, arguments.weights);
  const auto upload_vector = [&](Buffer& to, const std::string& path) {
    const bool same = problem.vector_type() == problem.dtype;
    const char* const why = same ? "--input has" : "scales and biases of i8";
    upload(to, read_tensor(path, {problem.k}, problem.vector_type(), why), path);
  };
  if (problem.epilogue.scale) upload_vector(tensors.scale, arguments.scale);
  if (problem.epilogue.bias) upload_vector(tensors.bias, arguments.bias);
  if (problem.epilogue.residual) {
    upload(tensors.residual, read_tensor(arguments.residual, output_shape(problem), problem.dtype),
           arguments.residual);
  }
  return tensors;
}

TensorSet tensors_from_seed(const RunArguments& arguments, Device& device) {
  const std::vector<NamedProblem> selected = select_problems(arguments.problem);
  ConvProblem problem;
  if (!selected.empty()) {
    problem = selected.front().problem;
  } else if (!arguments.plan.mapping_file.empty()) {
    problem = make_plan_from_file(arguments.plan).problem();
  } else {
    throw Error(Status::invalid_argument,
                "run needs a PROBLEM, --mapping, or --input and --weights (see run --help)");
  }
  TensorSet tensors = allocate_tensors(device, problem, !arguments.no_check);
  fill_random(tensors, arguments.plan.seed);
  return tensors;
}

/// Tensor options belong to files, problem strings do without them.
void check_arguments(const RunArguments& arguments) {
  const bool files = !arguments.input.empty();
  if (files && !arguments.problem.problems.empty()) {
    throw Error(Status::invalid_argument, "a PROBLEM and --input exclude each other");
  }
  if (files && arguments.problem.dtype) {
    throw Error(Status::invalid_argument,
                "--dtype and --input exclude each other: files have a type of their own");
  }
  const bool shaped = arguments.pad || arguments.stride || arguments.dilation || arguments.groups;
  if (!files && shaped) {
    throw Error(Status::invalid_argument,
                "--pad, --stride, --dilation and --groups need --input; a PROBLEM holds them as p "
                "u d g");
  }
  for (const std::string* input : {&arguments.input, &arguments.weights, &arguments.scale,
                                   &arguments.bias, &arguments.residual}) {
    std::error_code none;
    if (!input->empty() && std::filesystem::equivalent(*input, arguments.output, none)) {
      throw Error(Status::invalid_argument,
                  fmt::format("--output {} is the input {}, must be another file", arguments.output,
                              *input));
    }
  }
  const Epilogue epilogue = arguments.problem.epilogue.value_or(Epilogue{});
  if (files && (epilogue.scale || epilogue.bias || epilogue.residual)) {
    throw Error(Status::invalid_argument,
                "with --input, --scale, --bias and --residual name files and --epilogue may only "
                "be an activation: " +
                    activation_forms());
  }
}

ExitCode run(const RunArguments& arguments) {
  check_arguments(arguments);
  if (!arguments.output.empty()) require_writable(arguments.output);
  Device& device = device_of(arguments.plan.options.backend);
  const TensorSet tensors = arguments.input.empty() ? tensors_from_seed(arguments, device)
                                                    : tensors_from_files(arguments, device);
  const ConvProblem& problem = tensors.problem;
  Runner runner(make_plan(problem, arguments.plan), tensors, arguments.timing.caches);

  Progress progress;
  const TimedVariant variant{"running", turns_of([&] { return runner.sample_ms(); })};
  const TimeSummary time =
      measure_interleaved(std::span(&variant, 1), arguments.timing, [&](const std::string& text) {
        progress.show(text);
      }).front();
  runner.run();
  std::optional<ErrorReport> error;
  if (!arguments.no_check) {
    progress.show("computing the reference in double");
    error = Reference(tensors).compare(runner.tiling(), tensors.y.data());
  }
  const std::vector<std::byte> y = download(tensors, tensors.y);
  progress.clear();

  const bool on_cpu = device.backend() == Backend::cpu;
  const ErrorBound bound = error_bound(runner.tiling());
  const bool right = !error || bound.covers(*error);
  if (right && !arguments.output.empty()) {
    write_npy(arguments.output, output_shape(problem), problem.dtype, y.data());
  }
  const double gflops = problem.flops() / time.median_ms / 1e6;
  const std::string sum = fmt::format("{:016x}", checksum(y));
  if (arguments.json) {
    Record record =
        record_head("run", site_of(device), runner.plan().num_workers(), arguments.plan.seed);
    record.update({{"problem", to_string(problem)},
                   {"algorithm", algorithm_text(runner.tiling())},
                   {"policy", runner.plan().lowering().mapping.policy},
                   {"chosen_by", property(runner.plan(), "chosen by")},
                   {"samples", time.samples},
                   {"median_ms", time.median_ms},
                   {"p10_ms", time.p10_ms},
                   {"p90_ms", time.p90_ms},
                   {"effective_gflops", gflops},
                   {"workspace_bytes", runner.plan().workspace_bytes()},
                   {"relative_l2", error ? Record(error->relative_l2) : Record()},
                   {"worst_element", error ? Record(error->worst_element) : Record()},
                   {"within_bound", error ? Record(right) : Record()},
                   {"checksum", sum}});
    std::fputs((record.dump(2) + '\n').c_str(), stdout);
  } else {
    fmt::print("problem    {}\n", to_string(problem));
    fmt::print("plan       {}, {} order, {}, {}\n", algorithm_text(runner.tiling()),
               runner.plan().lowering().mapping.policy,
               count_text(runner.plan().num_workers(), on_cpu ? "thread" : "block"), device.isa());
    fmt::print("chosen by  {}\n", property(runner.plan(), "chosen by"));
    fmt::print("workspace  {}\n", format_bytes(runner.plan().workspace_bytes()));
    fmt::print("time       {} ms (median of {}; p10 {}, p90 {})\n", format_ms(time.median_ms),
               count_text(time.samples, "sample"), format_ms(time.p10_ms), format_ms(time.p90_ms));
    fmt::print("speed      {:.1f} GFLOP/s effective\n", gflops);
    if (error) fmt::print("error      {}\n", error_text(*error, bound));
    fmt::print("checksum   {}\n", sum);
    if (right && !arguments.output.empty()) {
      fmt::print("output     {}, shape {}\n", arguments.output, shape_text(output_shape(problem)));
    }
  }
  return right ? ExitCode::ok : ExitCode::different;
}

void add_file_options(CLI::App& verb, RunArguments& arguments) {
  const auto add_file = [&](const char* option, std::string& target, const char* description) {
    return verb.add_option(option, target, description)->type_name("FILE.npy")->group("Files");
  };
  CLI::Option* input = add_file("--input", arguments.input, "x");
  CLI::Option* weights = add_file("--weights", arguments.weights, "w");
  input->needs(weights);
  weights->needs(input);
  add_file("--scale", arguments.scale, "scale")->needs(input);
  add_file("--bias", arguments.bias, "bias")->needs(input);
  add_file("--residual", arguments.residual, "Added to the sum before ReLU")->needs(input);
  add_file("--output", arguments.output, "y is written here, whole or not at all");
  const auto add_pair = [&](const char* option, std::optional<Pair>& target,
                            const char* description) {
    verb.add_option_function<std::string>(
            option,
            [option, &target](const std::string& text) { target = parse_pair(option, text); },
            description)
        ->type_name("N|HxW")
        ->group("Files");
  };
  add_pair("--pad", arguments.pad, "Padding; \"same\" without it");
  add_pair("--stride", arguments.stride, "Stride");
  add_pair("--dilation", arguments.dilation, "Dilation");
  verb.add_option("--groups", arguments.groups, "Channel groups")
      ->type_name("N")
      ->check(number_from<std::int64_t>(1))
      ->group("Files");
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("run", "Run one convolution, with seeded data or .npy files");
  verb->footer(kRunFooter);
  const auto arguments = std::make_shared<RunArguments>();
  add_problem_options(*verb, arguments->problem, Selection::one);
  add_file_options(*verb, *arguments);
  add_plan_options(*verb, arguments->plan);
  add_timing_options(*verb, arguments->timing);
  verb->add_flag("--no-check", arguments->no_check, "Do not compare with the double reference")
      ->group("Output");
  verb->add_flag("--json", arguments->json, "Result as JSON")->group("Output");
  verb->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace megaconv::cli
