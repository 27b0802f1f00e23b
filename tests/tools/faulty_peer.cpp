// SPDX-License-Identifier: Apache-2.0
// The command with one peer, "faulty", in place of all others. It has algorithms "good", "slow",
// which takes no turns, and one that fails in a way that the layer's K chooses (faulty_peer.hpp).
#include "tests/tools/faulty_peer.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "megaconv/error.hpp"
#include "tools/peers/peer.hpp"

namespace megaconv::cli {
namespace {

void crash() { kill(getpid(), SIGKILL); }

/// Until the end of the process, whose id is then in a file.
void hang() {
  std::FILE* const file = std::fopen("writing", "w");
  std::fprintf(file, "%d\n", static_cast<int>(getpid()));
  std::fclose(file);
  std::rename("writing", "hanging");
  for (;;) pause();
}

std::vector<PeerVariant> make_variants(const TensorSet& tensors, const PeerOptions& options) {
  std::puts("libraries may print what they like");
  const std::int64_t fault = tensors.problem.k;
  if (fault == kCrashesAtOnce) crash();
  PlanOptions plan;
  plan.tiling.algorithm = Algorithm::direct;
  plan.num_threads = options.threads;
  const auto runner = std::make_shared<Runner>(Plan::create(tensors.problem, plan), tensors);
  const PeerVariant good{.algorithm = {.name = "good"},
                         .sample_ms = [runner] { return runner->sample_ms(); },
                         .compute = [runner] { runner->run(); }};
  std::vector<PeerVariant> variants;
  const int others = fault == kAllCrash ? 20 : 1;
  for (int i = 0; i < others; ++i) {
    PeerVariant bad = good;
    bad.algorithm.name = "bad " + std::to_string(i);
    if (!options.may_run(bad.algorithm.name)) continue;
    if (fault == kCrashes || fault == kAllCrash) crash();
    if (fault == kHangs) hang();
    if (fault == kCrashesInTurn) {
      bad.sample_ms = [runner, samples = std::make_shared<int>(0)] {
        if (++*samples == 3) crash();  // the first turn has two
        return runner->sample_ms();
      };
    }
    if (fault == kFailsAtLast) {
      bad.compute = [] { throw Error(Status::device_error, "misaligned address"); };
    }
    variants.push_back(bad);
  }
  PeerVariant slow = good;
  slow.algorithm.name = "slow";
  slow.algorithm.screened = TimeSummary{5, 4, 6, 3};
  if (options.may_run(good.algorithm.name)) variants.push_back(good);
  if (options.may_run(slow.algorithm.name)) variants.push_back(slow);
  return variants;
}

constexpr Peer kFaulty{
    "faulty", Backend::cpu, "nothing", std::chrono::seconds(3), false, make_variants, [] {
      return std::string("1.0");
    }};

}  // namespace

std::span<const Peer> known_peers() { return {&kFaulty, 1}; }

}  // namespace megaconv::cli
