// SPDX-License-Identifier: Apache-2.0
// megaconv bench: for every layer our variants and, when asked, a peer's, measured in turns, each
// with its error.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/plan.hpp"
#include "tools/peers/peer_process.hpp"
#include "tools/report/baseline.hpp"
#include "tools/report/bench_report.hpp"
#include "tools/report/records.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/tensors.hpp"
#include "tools/run/timing.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/interrupt.hpp"
#include "tools/verbs/log.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kBenchFooter = R"(
Variants: "direct" runs direct tasks; "opencnn" (CUDA) openCNN's fused kernel; "staged" one stage
after the other (on CUDA one kernel a stage) with V and M whole; "mega" what the plan options ask
for, by default the megakernel order with V and M in a window (on CUDA's tensor cores one kernel a
stage, too: --launch persistent for the other). Those that cannot compute a layer are left out.
Filters are prepared ahead of time unless --filters says every-run.

Examples:
  megaconv bench --network resnet50
  megaconv bench --network vgg16 --batch 1 --threads 2 --peer onednn
  megaconv bench --suite --backend cuda --filters every-run --peer cudnn --csv -o suite.csv
  megaconv bench n4c64h56k64 n4c128h28k128 --policy depth_first
  megaconv bench --layers mine.csv --json -o results.json
  megaconv bench --random 200 --seed 7 --backend cuda --peer cudnn --csv -o random.csv
  megaconv bench --network resnet50 --baseline old.json --tolerance 10)";

struct BenchArguments {
  ProblemArguments problem;
  PlanArguments plan;
  TimingOptions timing;
  OutputArguments output;
  std::string peer;
  std::optional<std::vector<std::string>> beside;  // names of variants; unset: all
  std::string baseline;                            // JSON of an older run
  double tolerance = 5;                            // percent
  bool no_check = false;
};

struct Variant {
  const char* name;
  PlanArguments plan;
};

/// Another algorithm than the one asked for, otherwise with the same conditions.
PlanArguments with_algorithm(const PlanArguments& asked, Algorithm algorithm) {
  PlanArguments plan;
  plan.options.tiling.algorithm = algorithm;
  plan.options.source = PlanSource::heuristic;
  plan.options.tiling.filters = asked.options.tiling.filters;
  plan.options.backend = asked.options.backend;
  plan.options.num_threads = asked.options.num_threads;
  plan.options.num_blocks = asked.options.num_blocks;
  plan.options.wait_budget_ms = asked.options.wait_budget_ms;
  plan.seed = asked.seed;
  return plan;
}

PlanArguments staged_arguments(PlanArguments plan) {
  plan.mapping_file.clear();
  plan.options.source = PlanSource::heuristic;
  plan.options.tiling.whole_tensors = true;
  plan.options.tiling.v_slots = plan.options.tiling.m_slots = 0;
  plan.options.mapping = {.policy = "staged"};
  plan.options.policy = {};
  plan.options.cuda_launch = CudaLaunch::staged;
  return plan;
}

/// What was asked for, last, and the variants to compare it with.
std::vector<Variant> variants_of(const BenchArguments& arguments) {
  const PlanArguments& asked = arguments.plan;
  std::vector<Variant> variants = {{"direct", with_algorithm(asked, Algorithm::direct)}};
  if (asked.options.backend == Backend::cuda) {
    variants.push_back({"opencnn", with_algorithm(asked, Algorithm::opencnn)});
  }
  variants.push_back({kStaged, staged_arguments(asked)});
  if (const auto& wanted = arguments.beside) {
    std::erase_if(variants, [&](const Variant& variant) {
      return std::find(wanted->begin(), wanted->end(), variant.name) == wanted->end();
    });
  }
  variants.push_back({kMega, asked});
  return variants;
}

/// Those of `variants` that can compute a layer: the columns of the table.
std::vector<std::string> shown_variants(const std::vector<Variant>& variants,
                                        const std::vector<NamedProblem>& layers) {
  std::vector<std::string> names;
  for (const Variant& variant : variants) {
    const bool runs = std::any_of(layers.begin(), layers.end(), [&](const NamedProblem& layer) {
      if (variant.name == std::string_view(kMega)) return true;
      try {
        make_plan(layer.problem, variant.plan);
        return true;
      } catch (const Error&) {
        return false;  // the layer's own row says why
      }
    });
    if (runs) names.push_back(variant.name);
  }
  return names;
}

