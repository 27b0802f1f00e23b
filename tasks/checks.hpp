// SPDX-License-Identifier: Apache-2.0
// Limits of problems and cuts, and the checks of values that a caller gives.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "megaconv/graph.hpp"

namespace megaconv {

inline constexpr std::int64_t kMaxExtent = 0x7fffffff;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
inline constexpr std::uint64_t kMaxTasks = std::uint64_t{1} << 31;

/// Throws Error(invalid_argument).
[[noreturn]] void fail(const std::string& message);

/// Throws Error(invalid_argument) unless least <= value <= most. `reason` ends the message.
void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most,
                 const char* reason = "");

/// Throws Error(invalid_argument) for a tensor of more than 2^40 elements. Each extent must be
/// positive.
void check_elements(const char* tensor, std::initializer_list<std::int64_t> extents);

/// Throws Error(invalid_argument) that names node and buffer unless the buffer has this extent.
void check_buffer(const TaskGraph& graph, const std::string& name, BufferId id,
                  const Region& wanted);

/// "3x5" for a vertical and a horizontal value, "3" when they are the same.
std::string axes_text(std::int64_t vertical, std::int64_t horizontal);

/// "0.1", in up to six digits.
std::string number_text(float value);

}  // namespace megaconv
