// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/interrupt.hpp"

#include <signal.h>

namespace megaconv::cli {
namespace {

volatile sig_atomic_t flag = 0;

void set_handler(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  flag = 0;
  set_handler([](int) { flag = 1; }, static_cast<int>(SA_RESETHAND));
}

InterruptGuard::~InterruptGuard() { set_handler(SIG_DFL, 0); }

bool interrupted() { return flag != 0; }

}  // namespace megaconv::cli
