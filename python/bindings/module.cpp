// SPDX-License-Identifier: Apache-2.0
// The extension module megaconv._core: the C++ API for Python. What needs no speed is in the Python
// files beside it.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bindings/bindings.hpp"

namespace megaconv::python {
namespace {

PyObject* exception_of(Status status) {
  switch (status) {
    case Status::invalid_argument:
      return PyExc_ValueError;
    case Status::unsupported:
      return PyExc_NotImplementedError;
    case Status::out_of_memory:
      return PyExc_MemoryError;
    case Status::timeout:
      return PyExc_TimeoutError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace
}  // namespace megaconv::python

NB_MODULE(_core, module) {
  using namespace megaconv::python;
  // A script's own function keeps the script's names alive, and so its plans, until the process
  // ends.
  nb::set_leak_warnings(false);
  module.doc() = "megaconv: convolutions as task graphs. The extension module of the package.";
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const megaconv::Error& error) {
      PyErr_SetString(exception_of(error.status()), error.what());
    }
  });
  module.attr("__version__") = megaconv::version();
#ifdef MEGACONV_PYTHON_CUDA
  module.attr("has_cuda") = true;
#else
  module.attr("has_cuda") = false;
#endif
  module.attr("workspace_header_bytes") = megaconv::Plan::kHeaderBytes;
  module.def("policy_names", &megaconv::policy_names, "Names of all policies, the default first.");
  module.def("machine_names", &megaconv::machine_names,
             "Names of the machine models that are built in.");
  bind_problem(module);
  bind_arrays(module);
  bind_graph(module);
  bind_plan(module);
  bind_network(module);
  bind_simulation(module);
}
