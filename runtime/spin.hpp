// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace megaconv {

/// Tells the core that this is a polling loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace megaconv
