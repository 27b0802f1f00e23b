// SPDX-License-Identifier: Apache-2.0
// Errors: one status enum, one exception.
#pragma once

#include <stdexcept>
#include <string>

namespace megaconv {

/// Why a call failed. The C ABI returns the same values, with 0 for success (megaconv.h).
enum class Status : int {
  invalid_argument = 1,  ///< the caller passed a value that is never allowed
  unsupported = 2,       ///< a valid request that this build, machine or algorithm cannot serve
  out_of_memory = 3,     ///< no memory, no thread, or a workspace too small
  device_error = 4,      ///< the device or the operating system refused
  timeout = 5,           ///< a run exceeded its wait budget; the text names what was missing
  internal = 6,          ///< a bug in megaconv
};

/// "invalid_argument", "unsupported", ...
const char* to_string(Status status) noexcept;

/// megaconv throws this and std::bad_alloc. what() names the value received and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace megaconv
