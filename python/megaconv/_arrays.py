# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy, PyTorch, CuPy and any other library with DLPack: memory orders, copies, results.

No such library is imported here before an array of it is there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Mapping, NamedTuple, Sequence

from megaconv import _core

_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8"}
_CPU, _PINNED = 1, 3  # DLPack's numbers of devices
_workspaces: dict[Any, Any] = {}


class Spec(NamedTuple):
    """What an array says of itself."""

    shape: tuple[int, ...]
    type: str  # "float32", ...
    device: tuple[int, int]  # DLPack's: type, index
    nchw: bool  # whether the strides are those of a dense tensor in this order
    nhwc: bool
    turned_nchw: bool  # NCWH: the same with rows and columns turned
    turned_nhwc: bool  # NWHC
    aligned: bool  # to 16 bytes, which kernels of devices may load at a time
    strides: tuple[int, ...]  # in elements

    @property
    def on_cpu(self) -> bool:
        return self.device[0] in (_CPU, _PINNED)


class _Library:
    """What differs between libraries. This one: any with DLPack, whose arrays are not written to."""

    writable = False

    def view(self, array: Any) -> Any:
        """What the extension module reads."""
        return array

    def dense(self, array: Any, channels_last: bool) -> Any:
        """A copy (N, C, H, W) that is dense in one of the two orders; vectors as they are."""
        import numpy

        return _NUMPY.dense(numpy.from_dlpack(array), channels_last)

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str, channels_last: bool) -> Any:
        return _core.empty(list(shape), dtype, channels_last)

    def finish(self, like: Any, y: Any) -> Any:
        """y as an array of the library: without a copy, if it allows that."""
        import numpy

        namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else numpy
        return namespace.from_dlpack(y)

    def turned(self, array: Any) -> Any:
        """(N, C, W, H) of (N, C, H, W), without a copy; None where the library has none such."""
        return None

    def running(self, like: Any) -> contextlib.AbstractContextManager[int]:
        """Around planning and running on the array's device; gives the stream's number."""
        return contextlib.nullcontext(0)

    def wait(self, like: Any) -> None:
        """Until the work on the array's device that was enqueued here is done."""

    def workspace(self, like: Any, size: int, stream: int) -> Any:
        """Bytes of the array's device, for runs on one stream: those are in order, so they share it.

        It lasts, because a workspace must not be overwritten in part between runs.
        """
        key = type(self), str(like.device), stream
        memory = _workspaces.get(key)
        if memory is None or memory.nbytes < size:
            memory = _workspaces[key] = self.zeros(like, size)
        return memory

    def zeros(self, like: Any, size: int) -> Any:
        raise NotImplementedError(f"arrays of {type(like).__name__} on a device, must be PyTorch's "
                                  "or CuPy's")


class _NumPy(_Library):
    writable = True

    def view(self, array):
        # NumPy itself has no bfloat16: ml_dtypes' is an extension that DLPack does not know.
        extended = array.dtype.kind == "V"  # asked first: names take microseconds
        return array.view("uint16") if extended and array.dtype.name == "bfloat16" else array

    def dense(self, array, channels_last):
        import numpy

        if array.ndim != 4 or not channels_last:
            return numpy.ascontiguousarray(array)
        return numpy.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    def turned(self, array):
        return array.transpose(0, 1, 3, 2)

    def empty(self, like, shape, dtype, channels_last):
        import numpy

        if not channels_last:
            return numpy.empty(shape, like.dtype)
        n, k, p, q = shape
        return numpy.empty((n, p, q, k), like.dtype).transpose(0, 3, 1, 2)

    def finish(self, like, y):
        return y


