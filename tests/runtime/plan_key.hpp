// SPDX-License-Identifier: Apache-2.0
// The key under which the tests of the plan database file their measurements.
#pragma once

#include "megaconv/plan_database.hpp"

namespace megaconv::test {

inline const PlanKey kKey{"cpu", "a core",  "none", library_build(), "n1c16h8w8k16r3s3p1u1d1g1",
                          "f32", "prepared"};

}  // namespace megaconv::test
