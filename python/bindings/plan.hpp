// SPDX-License-Identifier: Apache-2.0
// The parts of megaconv.Plan.
#pragma once

#include "python/bindings/bindings.hpp"

namespace megaconv::python {

/// execute() and prepare_filters().
void bind_execute(nb::class_<Plan>& type);

}  // namespace megaconv::python