class _Torch(_Library):
    writable = True

    class _OnStream:
        """A tensor for use on the current stream: DLPack's stream -1 orders nothing."""

        def __init__(self, tensor):
            self._tensor = tensor

        def __dlpack__(self, **options):
            return self._tensor.__dlpack__(**{**options, "stream": -1})

        def __dlpack_device__(self):
            return self._tensor.__dlpack_device__()

    def view(self, array):
        if array.requires_grad:
            array = array.detach()
        return self._OnStream(array) if array.is_cuda else array

    def dense(self, array, channels_last):
        import torch

        array = array.detach()
        if array.dim() != 4:
            return array.clone(memory_format=torch.contiguous_format)
        order = torch.channels_last if channels_last else torch.contiguous_format
        return array.clone(memory_format=order)

    def turned(self, array):
        return array.transpose(2, 3)

    def empty(self, like, shape, dtype, channels_last):
        import torch

        order = torch.channels_last if channels_last else torch.contiguous_format
        return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=order)

    def finish(self, like, y):
        return y

    @contextlib.contextmanager
    def _on_device(self, like):
        import torch

        with torch.cuda.device(like.device):
            yield torch.cuda.current_stream().cuda_stream

    def running(self, like):
        return self._on_device(like) if like.is_cuda else contextlib.nullcontext(0)

    def wait(self, like):
        import torch

        if like.is_cuda:
            torch.cuda.current_stream(like.device).synchronize()

    def workspace(self, like, size, stream):
        import torch

        if torch.cuda.is_current_stream_capturing():  # then it belongs to the graph
            memory = torch.empty(size, dtype=torch.uint8, device=like.device)
            memory[:_core.workspace_header_bytes].zero_()  # every replay starts afresh
            return self.view(memory)
        return self.view(super().workspace(like, size, stream))

    def zeros(self, like, size):
        import torch

        return torch.zeros(size, dtype=torch.uint8, device=like.device)


class _CuPy(_Library):
    writable = True

    def dense(self, array, channels_last):
        import cupy

        if array.ndim != 4 or not channels_last:
            return cupy.array(array, order="C")
        return cupy.array(array.transpose(0, 2, 3, 1), order="C").transpose(0, 3, 1, 2)

    def turned(self, array):
        return array.transpose(0, 1, 3, 2)

    def empty(self, like, shape, dtype, channels_last):
        import cupy

        if not channels_last:
            return cupy.empty(shape, like.dtype)
        n, k, p, q = shape
        return cupy.empty((n, p, q, k), like.dtype).transpose(0, 3, 1, 2)

    def finish(self, like, y):
        return y

    @contextlib.contextmanager
    def running(self, like):
        import cupy

        with like.device:
            yield cupy.cuda.get_current_stream().ptr

    def zeros(self, like, size):
        import cupy

        return cupy.zeros(size, "uint8")


_ANY, _NUMPY, _TORCH, _CUPY = _Library(), _NumPy(), _Torch(), _CuPy()


def library_of(array: Any) -> _Library:
    for name, kind, library in (("numpy", "ndarray", _NUMPY), ("torch", "Tensor", _TORCH),
                                ("cupy", "ndarray", _CUPY)):
        module = sys.modules.get(name)
        if module is not None and isinstance(array, getattr(module, kind, ())):
            return library
    return _ANY


def spec_of(name: str, array: Any) -> Spec:
    """Raises TypeError for what is no array."""
    view = library_of(array).view(array)
    spec = Spec(*_core.inspect(name, view))
    return spec if view is array else spec._replace(type=_type_name(array, spec))


def _type_name(array: Any, spec: Spec) -> str:
    name = str(getattr(array, "dtype", ""))
    return name if name == "bfloat16" else spec.type


def type_of(name: str, spec: Spec) -> str:
    """"f32" and so on."""
    if spec.type not in _TYPES:
        raise ValueError(f"{name} has {spec.type}, must be {', '.join(_TYPES)}")
    return _TYPES[spec.type]


def is_part(shape: Sequence[int], strides: Sequence[int], channels_last: bool) -> bool:
    """Whether runs on a CPU take (N, C, H, W) as it lies: dense, or some channels, rows and columns
    of a larger array (TensorStrides)."""
    inner = 1 if channels_last else 3
    if shape[inner] > 1 and strides[inner] != 1:
        return False
    if channels_last and shape[2] > 1 and shape[3] > 1 and strides[2] % max(strides[3], 1) != 0:
        return False
    reach = 1
    for stride, extent in sorted((s, e) for s, e in zip(strides, shape) if e > 1):
        if stride < reach:
            return False
        reach += (extent - 1) * stride
    return True


