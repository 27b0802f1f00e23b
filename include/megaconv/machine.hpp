// SPDX-License-Identifier: Apache-2.0
// Machine models: what a simulation knows of a GPU or a CPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/lowering.hpp"

namespace megaconv {

/// How fast a machine does one kind of task. The work of a GEMM or direct task is the operations it
/// executes; that of a transform, those of its two products with dense matrices.
struct KindModel {
  double overhead_us = 1;     ///< of every task, whatever its size
  double worker_gflops = 10;  ///< most that one worker does, alone on its unit
  double unit_gflops = 10;    ///< all workers of a unit together
  bool operator==(const KindModel&) const = default;
};

/// One launch of a network on a Hopper GPU, whose tasks of convolutions take as long as was
/// measured on one (TaskTime), not what the rates of their kind say.
struct NetworkModel {
  double launch_us = 0, hop_us = 0;  ///< in the place of the machine's
  bool operator==(const NetworkModel&) const = default;
};

/// A machine: `units` (SMs, cores) of `workers_per_unit` workers, before one cache and one memory
/// that all of them share. Bandwidths are in GB/s = bytes/ns, capacities in bytes.
struct MachineModel {
  std::string name;
  Backend tilings = Backend::cuda;  ///< whose task sizes the machine is given: cuda or cpu
  bool split_f16 = false;           ///< has tasks with Arithmetic::split_f16, and prefers them
  std::uint32_t units = 1;
  std::uint32_t workers_per_unit = 1;
  double worker_gbps = 1e6;          ///< most bytes that one worker moves
  double l2_gbps = 1000;             ///< between workers and the shared cache
  double hbm_gbps = 100;             ///< between the shared cache and memory
  std::uint64_t l2_bytes = 1 << 20;  ///< of the shared cache, as far as it keeps what is read again
  std::uint64_t worker_cache_bytes = 1 << 20;  ///< Target::cache_bytes_per_worker
  double ticket_us = 0;  ///< from taking a position to knowing whether its task is ready
  double hop_us = 0;     ///< from a signal to the worker that waits for it
  double block_us = 0;   ///< start of a thread block, where every task has its own
  double launch_us = 0;  ///< start of a kernel; a staged launch pays it for every stage
  double noise = 0;      ///< relative standard deviation of a task's work
  std::array<KindModel, kNumTaskKinds> kinds;
  std::optional<NetworkModel> network{};  ///< empty: networks are as other task graphs

  std::uint32_t workers() const { return units * workers_per_unit; }
  const KindModel& operator[](TaskKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  bool operator==(const MachineModel&) const = default;
};

/// Throws Error(invalid_argument) naming the first value out of range.
void validate(const MachineModel& machine);

/// A machine model from JSON (docs/machine.schema.json). Every key must be there. Throws
/// Error(invalid_argument) naming the key that is missing, unknown or out of range.
MachineModel parse_machine(std::string_view json);
std::string to_json(const MachineModel& machine);

/// "h200", "h200_fma" (without tensor cores), "h100", "a100", "v100", "cpu", "toy".
std::vector<std::string> machine_names();
/// Throws Error(invalid_argument) listing the names allowed.
MachineModel machine_preset(std::string_view name);

/// What tilings and orders are chosen for on this machine.
Target target_of(const MachineModel& machine);
/// The same of networks: a convolution by itself may have fewer tasks, those that there are rates
/// for.
Target network_target_of(const MachineModel& machine);

}  // namespace megaconv
