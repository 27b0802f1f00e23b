// SPDX-License-Identifier: Apache-2.0
// Parts of the work of a task, for traces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace megaconv {

/// A network's convolutions on CUDA have the time when each ends. The rest of the work is the
/// signal.
enum class TaskPhase : std::uint8_t { inputs, products, outputs };
inline constexpr std::size_t kNumTaskPhases = 3;
const char* to_string(TaskPhase phase) noexcept;  ///< "first loads", "products", "outputs"

}  // namespace megaconv
