// SPDX-License-Identifier: Apache-2.0
// Machines that megaconv knows. `h200` and `h200_fma` are calibrated (docs/experiments/README.md);
// the other GPUs are what becomes of them with another number of SMs, other clocks and bandwidths,
// and were not measured.
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"

namespace megaconv {
namespace {

// FP32 multiply-adds, four workers of an SM. Fitted to 31 of the times in docs/study.
MachineModel h200_fma() {
  MachineModel machine;
  machine.name = "h200_fma";
  machine.tilings = Backend::cuda;
  machine.units = 132;
  machine.workers_per_unit = 4;
  machine.worker_gbps = 1000;  // not felt: the limits of operations say as much
  machine.l2_gbps = 3370;
  machine.hbm_gbps = 4270;  // measured, copy
  machine.l2_bytes = 44'000'000;
  machine.worker_cache_bytes = (std::uint64_t{60} << 20) / 2 / 528;
  machine.ticket_us = 0.3;
  machine.hop_us = 0.92;
  machine.block_us = 1.0;
  machine.launch_us = 4.35;
  machine.noise = 0.02;
  machine.kinds = {KindModel{.overhead_us = 7.8, .worker_gflops = 35, .unit_gflops = 100},
                   KindModel{.overhead_us = 3.45, .worker_gflops = 42.8, .unit_gflops = 280},
                   KindModel{.overhead_us = 1.03, .worker_gflops = 95.4, .unit_gflops = 497},
                   KindModel{.overhead_us = 2.27, .worker_gflops = 89.2, .unit_gflops = 322},
                   KindModel{.overhead_us = 2, .worker_gflops = 80, .unit_gflops = 310},
                   KindModel{.overhead_us = 2.27, .worker_gflops = 89.2, .unit_gflops = 322},
                   KindModel{.overhead_us = 2.27, .worker_gflops = 89.2, .unit_gflops = 322}};
  return machine;
}

// Tensor cores (split FP16): two workers of an SM. Calibrated with 16 traces of four layers
// (docs/experiments/README.md). A GEMM task counts its products once, though each is three.
MachineModel h200() {
  MachineModel machine = h200_fma();
  machine.name = "h200";
  machine.split_f16 = true;
  machine.workers_per_unit = 2;
  machine.worker_cache_bytes *= 2;
  machine.worker_gbps = 42;
  machine.l2_gbps = 4550;
  machine.l2_bytes = 48'000'000;  // past this much, reads slow down
  machine.hop_us = 0.8;
  machine.launch_us = 8.1;
  // Of one launch of four networks in three precisions on an H100, and so are the overheads of
  // pooling and elementwise tasks (docs/notebook/networks_gpu.md).
  machine.network = {.launch_us = 3.6, .hop_us = 0.5};
  machine.kinds = {KindModel{.overhead_us = 3.4, .worker_gflops = 78, .unit_gflops = 1080},
                   KindModel{.overhead_us = 0.31, .worker_gflops = 70, .unit_gflops = 75.6},
                   KindModel{.overhead_us = 2.8, .worker_gflops = 1000, .unit_gflops = 1000},
                   KindModel{.overhead_us = 4.2, .worker_gflops = 80, .unit_gflops = 68.2},
                   KindModel{.overhead_us = 2, .worker_gflops = 160, .unit_gflops = 310},
                   KindModel{.overhead_us = 3.0, .worker_gflops = 80, .unit_gflops = 68.2},
                   KindModel{.overhead_us = 0.9, .worker_gflops = 80, .unit_gflops = 68.2}};
  return machine;
}

// `speed`: operations of an SM against one of the H200. Data sheets: SMs, boost clock x FP32 lanes
// of an SM, memory bandwidth; L2 bandwidth from published microbenchmarks.
constexpr double kH200L2Gbps = 6000;
MachineModel gpu(const char* name, const MachineModel& known, std::uint32_t units, double speed,
                 double l2_gbps, double hbm_gbps, std::uint64_t l2_mib) {
  MachineModel machine = known;
  machine.name = name;
  machine.units = units;
  machine.l2_gbps = known.l2_gbps * l2_gbps / kH200L2Gbps;
  machine.hbm_gbps = hbm_gbps;
  machine.l2_bytes = known.l2_bytes * l2_mib / 60;
  machine.worker_cache_bytes = (l2_mib << 20) / 2 / machine.workers();
  for (KindModel& kind : machine.kinds) {
    kind.worker_gflops *= speed;
    kind.unit_gflops *= speed;
  }
  return machine;
}

// Two cores of an EPYC with AVX-512 (docs/performance.md); its shared cache is the L3.
MachineModel cpu() {
  MachineModel machine;
  machine.name = "cpu";
  machine.tilings = Backend::cpu;
  machine.units = 2;
  machine.worker_gbps = 100;
  machine.l2_gbps = 200;
  machine.hbm_gbps = 40;
  machine.l2_bytes = std::uint64_t{32} << 20;
  machine.worker_cache_bytes = std::uint64_t{1} << 20;
  machine.ticket_us = 0.05;
  machine.hop_us = 0.2;
  machine.launch_us = 5;
  machine.noise = 0.05;
  for (KindModel& kind : machine.kinds) {
    kind = {.overhead_us = 0.2, .worker_gflops = 60, .unit_gflops = 60};
  }
  machine.kinds[static_cast<std::size_t>(TaskKind::gemm)] = {
      .overhead_us = 0.2, .worker_gflops = 112, .unit_gflops = 112};
  machine.kinds[static_cast<std::size_t>(TaskKind::direct)] = {
      .overhead_us = 0.2, .worker_gflops = 108, .unit_gflops = 108};
  return machine;
}

// Made up: 4 units of 2 workers and numbers that can be checked by hand. Every operation takes a
// nanosecond, and no bandwidth or latency is felt.
MachineModel toy() {
  MachineModel machine;
  machine.name = "toy";
  machine.tilings = Backend::cpu;
  machine.units = 4;
  machine.workers_per_unit = 2;
  machine.l2_gbps = 1e6;
  machine.hbm_gbps = 1e6;
  machine.l2_bytes = std::uint64_t{1} << 20;
  machine.worker_cache_bytes = std::uint64_t{1} << 17;
  for (KindModel& kind : machine.kinds)
    kind = {.overhead_us = 0, .worker_gflops = 1, .unit_gflops = 2};
  return machine;
}

MachineModel h100() { return gpu("h100", h200(), 132, 1.0, 5500, 3000, 50); }
MachineModel a100() { return gpu("a100", h200_fma(), 108, 0.36, 4000, 1750, 40); }
MachineModel v100() { return gpu("v100", h200_fma(), 80, 0.39, 2500, 790, 6); }

constexpr std::pair<const char*, MachineModel (*)()> kPresets[] = {
    {"h200", h200}, {"h200_fma", h200_fma}, {"h100", h100}, {"a100", a100},
    {"v100", v100}, {"cpu", cpu},           {"toy", toy},
};

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kPresets) names.push_back(name);
  return names;
}

MachineModel machine_preset(std::string_view name) {
  std::string allowed;
  for (const auto& [known, make] : kPresets) {
    if (name == known) return make();
    allowed += (allowed.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(Status::invalid_argument,
              "machine \"" + excerpt(name) + "\": must be one of " + allowed);
}

}  // namespace megaconv
