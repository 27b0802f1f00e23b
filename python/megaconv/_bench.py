# SPDX-License-Identifier: Apache-2.0
"""Times of a plan."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable

from megaconv import _arrays, _core

_TYPES = {"f32": "float32", "f16": "float16", "bf16": "uint16", "i8": "int8"}
_ORDERS = {"nchw": (0, 1, 2, 3), "nhwc": (0, 2, 3, 1), "chwn": (1, 2, 3, 0),
           "nchw16c": (0, 1, 2, 3)}
_SAMPLE_RUNS = 20  # of a sample on a device, between two events


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of a plan's runs, warm. On a device a sample is the mean of 20 runs."""

    plan: _core.Plan
    samples_us: tuple[float, ...]  # of one run each, in the order of the runs

    @property
    def median_us(self) -> float:
        ordered = sorted(self.samples_us)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def least_us(self) -> float:
        return min(self.samples_us)

    @property
    def gflops(self) -> float:
        """Effective: operations of direct convolution, whatever ran, by the median time.

        Of a plan of one convolution; raises ValueError for a network's.
        """
        return self.plan.problem.flops / self.median_us / 1e3

    def __str__(self) -> str:
        of_network = isinstance(self.plan, _core.NetworkPlan)
        text = (f"{repr(self.plan) if of_network else self.plan.problem}: median "
                f"{self.median_us:.1f} us, least {self.least_us:.1f} us of "
                f"{len(self.samples_us)} samples")
        return text if of_network else f"{text}, {self.gflops:.1f} GFLOP/s"


class _Tensors:
    """Normal random numbers where a plan runs."""

    def __init__(self, plan: _core.Plan, seed: int):
        import numpy

        self.random = numpy.random.default_rng(seed)
        self.torch: Any = None
        if plan.backend == "cuda":
            try:
                import torch
            except ImportError:
                raise NotImplementedError('bench on "cuda" needs PyTorch, which is not installed') \
                    from None
            self.torch = torch

    def make(self, shape: tuple[int, ...], dtype: str, layout: str) -> Any:
        """(N, C, H, W) in this order of memory, or a vector."""
        import numpy

        numbers = self.random.standard_normal(shape, dtype=numpy.float32)
        if dtype == "bf16":  # NumPy has no such type: the upper halves of float32
            numbers = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
        elif dtype == "i8":
            numbers = numpy.clip(numbers * 40, -128, 127)
        order = _ORDERS[layout] if len(shape) == 4 else (0,)
        dense = numpy.ascontiguousarray(numbers.transpose(order), dtype=_TYPES[dtype])
        back = tuple(int(axis) for axis in numpy.argsort(order))
        if self.torch is None:
            return dense.transpose(back)
        tensor = self.torch.from_numpy(dense.view("int16") if dtype == "bf16" else dense).cuda()
        tensor = tensor.view(self.torch.bfloat16) if dtype == "bf16" else tensor
        return tensor.permute(back)


def _run_of(plan: _core.Plan, tensors: _Tensors) -> Callable[[], None]:
    view = _arrays.library_of(tensors.make((1,), "f32", "nchw")).view
    device: dict[str, Any] = {}
    if tensors.torch is not None:
        zeros = lambda size: view(tensors.torch.zeros(  # noqa: E731
            max(size, 1), dtype=tensors.torch.uint8, device="cuda"))
        device = {"workspace": zeros(plan.workspace_bytes),
                  "stream": tensors.torch.cuda.current_stream().cuda_stream}
    if isinstance(plan, _core.NetworkPlan):
        inputs, outputs = ([view(tensors.make(shape, plan.dtype, plan.layout))
                            for shape in shapes.values()] for shapes in (plan.inputs, plan.outputs))
        network = plan
        return lambda: network.execute(inputs, outputs, **device) and None
    problem = plan.problem
    make = lambda shape, dtype=problem.dtype: view(  # noqa: E731
        tensors.make(shape, dtype, problem.layout))
    vectors = "f32" if problem.dtype == "i8" else problem.dtype
    x, y, w = make(problem.x_shape), make(problem.y_shape), make(problem.w_shape)
    extras = {"scale": make((problem.k,), vectors) if problem.scale else None,
              "bias": make((problem.k,), vectors) if problem.bias else None,
              "residual": make(problem.y_shape) if problem.residual else None}
    filters: Any = w
    if plan.prepared_filter_bytes:
        memory = zeros(plan.prepared_filter_bytes) if device else None
        filters = plan.prepare_filters(w, memory, device.get("stream", 0))
    return lambda: plan.execute(x, filters, y, **extras, **device) and None


def bench(problem: _core.Problem | _core.Network | _core.Plan | str, *, seconds: float = 1.0,
          seed: int = 1, **options: Any) -> Times:
    """Measures a problem, a network, or a plan of one, with normal random numbers.

    For `seconds` and at least 3 samples. `options` are those of Plan or NetworkPlan, for what is no
    plan yet. With filters="prepared", as in networks, their preparation is not in the times.
    backend="cuda" needs PyTorch, for memory and events. Raises NotImplementedError for "sim": see
    simulate().
    """
    if isinstance(problem, _core.Plan):
        if options:
            raise ValueError(f"options {', '.join(options)} beside a plan, which has its own")
        plan = problem
    elif isinstance(problem, _core.Network):
        plan = _core.NetworkPlan(problem, **options)
    else:
        plan = _core.Plan(problem, **options)
    if plan.backend == "sim":
        raise NotImplementedError('backend "sim", must be "cpu" or "cuda"')
    tensors = _Tensors(plan, seed)
    run = _run_of(plan, tensors)
    run()

    def sample() -> float:
        if tensors.torch is None:
            start = time.perf_counter_ns()
            run()
            return (time.perf_counter_ns() - start) / 1e3
        begin, end = (tensors.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_SAMPLE_RUNS):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / _SAMPLE_RUNS

    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        samples.append(sample())
    return Times(plan, tuple(samples))
