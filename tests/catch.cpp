// SPDX-License-Identifier: Apache-2.0
// Nothing of its own: what is precompiled for it, tests use.
#include "tests/catch.hpp"
