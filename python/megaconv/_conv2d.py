# SPDX-License-Identifier: Apache-2.0
"""conv2d: a convolution as a function, with its plans kept."""

from __future__ import annotations

import functools
import operator
from typing import Any

from megaconv import _arrays, _core

PLANS_KEPT = 256  # the least recently used one goes first


def _pair(name: str, value: Any) -> tuple[int, int]:
    """(vertical, horizontal) of one number or two."""
    try:
        if isinstance(value, str):
            raise TypeError
        if not hasattr(value, "__len__"):
            number = operator.index(value)
            return number, number
        vertical, horizontal = value
        return operator.index(vertical), operator.index(horizontal)
    except (TypeError, ValueError):
        raise ValueError(f"{name} {value!r}, must be an integer or a pair of integers") from None


def _padding(padding: Any, w_shape: tuple[int, ...], stride: tuple[int, int],
             dilation: tuple[int, int]) -> tuple[int, int]:
    if padding == "valid":
        return 0, 0
    if padding != "same":
        if isinstance(padding, str):
            raise ValueError(f'padding "{padding}", must be "same", "valid" or numbers')
        return _pair("padding", padding)
    if stride != (1, 1):
        raise ValueError(f'padding "same" with stride {stride}, must be (1, 1)')
    total = [d * (extent - 1) for d, extent in zip(dilation, w_shape[2:])]
    if any(rows % 2 for rows in total):
        raise NotImplementedError(
            f'padding "same" of a filter {w_shape[2]}x{w_shape[3]} with dilation {dilation} differs '
            "between the two sides; must be the same on both")
    return total[0] // 2, total[1] // 2


@functools.lru_cache(maxsize=PLANS_KEPT)
def _plan(x_shape, w_shape, stride, padding, dilation, groups, dtype, channels_last, scale, bias,
          residual, activation, precision, max_error, device, filters="every_run"):
    """`device`: DLPack's, for a plan belongs to one."""
    padding = _padding(padding, w_shape, stride, dilation)
    problem = _core.Problem.from_shapes(
        x_shape, w_shape, stride, padding, dilation, groups, dtype=dtype,
        layout="nhwc" if channels_last else "nchw", scale=scale, bias=bias, residual=residual,
        activation=activation)
    backend = "cpu" if device is None else "cuda"
    return _core.Plan(problem, backend=backend, precision="f32" if precision is None else precision,
                      max_error=max_error, filters=filters)


def _channels_last(specs) -> bool:
    """Whether the run is in NHWC order: as x if it is a part of an array in one of the two orders
    only, else as the first array that has one of them only."""
    x = specs["x"]
    if not x.nchw and not x.nhwc and x.on_cpu:
        first, last = (_arrays.is_part(x.shape, x.strides, order) for order in (False, True))
        if first != last:
            return last
    for spec in specs.values():
        if spec.nchw != spec.nhwc:
            return spec.nhwc
    return False


def _turned(x, specs):
    """Whether rows and columns change their roles, so that x is read as it lies."""
    spec = specs["x"]
    return (not spec.nchw and not spec.nhwc and (spec.turned_nchw or spec.turned_nhwc)
            and _arrays.library_of(x).turned(x) is not None)


def _swap(name: str, value: Any) -> Any:
    return value if isinstance(value, str) else _pair(name, value)[::-1]