def readable(name: str, array: Any, spec: Spec, layout: str, copy: bool | None,
             part: bool = False) -> Any:
    """What the extension module reads in this layout: the array as it is, or a dense copy.

    part: it may be a part of a larger array, on a CPU.
    """
    if len(spec.shape) == 4:
        fits = spec.nhwc if layout == "nhwc" else spec.nchw
        if not fits and part and spec.on_cpu:
            fits = is_part(spec.shape, spec.strides, layout == "nhwc")
    else:
        fits = len(spec.shape) != 1 or spec.strides == (1,) or spec.shape == (1,)
    library = library_of(array)
    if fits and (spec.on_cpu or spec.aligned):
        return library.view(array)
    what = f"{name} {spec.shape} with strides {spec.strides}"
    wanted = "at a multiple of 16 bytes" if fits else f"dense in {layout.upper()} order"
    if copy is False:
        raise ValueError(f"{what}, must be {wanted} where copy is False")
    if os.environ.get("MEGACONV_VERBOSE") == "1":
        print(f"megaconv: copy of {what}: not {wanted}", file=sys.stderr)
    return library.view(library.dense(array, layout == "nhwc"))


def _residual_like(out: Any, residual: Any, copy: bool | None) -> tuple[Any, bool]:
    """(residual, whether it has the strides of out), for an `out` that is no dense array.

    One with other strides is copied to `out`, where runs may read it.
    """
    spec, own = spec_of("out", out), spec_of("residual", residual)
    if spec.nchw or spec.nhwc or spec.shape != own.shape:
        return residual, False
    if spec.strides != own.strides:
        if copy is False:
            raise ValueError(f"residual with strides {own.strides}, must be those of out, "
                             f"{spec.strides}, where copy is False")
        out[...] = residual
        residual = out
    return residual, True


def run(plan: _core.Plan, x: Any, w: Any, bias: Any = None, *, scale: Any = None,
        residual: Any = None, out: Any = None, copy: bool | None = None,
        specs: Mapping[str, Spec] = {}) -> Any:
    """Plan.__call__. `specs`: those that are known already, by the arrays' names."""
    library = library_of(x)
    problem = plan.problem
    channels_last = problem.layout == "nhwc"

    def given(name, array):
        if array is None or isinstance(array, _core.Plan.PreparedFilters):
            return array
        spec = specs.get(name) or spec_of(name, array)
        return readable(name, array, spec, problem.layout, copy, part=name == "x" or shares_strides)

    shares_strides = False  # whether the residual may be a part, as y
    if out is None:
        y = library.empty(x, problem.y_shape, problem.dtype, channels_last)
    elif library_of(out).writable:
        y = out
        if residual is not None:
            residual, shares_strides = _residual_like(out, residual, copy)
    else:
        raise TypeError(f"out is of type {type(out).__name__}, which is never written to; "
                        "must be a NumPy, PyTorch or CuPy array, or None")
    with library.running(x) as stream:
        workspace = None  # the extension module has one for each thread of the CPU
        if plan.backend == "cuda":
            workspace = library.workspace(x, plan.workspace_bytes, stream)
        plan.execute(given("x", x), given("w", w), library_of(y).view(y),
                     scale=given("scale", scale), bias=given("bias", bias),
                     residual=given("residual", residual), workspace=workspace, stream=stream)
    return y if out is not None else library.finish(x, y)


def run_network(plan: _core.NetworkPlan, *inputs: Any, copy: bool | None = None) -> Any:
    """NetworkPlan.__call__."""
    if len(inputs) != len(plan.inputs):
        raise ValueError(f"{len(inputs)} inputs, must be {len(plan.inputs)}: "
                         f"{', '.join(plan.inputs)}")
    library, like = library_of(inputs[0]), inputs[0]
    channels_last = plan.layout == "nhwc"

    def given(name, array):
        spec = spec_of(name, array)
        if len(spec.shape) != 4:
            raise ValueError(f"{name} has shape {spec.shape}, must be {plan.inputs[name]}")
        return readable(name, array, spec, plan.layout, copy)

    outputs = [library.empty(like, shape, plan.dtype, channels_last)
               for shape in plan.outputs.values()]
    with library.running(like) as stream:
        ready = [given(name, array) for name, array in zip(plan.inputs, inputs)]
        workspace = None
        if plan.backend == "cuda":
            workspace = library.workspace(like, plan.workspace_bytes, stream)
        plan.execute(ready, [library.view(y) for y in outputs], workspace=workspace, stream=stream)
    results = tuple(library.finish(like, y) for y in outputs)
    return results[0] if len(results) == 1 else results