/// Whether two plans of one problem run the same tasks in the same order and launch.
bool same_plan(const Plan& a, const Plan& b) {
  const auto launch = [](const Plan& plan) {
    const std::string word = property(plan, "launch");
    return word.substr(0, word.find(','));
  };
  return a.lowering().tiling() == b.lowering().tiling() &&
         a.lowering().mapping.order == b.lowering().mapping.order &&
         a.num_workers() == b.num_workers() && launch(a) == launch(b);
}

// Processes of a peer for one layer, each without the algorithm that ended the one before.
constexpr std::size_t kMostProcesses = 8;

/// Everything about one layer; its runners share the tensors.
class LayerBench {
 public:
  /// `peer`: null: none.
  LayerBench(const NamedProblem& layer, const BenchArguments& arguments, PeerProcess* peer,
             std::function<void(const std::string&)> progress)
      : arguments_(arguments),
        peer_(peer),
        progress_(std::move(progress)),
        tensors_(allocate_tensors(device_of(arguments.plan.options.backend), layer.problem,
                                  !arguments.no_check)) {
    result_.name = layer.name;
    result_.problem = layer.problem;
  }

  LayerResult run() {
    fill_random(tensors_, arguments_.plan.seed);
    progress_("planning");
    for (const Variant& variant : variants_of(arguments_)) add(variant);
    merge_equal_plans();
    while (!measure()) {
    }
    if (peer_ != nullptr) peer_->end();
    const VariantResult mega = result_.mega();
    for (VariantResult& variant : result_.variants) {
      if (variant.same_as.empty()) continue;
      variant.time = mega.time;
      variant.error = mega.error;
    }
    return std::move(result_);
  }

 private:
  /// A variant that runs, and where its result belongs. A peer's that was screened out has no
  /// turns.
  struct Job {
    std::size_t index;
    TimedVariant timed;
    std::function<void()> compute;
    const Tiling* tiling = nullptr;  // ours
  };
  VariantResult& result(const Job& job) { return result_.variants[job.index]; }

  void add(const Variant& variant) {
    VariantResult& result = result_.variants.emplace_back();
    result.name = variant.name;
    try {
      runners_.emplace_back(make_plan(tensors_.problem, variant.plan), tensors_,
                            arguments_.timing.caches);
    } catch (const Error& error) {
      const bool cannot =
          error.status() == Status::unsupported || error.status() == Status::out_of_memory;
      if (result.name == kMega || !cannot) throw;
      result.obstacle = error.what();
      return;
    }
    Runner& runner = runners_.back();
    const Lowering& lowering = runner.plan().lowering();
    result.algorithm = algorithm_text(lowering.tiling());
    result.policy = lowering.mapping.policy;
    result.workers = runner.plan().num_workers();
    result.workspace_bytes = runner.plan().workspace_bytes();
    result.bound = error_bound(lowering.tiling());
    jobs_.push_back({result_.variants.size() - 1,
                     {variant.name, turns_of([&runner] { return runner.sample_ms(); })},
                     [&runner] { runner.run(); },
                     &runner.tiling()});
  }