def conv2d(x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, residual: Any = None, activation: str | None = None,
           precision: str | None = None, max_error: float | None = None, scale: Any = None,
           out: Any = None, copy: bool | None = None) -> Any:
    """y = activation(scale * conv(x, w) + bias + residual), each part but the convolution optional.

    Shapes are as in PyTorch, whatever the memory order.

    x           (N, C, H, W)
    w           (K, C/groups, R, S)
    bias        (K,)
    stride, dilation   number, or (vertical, horizontal)
    padding     number, or (rows above and below, columns left and right), "same" or "valid"
    residual    (N, K, P, Q), added before the activation
    activation  None, "relu", "clamp:LEAST:MOST" (ReLU6 is "clamp:0:6"), "leaky_relu:SLOPE",
                "silu", "gelu", "gelu_tanh", "hard_swish", "sigmoid" or "hard_sigmoid:SLOPE:SHIFT"
    precision   of the products of float32 arrays: None or "f32", "tf32", "f16", "bf16"; a permission
    max_error   None, or the most relative L2 error that the plan may have by its bound, in the place
                of `precision` (Plan)
    scale       (K,)
    out         (N, K, P, Q), written; may be `residual`. None: a new array
    copy        None: what does not lie as it must is copied, once; False: that is a ValueError

    Arrays are NumPy's, PyTorch's, JAX's, CuPy's or any others with DLPack, of float32, float16,
    bfloat16 or int8 (of which scale and bias are float32). The result is one of x's library. Nothing
    is copied if x is dense in NCHW or in NHWC order (PyTorch's channels_last), or in one of these
    with rows and columns turned, and w, residual and out are dense in the same order; on a device
    at multiples of 16 bytes. On a CPU x and out may be parts of larger arrays: some channels, rows
    and columns. `out` is never copied. y has the order of x. MEGACONV_VERBOSE=1 in the
    environment shows every copy.

    Plans are kept, for the 256 problems used last. The GIL is released while tasks run. Gradients
    are not recorded: see megaconv.torch.

    Raises ValueError and TypeError for what is wrong, NotImplementedError for what no plan can do,
    MemoryError, TimeoutError.
    """
    arrays = {"x": x, "w": w, "residual": residual, "out": out}
    specs = {name: _arrays.spec_of(name, array) for name, array in arrays.items()
             if array is not None or name in ("x", "w")}
    x_spec, w_spec = specs["x"], specs["w"]
    for name, axes in (("x", "N, C, H, W"), ("w", "K, C/groups, R, S")):
        if len(specs[name].shape) != 4:
            raise ValueError(f"{name} has shape {specs[name].shape}, must have four axes: ({axes})")
    if _turned(x, specs):
        turned = {name: None if array is None else _arrays.library_of(array).turned(array)
                  for name, array in arrays.items()}
        if all((turned[name] is None) == (array is None) for name, array in arrays.items()):
            y = conv2d(turned["x"], turned["w"], bias, _swap("stride", stride),
                       _swap("padding", padding), _swap("dilation", dilation), groups,
                       residual=turned["residual"], activation=activation, precision=precision,
                       max_error=max_error, scale=scale, out=turned["out"], copy=copy)
            return out if out is not None else _arrays.library_of(x).turned(y)
    with _arrays.library_of(x).running(x):
        plan = _plan(x_spec.shape, w_spec.shape, _pair("stride", stride),
                     padding if isinstance(padding, str) else _pair("padding", padding),
                     _pair("dilation", dilation), operator.index(groups),
                     _arrays.type_of("x", x_spec), _channels_last(specs),
                     scale is not None, bias is not None, residual is not None,
                     "none" if activation is None else activation, precision, max_error,
                     None if x_spec.on_cpu else x_spec.device)
    return _arrays.run(plan, x, w, bias, scale=scale, residual=residual, out=out, copy=copy,
                       specs=specs)


class KeptFilters:
    """Filters of one convolution, prepared once for each shape of its input, up to 8 of them."""

    SHAPES = 8

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}  # (plan, filters)
        self._captured: list[Any] = []  # what CUDA graphs read
        self._weights: Any = None

    def __deepcopy__(self, memo):
        return KeptFilters()  # a copy of a module prepares its own

    def __reduce__(self):
        return KeptFilters, ()

    def conv2d(self, x: Any, w: Any, weights: Any, bias: Any, stride: Any, padding: Any,
               dilation: Any, groups: int, precision: str, capturing: bool) -> Any:
        """megaconv.conv2d. `weights` says which numbers w has: when it differs, all are prepared
        again. None while a CUDA graph is captured, if nothing is prepared for it."""
        if weights != self._weights:
            self._kept.clear()
            self._weights = weights
        specs = {"x": _arrays.spec_of("x", x), "w": _arrays.spec_of("w", w)}
        spec = specs["x"]
        key = (spec.shape, specs["w"].shape, stride, padding, dilation, groups,
               _arrays.type_of("x", spec), _channels_last(specs), False, bias is not None, False,
               "none", precision, None, None if spec.on_cpu else spec.device, "prepared")
        library = _arrays.library_of(x)
        found = self._kept.get(key)
        if capturing:
            if found is None:
                return None
            self._captured.append(found)
        if found is None:
            with library.running(x) as stream:
                plan = _plan(*key)
                memory = None
                if plan.backend == "cuda":
                    memory = library.view(library.zeros(x, plan.prepared_filter_bytes))
                given = _arrays.readable("w", w, specs["w"], plan.problem.layout, None)
                found = plan, plan.prepare_filters(given, memory, stream)
                library.wait(x)  # other streams may run with them
            while len(self._kept) >= self.SHAPES:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = found
        return _arrays.run(found[0], x, found[1], bias, specs=specs)
