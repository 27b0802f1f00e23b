// SPDX-License-Identifier: Apache-2.0
// ConvProblem as megaconv.Problem.
#include <nanobind/operators.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "python/bindings/bindings.hpp"

namespace megaconv::python {
namespace {

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

constexpr DataType kTypes[] = {DataType::f32, DataType::f16, DataType::bf16, DataType::i8};
constexpr Layout kLayouts[] = {Layout::nchw, Layout::nhwc, Layout::chwn, Layout::nchw16c};

using Pair = std::pair<std::int64_t, std::int64_t>;

ConvProblem from_shapes(const Shape& x, const Shape& w, Pair stride, Pair padding, Pair dilation,
                        std::int64_t groups, const std::string& dtype, const std::string& layout,
                        bool scale, bool bias, bool residual, const std::string& activation) {
  ConvProblem problem;
  std::tie(problem.n, problem.c, problem.h, problem.w) = x;
  std::int64_t channels = 0;
  std::tie(problem.k, channels, problem.r, problem.s) = w;
  std::tie(problem.stride_h, problem.stride_w) = stride;
  std::tie(problem.pad_h, problem.pad_w) = padding;
  std::tie(problem.dilation_h, problem.dilation_w) = dilation;
  problem.groups = groups;
  problem.dtype =
      enumerator("dtype", dtype, kTypes, [](DataType value) { return to_string(value); });
  problem.layout =
      enumerator("layout", layout, kLayouts, [](Layout value) { return to_string(value); });
  problem.epilogue = {.scale = scale,
                      .bias = bias,
                      .residual = residual,
                      .activation = parse_activation(activation)};
  validate(problem);
  if (channels != problem.c / groups) {
    throw Error(Status::invalid_argument,
                "w has " + std::to_string(channels) + " channels, must be " +
                    std::to_string(problem.c / groups) + ", those of x (" +
                    std::to_string(problem.c) + ") / groups (" + std::to_string(groups) + ")");
  }
  return problem;
}

}  // namespace

void bind_problem(nb::module_& module) {
  nb::class_<ConvProblem> type(module, "Problem",
                               R"(One forward convolution with its epilogue. Immutable.

Letters: N batch, C H W channels, height and width of the input, K filters, R S height and width of
a filter, P Q height and width of the output. Shapes are NCHW by meaning, whatever the layout.)");
  type.def(
          "__init__",
          [](ConvProblem* self, const std::string& text) {
            new (self) ConvProblem(parse_problem(text));
          },
          nb::arg("text"),
          R"(Reads a problem string: "n64c128h28w28k128r3s3p1u1d1g1+nhwc+f16+bias+relu".

c, h and k must be given; w is h, r 3, s r, p "same", the rest 1. p (padding), u (stride) and d
(dilation) take "AxB". Suffixes: +nchw +nhwc +chwn +nchw16c, +f32 +f16 +bf16 +i8, +scale +bias +residual,
and an activation: +relu +clamp:0:6 +leaky_relu:0.1 +silu +gelu ...
Raises ValueError naming the part that is wrong.)")
      .def_static("from_shapes", &from_shapes, nb::arg("x"), nb::arg("w"),
                  nb::arg("stride") = Pair(1, 1), nb::arg("padding") = Pair(0, 0),
                  nb::arg("dilation") = Pair(1, 1), nb::arg("groups") = 1, nb::kw_only(),
                  nb::arg("dtype") = "f32", nb::arg("layout") = "nchw", nb::arg("scale") = false,
                  nb::arg("bias") = false, nb::arg("residual") = false,
                  nb::arg("activation") = "none",
                  R"(From the shapes of x, (N, C, H, W), and of w, (K, C/groups, R, S).

Raises ValueError naming what does not fit.)")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const ConvProblem& p) { return nb::hash(nb::cast(to_string(p))); })
      .def("__str__", [](const ConvProblem& p) { return to_string(p); })
      .def("__repr__",
           [](const ConvProblem& p) { return "megaconv.Problem(\"" + to_string(p) + "\")"; })
      .def("__reduce__", [](const ConvProblem& p) {
        return nb::make_tuple(nb::type<ConvProblem>(), nb::make_tuple(to_string(p)));
      });
  const auto number = [&](const char* name, std::int64_t ConvProblem::*member, const char* doc) {
    type.def_ro(name, member, doc);
  };
  number("n", &ConvProblem::n, "batch");
  number("c", &ConvProblem::c, "input channels");
  number("h", &ConvProblem::h, "input height");
  number("w", &ConvProblem::w, "input width");
  number("k", &ConvProblem::k, "filters, which are the output channels");
  number("r", &ConvProblem::r, "filter height");
  number("s", &ConvProblem::s, "filter width");
  number("groups", &ConvProblem::groups, "channel groups");
  type.def_prop_ro("p", &ConvProblem::p, "output height")
      .def_prop_ro("q", &ConvProblem::q, "output width")
      .def_prop_ro(
          "stride", [](const ConvProblem& p) { return Pair(p.stride_h, p.stride_w); },
          "vertical and horizontal")
      .def_prop_ro(
          "padding", [](const ConvProblem& p) { return Pair(p.pad_h, p.pad_w); },
          "zero rows above and below, zero columns left and right")
      .def_prop_ro(
          "dilation", [](const ConvProblem& p) { return Pair(p.dilation_h, p.dilation_w); },
          "vertical and horizontal")
      .def_prop_ro(
          "dtype", [](const ConvProblem& p) { return to_string(p.dtype); },
          "storage type: \"f32\", \"f16\", \"bf16\" or \"i8\"")
      .def_prop_ro(
          "layout", [](const ConvProblem& p) { return to_string(p.layout); },
          "memory order of x and y: \"nchw\", \"nhwc\", \"chwn\" or \"nchw16c\" (memory in\n"
          "blocks of 16 channels, in arrays of the shape and strides of nchw)")
      .def_prop_ro("scale", [](const ConvProblem& p) { return p.epilogue.scale; })
      .def_prop_ro("bias", [](const ConvProblem& p) { return p.epilogue.bias; })
      .def_prop_ro("residual", [](const ConvProblem& p) { return p.epilogue.residual; })
      .def_prop_ro(
          "activation", [](const ConvProblem& p) { return to_string(p.epilogue.activation); },
          "\"none\", \"relu\", \"clamp:0:6\", \"leaky_relu:0.1\", \"silu\", ...")
      .def_prop_ro(
          "x_shape", [](const ConvProblem& p) { return Shape(p.n, p.c, p.h, p.w); }, "(N, C, H, W)")
      .def_prop_ro(
          "w_shape", [](const ConvProblem& p) { return Shape(p.k, p.c / p.groups, p.r, p.s); },
          "(K, C/groups, R, S)")
      .def_prop_ro(
          "y_shape", [](const ConvProblem& p) { return Shape(p.n, p.k, p.p(), p.q()); },
          "(N, K, P, Q)")
      .def_prop_ro("flops", &ConvProblem::flops,
                   "2 N K P Q (C/groups) R S: floating-point operations of the direct algorithm");
}

}  // namespace megaconv::python