  // What has mega's plan, the last of ours, takes no turns of its own.
  void merge_equal_plans() {
    const Plan& mega = runners_.back().plan();
    for (std::size_t i = jobs_.size() - 1; i-- > 0;) {
      if (!same_plan(runners_[i].plan(), mega)) continue;
      result(jobs_[i]).same_as = kMega;
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// Everything that runs takes its turns. False: the peer's process ended, so this does not count.
  bool measure() {
    try {
      if (peer_ != nullptr) add_peers();
      std::vector<TimedVariant> timed;
      for (const Job& job : jobs_) {
        if (job.timed.turn) timed.push_back(job.timed);
      }
      const std::vector<TimeSummary> times =
          measure_interleaved(timed, arguments_.timing, progress_);
      auto time = times.begin();
      for (const Job& job : jobs_) {
        if (job.timed.turn) result(job).time = *time++;
      }
      if (!arguments_.no_check) compare();
      return true;
    } catch (const PeerEnded& end) {
      log().info("{}: {}: {}", result_.name, end.algorithm, end.reason);
      ends_.push_back(end);
      std::erase_if(jobs_, [&](const Job& job) { return result(job).peer; });
      std::erase_if(result_.variants, [](const VariantResult& variant) { return variant.peer; });
      return false;
    }
  }

  void add_peers() {
    std::vector<std::string> left_out;
    for (const PeerEnded& end : ends_) {
      left_out.push_back(end.algorithm);
      add_peer({.name = end.algorithm.empty() ? "all" : end.algorithm, .obstacle = end.reason});
    }
    if (!ends_.empty() && ends_.back().algorithm.empty()) return;
    if (ends_.size() == kMostProcesses) {
      add_peer({.name = "all", .obstacle = fmt::format("{} processes ended", kMostProcesses)});
      return;
    }
    const PeerOptions options{.filters = arguments_.plan.options.tiling.filters,
                              .threads = runners_.back().plan().num_workers(),
                              .caches = arguments_.timing.caches,
                              .precision = arguments_.plan.options.tiling.precision};
    progress_(arguments_.peer + "'s algorithms");
    const std::vector<PeerAlgorithm> algorithms =
        peer_->begin(tensors_.problem, arguments_.plan.seed, options, left_out);
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const PeerAlgorithm& algorithm = algorithms[i];
      VariantResult& result = add_peer(algorithm);
      if (!result.ran()) continue;
      Job& job = jobs_.emplace_back();
      job.index = result_.variants.size() - 1;
      job.timed.name = arguments_.peer + ' ' + algorithm.name;
      if (algorithm.screened) result.time = *algorithm.screened;
      if (algorithm.takes_turns()) {
        job.timed.turn = [this, i](double turn_ms) { return peer_->turn(i, turn_ms); };
      }
      job.compute = [this, i] {
        const std::vector<std::byte> y = peer_->compute(i);
        tensors_.device->upload(tensors_.y.data(), y.data(), y.size());
      };
    }
  }

  VariantResult& add_peer(const PeerAlgorithm& algorithm) {
    return result_.variants.emplace_back(
        VariantResult{.name = arguments_.peer,
                      .peer = true,
                      .algorithm = algorithm.name,
                      .obstacle = algorithm.obstacle,
                      .workspace_bytes = algorithm.workspace_bytes});
  }

  // A peer's error is in the units of the plan that was asked for.
  void compare() {
    progress_("computing the reference in double");
    const Reference reference(tensors_);
    const Tiling& asked = runners_.back().tiling();
    for (const Job& job : jobs_) {
      tensors_.device->fill_bytes(tensors_.y.data(), std::byte{0xff}, tensors_.y.bytes());
      job.compute();
      result(job).error =
          reference.compare(job.tiling != nullptr ? *job.tiling : asked, tensors_.y.data());
    }
  }

  const BenchArguments& arguments_;
  PeerProcess* peer_;
  std::function<void(const std::string&)> progress_;
  LayerResult result_;
  TensorSet tensors_;
  std::deque<Runner> runners_;  // the last is what was asked for
  std::vector<Job> jobs_;       // ours, then the peer's
  std::vector<PeerEnded> ends_;
};

ExitCode bench(BenchArguments& arguments) {
  arguments.problem.random_seed = arguments.plan.seed;
  const std::vector<NamedProblem> layers = select_problems(arguments.problem);
  if (layers.empty()) {
    throw Error(
        Status::invalid_argument,
        "bench needs a PROBLEM, --network, --suite, --layers or --random (see bench --help)");
  }
  const PlanOptions& options = arguments.plan.options;
  const Peer* const peer = arguments.peer.empty() ? nullptr : &find_peer(arguments.peer);
  if (peer != nullptr) check_peer(*peer, options.backend);
  check_output(arguments.output);
  // Bad options and problems end the command here, before the first layer is measured.
  std::uint32_t most_workers = 0;
  std::vector<std::string> names;
  for (const NamedProblem& layer : layers) {
    names.push_back(layer.name);
    if (peer != nullptr) check_peer(*peer, layer.problem);
    most_workers = std::max(most_workers, make_plan(layer.problem, arguments.plan).num_workers());
  }

  std::optional<PeerProcess> peer_process;
  if (peer != nullptr) peer_process.emplace(*peer);
  const BenchSetting setting{.site = site_of(device_of(options.backend)),
                             .seed = arguments.plan.seed,
                             .prepared_filters = options.tiling.filters == FilterMode::prepared,
                             .timing = arguments.timing,
                             .peer = peer_process ? peer_process->version() : std::string()};
  std::optional<Baseline> baseline;
  if (!arguments.baseline.empty()) baseline.emplace(arguments.baseline, setting);
  const bool people = !arguments.output.machine_stdout();
  const BenchTable table(shown_variants(variants_of(arguments), layers), names,
                         !arguments.no_check);
  const auto print = [&](const std::string& text) {
    if (!people) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  print(bench_heading(setting, most_workers) + table.head());
  const InterruptGuard guard;
  Progress progress;
  std::vector<LayerResult> results;
  for (const NamedProblem& layer : layers) {
    const std::string place =
        fmt::format("[{}/{}] {}: ", results.size() + 1, layers.size(), layer.name);
    log().info("{}{}", place, to_string(layer.problem));
    try {
      LayerBench bench(layer, arguments, peer_process ? &*peer_process : nullptr,
                       [&](const std::string& text) {
                         if (interrupted()) throw Interrupted();
                         progress.show(place + text);
                       });
      results.push_back(bench.run());
    } catch (const Interrupted&) {
      break;
    }
    progress.clear();
    // A file grows with every layer: what stops a long measurement does not take what was shown.
    if (!arguments.output.file.empty()) {
      write_records(bench_records(setting, results), arguments.output);
    }
    print(table.line(results.back()));
  }
  progress.clear();

  if (people && !results.empty()) {
    std::string text = arguments.peer.empty() ? "" : peer_table(results, arguments.peer);
    print(text + bench_summary(results, arguments.peer));
  } else if (!people) {
    write_records(bench_records(setting, results), arguments.output);
  }
  if (const std::string warning = busy_warning(results); !warning.empty()) {
    std::fprintf(stderr, "megaconv: warning: %s\n", warning.c_str());
  }
  if (results.size() < layers.size()) {
    std::fprintf(stderr, "megaconv: interrupted after %zu of %zu layers\n", results.size(),
                 layers.size());
    return ExitCode::interrupted;
  }
  const double tolerance = arguments.tolerance / 100;
  bool right = std::all_of(results.begin(), results.end(),
                           [](const LayerResult& result) { return result.right(); });
  if (baseline) {
    const std::vector<Baseline::Comparison> comparisons = baseline->compare(results);
    std::fputs(baseline_table(comparisons, tolerance).c_str(), people ? stdout : stderr);
    for (const Baseline::Comparison& c : comparisons) right = right && !c.slower(tolerance);
  }
  return right ? ExitCode::ok : ExitCode::different;
}

void add_bench_peer(CLI::App& bench, Action& action) {
  CLI::App* verb =
      bench.add_subcommand("peer", "Run a peer's algorithms for bench: lines of JSON on stdin");
  verb->footer("\nExample:\n  megaconv bench peer onednn </dev/null");
  const auto name = std::make_shared<std::string>();
  verb->add_option("name", *name, "onednn or cudnn")->type_name("NAME")->required();
  verb->callback([name, &action] {
    action = [name] {
      const Peer& peer = find_peer(*name);
      check_peer(peer, peer.backend);
      serve_peer(peer);
      return ExitCode::ok;
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("bench", "Measure layers: our algorithms and orders, and peers");
  verb->footer(kBenchFooter);
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->plan.options.tiling.filters = FilterMode::prepared;
  add_problem_options(*verb, arguments->problem, Selection::many);
  verb->add_option("--random", arguments->problem.random,
                   "So many layers like those of real networks, drawn at random by --seed")
      ->type_name("COUNT")
      ->check(number_from(std::int64_t{1}, std::int64_t{100'000}))
      ->group("Problem");
  add_plan_options(*verb, arguments->plan);
  add_timing_options(*verb, arguments->timing);
  verb->add_option("--beside", arguments->beside,
                   "Variants to measure beside mega: direct, opencnn and staged (default: all),\n"
                   "or none")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(CLI::IsMember({"direct", "opencnn", kStaged, "none"}));
  verb->add_option("--peer", arguments->peer,
                   "Measure another library too: onednn (cpu) or cudnn (cuda)")
      ->type_name("NAME");
  verb->add_option("--baseline", arguments->baseline,
                   "JSON of an older run: status 1 when a variant is slower than there")
      ->type_name("FILE");
  verb->add_option("--tolerance", arguments->tolerance,
                   "By how many percent, with the whole 95 % interval")
      ->type_name("PERCENT")
      ->capture_default_str()
      ->check(number_from(0.0, 1000.0));
  verb->add_flag("--no-check", arguments->no_check, "Do not compare with the double reference")
      ->group("Output");
  add_output_options(*verb, arguments->output);
  verb->callback([arguments, verb, &action] {
    if (verb->get_subcommands().empty()) action = [arguments] { return bench(*arguments); };
  });
  add_bench_peer(*verb, action);
}

}  // namespace megaconv::cli
