// SPDX-License-Identifier: Apache-2.0
// megaconv verify: random problems, or given ones, against direct convolution in double.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/device.hpp"
#include "tools/run/verify_case.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/log.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kVerifyFooter = R"(
Without a problem, --count random ones are checked, with random plan options; the same seed gives
the same cases, and --dtype makes all of one type. Each runs three times, in poisoned memory between
canaries, and must be within the error bounds of its algorithm and the same bit for bit. A case that
fails is made as simple as it can be, and printed as a command.

Examples:
  megaconv verify --count 2000 --seed 1
  megaconv verify --integer --count 500
  megaconv verify --dtype i8 --count 1000
  megaconv verify --backend cuda --count 1000
  megaconv verify n2c17h9w12k33+nhwc --algo winograd --tile 4 --policy random_topological
  megaconv verify --network resnet50 --batch 1)";

struct VerifyArguments {
  ProblemArguments problem;
  PlanArguments plan;
  VerifyLimits limits;
  std::uint64_t count = 200;
  bool integer = false;
};

class Tally {
 public:
  void add(const CaseVerdict& verdict) {
    ++done_;
    if (verdict.refused()) {
      ++refused_;
      return;
    }
    ++by_algorithm_[verdict.algorithm];
    worst_share_ = std::max(worst_share_, verdict.share_of_bound);
  }
  std::uint64_t done() const { return done_; }

  std::string summary(double seconds, bool integer) const {
    std::string text = fmt::format("{} right in {:.1f} s\n", count_text(done_, "case"), seconds);
    for (const auto& [algorithm, count] : by_algorithm_) {
      text += fmt::format("  {:6}  {}\n", count, algorithm);
    }
    if (refused_ != 0) {
      text += fmt::format("  {:6}  refused: the window is too small for the order\n", refused_);
    }
    text += integer ? std::string("every element exact\n")
                    : fmt::format("greatest error: {:.0f}% of its bound\n", 100 * worst_share_);
    return text;
  }

 private:
  std::uint64_t done_ = 0, refused_ = 0;
  double worst_share_ = 0;
  std::map<std::string, std::uint64_t> by_algorithm_;
};

ExitCode report_failure(const VerifyCase& item, const CaseVerdict& verdict, Progress& progress) {
  progress.show("making the failure simpler");
  const VerifyCase simplest = shrink(item, [&](const VerifyCase& simpler) {
    const CaseVerdict found = check(simpler);
    return found.failed() && found.error == verdict.error;
  });
  progress.clear();
  fmt::print("FAILED: {}\n  {}\nsimplest: {}\n  {}\n", one_line(verdict.failure), to_command(item),
             one_line(check(simplest).failure), to_command(simplest));
  return ExitCode::different;
}

std::vector<VerifyCase> given_cases(const VerifyArguments& arguments) {
  std::vector<VerifyCase> cases;
  for (const NamedProblem& entry : select_problems(arguments.problem)) {
    cases.push_back({entry.problem, arguments.plan, arguments.integer});
    // What the user asked for and cannot have is the user's error, not a failure.
    static_cast<void>(make_plan(entry.problem, arguments.plan));
  }
  return cases;
}

bool runs_implicit_gemm(Backend backend) {
  PlanOptions options;
  options.backend = backend;
  options.source = PlanSource::heuristic;
  options.tiling.algorithm = Algorithm::implicit_gemm;
  try {
    static_cast<void>(Plan::create(parse_problem("c16h4k16"), options));
    return true;
  } catch (const Error& error) {
    if (error.status() != Status::unsupported) throw;
    return false;
  }
}

ExitCode verify(const VerifyArguments& arguments) {
  const Backend backend = arguments.plan.options.backend;
  device_of(backend);  // refuses a backend that cannot compute
  const std::vector<VerifyCase> given = given_cases(arguments);
  if (given.empty() && arguments.problem.dtype && backend != Backend::cpu) {
    throw Error(Status::unsupported, "--dtype of random problems: must be --backend cpu");
  }
  VerifyLimits limits = arguments.limits;
  limits.tensor_cores = given.empty() && runs_implicit_gemm(backend);  // of random cases
  const std::uint64_t count = given.empty() ? arguments.count : given.size();
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Progress progress;
  Tally tally;
  while (tally.done() < count) {
    // Seeds of neighbouring cases are far apart, so that --seed 1 and --seed 2 share none.
    const std::uint64_t case_seed = arguments.plan.seed * 1'000'003 + tally.done();
    const VerifyCase item = given.empty() ? random_case(case_seed, limits, arguments.integer,
                                                        backend, arguments.problem.dtype)
                                          : given[tally.done()];
    log().debug("{}", to_command(item));
    const CaseVerdict verdict = check(item);
    if (verdict.failed()) return report_failure(item, verdict, progress);
    tally.add(verdict);
    progress.show(fmt::format("{}/{} cases, {:.0f} a second", tally.done(), count,
                              static_cast<double>(tally.done()) / seconds()));
  }
  progress.clear();
  if (given.empty()) fmt::print("seed {}: ", arguments.plan.seed);
  std::fputs(tally.summary(seconds(), arguments.integer).c_str(), stdout);
  return ExitCode::ok;
}

void add_limit_options(CLI::App& verb, VerifyLimits& limits) {
  const auto add = [&](const char* option, auto& target, const char* description, int most) {
    verb.add_option(option, target, description)
        ->type_name("N")
        ->capture_default_str()
        ->check(number_from(1, most))
        ->group("Random problems");
  };
  add("--max-batch", limits.batch, "Largest batch", 1 << 16);
  add("--max-channels", limits.channels, "Most channels and filters", 1 << 16);
  add("--max-extent", limits.extent, "Greatest height and width", 1 << 16);
  add("--max-filter", limits.filter, "Greatest filter height and width", 1 << 8);
  add("--max-threads", limits.threads, "Most threads", 1 << 10);
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("verify", "Check random or given problems against a double reference");
  verb->footer(kVerifyFooter);
  const auto arguments = std::make_shared<VerifyArguments>();
  add_problem_options(*verb, arguments->problem, Selection::many);
  add_plan_options(*verb, arguments->plan);
  verb->add_option("--count", arguments->count, "Random problems")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from<std::uint64_t>(1))
      ->group("Random problems");
  add_limit_options(*verb, arguments->limits);
  verb->add_flag("--integer", arguments->integer,
                 "Integers with which every algorithm is exact: no bit may differ");
  verb->callback([arguments, &action] { action = [arguments] { return verify(*arguments); }; });
}

}  // namespace megaconv::cli
