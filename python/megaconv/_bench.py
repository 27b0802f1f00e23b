# SPDX-License-Identifier: Apache-2.0
"""Times of a plan."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from megaconv import _core


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of a plan's runs on the CPU, warm."""

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
        """Effective: operations of the direct algorithm, whatever ran, by the median time."""
        return self.plan.problem.flops / self.median_us / 1e3

    def __str__(self) -> str:
        return (f"{self.plan.problem}: median {self.median_us:.1f} us, least {self.least_us:.1f} us "
                f"of {len(self.samples_us)} runs, {self.gflops:.1f} GFLOP/s")


def bench(problem: _core.Problem | str, *, seconds: float = 1.0, seed: int = 1,
          **options: Any) -> Times:
    """Measures a problem on the CPU with normal random numbers, for `seconds` and at least 3 runs.

    `options` are those of Plan. With filters="prepared" their preparation is not in the times.
    """
    import numpy

    plan = _core.Plan(problem, **options)
    if plan.backend != "cpu":
        raise NotImplementedError(f'backend "{plan.backend}", must be "cpu"')
    problem = plan.problem
    random = numpy.random.default_rng(seed)
    types = {"f32": "float32", "f16": "float16", "bf16": "uint16", "i8": "int8"}

    def tensor(shape, dtype):
        numbers = random.standard_normal(shape, dtype=numpy.float32)
        if dtype == "bf16":  # NumPy has no such type: the upper halves of float32
            numbers = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
        elif dtype == "i8":
            numbers = numpy.clip(numbers * 40, -128, 127)
        order = {"nchw": (0, 1, 2, 3), "nhwc": (0, 2, 3, 1), "chwn": (1, 2, 3, 0)}[problem.layout]
        if len(shape) != 4:
            return numbers.astype(types[dtype])
        dense = numpy.ascontiguousarray(numbers.transpose(order), dtype=types[dtype])
        return dense.transpose(numpy.argsort(order))

    vectors = "f32" if problem.dtype == "i8" else problem.dtype
    x, w = tensor(problem.x_shape, problem.dtype), tensor(problem.w_shape, problem.dtype)
    y = tensor(problem.y_shape, problem.dtype)
    extras = {"scale": tensor((problem.k,), vectors) if problem.scale else None,
              "bias": tensor((problem.k,), vectors) if problem.bias else None,
              "residual": tensor(problem.y_shape, problem.dtype) if problem.residual else None}
    if plan.prepared_filter_bytes:
        w = plan.prepare_filters(w)
    plan.execute(x, w, y, **extras)
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        start = time.perf_counter_ns()
        plan.execute(x, w, y, **extras)
        samples.append((time.perf_counter_ns() - start) / 1e3)
    return Times(plan, tuple(samples))
