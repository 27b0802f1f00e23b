// SPDX-License-Identifier: Apache-2.0
// Ctrl-C that ends long work between two steps, so that everything done is kept.
#pragma once

namespace megaconv::cli {

/// While it lives, SIGINT and SIGTERM only set a flag; a second one ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool interrupted();

/// Thrown by what cannot return when it is interrupted.
struct Interrupted {};

}  // namespace megaconv::cli
