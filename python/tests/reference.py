# SPDX-License-Identifier: Apache-2.0
"""What tests compare with: convolutions in double, random problems, and the bound that a plan promises."""

import dataclasses
import re

import numpy as np

import megaconv


def convolution(x, w, stride, padding, dilation, groups):
    """(N, K, P, Q) in double: a sum over the filter's taps of products of matrices."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    n, c, h, width = x.shape
    k, channels, r, s = w.shape
    p = (h - dilation[0] * (r - 1) - 1) // stride[0] + 1
    q = (width - dilation[1] * (s - 1) - 1) // stride[1] + 1
    x = x.reshape(n, groups, channels, h, width)
    w = w.reshape(groups, k // groups, channels, r, s)
    y = np.zeros((n, groups, k // groups, p, q))
    for i in range(r):
        for j in range(s):
            rows = slice(i * dilation[0], i * dilation[0] + (p - 1) * stride[0] + 1, stride[0])
            cols = slice(j * dilation[1], j * dilation[1] + (q - 1) * stride[1] + 1, stride[1])
            y += np.einsum("ngchw,gkc->ngkhw", x[:, :, :, rows, cols], w[..., i, j], optimize=True)
    return y.reshape(n, k, p, q)


@dataclasses.dataclass
class Case:
    """A random problem with its tensors, in float32, and what conv2d is called with."""

    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None
    residual: np.ndarray | None
    geometry: dict
    relu: bool

    def truth(self):
        """(y, S): the result, and the sum of the magnitudes that went into each output."""
        geometry = [self.geometry[name] for name in ("stride", "padding", "dilation", "groups")]
        y, size = (convolution(f(self.x), f(self.w), *geometry) for f in (np.positive, np.abs))
        for term in (None if self.bias is None else self.bias.reshape(1, -1, 1, 1), self.residual):
            if term is not None:
                y, size = y + term.astype(np.float64), size + np.abs(term.astype(np.float64))
        return (np.maximum(y, 0) if self.relu else y), size

    def arguments(self):
        return {"activation": "relu" if self.relu else None, **self.geometry}


def random_case(seed, dtype=np.float32):
    """Any filter, stride, padding, dilation, groups and epilogue; small. 3x3 of stride 1 is frequent."""
    random = np.random.default_rng(seed)
    pick = lambda *values: values[random.integers(len(values))]  # noqa: E731
    winograd = random.random() < 0.5
    groups = 1 if winograd else pick(1, 1, 2, 3)
    c, k = (groups * int(random.integers(1, 25)) for _ in range(2))
    if not winograd and random.random() < 0.2:
        groups = c = k = int(random.integers(1, 20))
    r, s = (3, 3) if winograd else (int(random.integers(1, 6)), int(random.integers(1, 6)))
    pair = lambda low, high: tuple(int(v) for v in random.integers(low, high, 2))  # noqa: E731
    dilation = (1, 1) if winograd else pair(1, 3)
    padding = tuple(int(random.integers(0, min(3, d * (f - 1) + 2))) for d, f in zip(dilation, (r, s)))
    geometry = {"stride": (1, 1) if winograd else pair(1, 4), "padding": padding,
                "dilation": dilation, "groups": groups}
    extent = [geometry["dilation"][i] * (f - 1) + 1 - 2 * geometry["padding"][i]
              for i, f in enumerate((r, s))]
    h, width = (max(1, least) + int(random.integers(0, 16)) for least in extent)
    normal = lambda *shape: random.standard_normal(shape).astype(dtype)  # noqa: E731
    x, w = normal(int(random.integers(1, 4)), c, h, width), normal(k, c // groups, r, s)
    p, q = (((h, width)[i] - extent[i]) // geometry["stride"][i] + 1 for i in range(2))
    return Case(x, w, normal(k) if random.random() < 0.5 else None,
                normal(x.shape[0], k, p, q) if random.random() < 0.3 else None, geometry,
                bool(random.random() < 0.5))


def plan_of(case, layout="nchw", dtype="f32"):
    """The plan that conv2d has for the case."""
    geometry = [case.geometry[name] for name in ("stride", "padding", "dilation", "groups")]
    return megaconv.Plan(megaconv.Problem.from_shapes(
        case.x.shape, case.w.shape, *geometry, dtype=dtype, layout=layout,
        bias=case.bias is not None, residual=case.residual is not None,
        activation="relu" if case.relu else "none"))


def _tile_maximum(size, m):
    """Of each output the largest S of its m x m tile, whose roundings it shares."""
    n, k, p, q = size.shape
    padded = np.pad(size, ((0, 0), (0, 0), (0, -p % m), (0, -q % m)))
    tiles = padded.reshape(n, k, padded.shape[2] // m, m, padded.shape[3] // m, m)
    largest = tiles.max(axis=(3, 5), keepdims=True)
    return np.broadcast_to(largest, tiles.shape).reshape(padded.shape)[:, :, :p, :q]


def check(plan, y, truth, size):
    """Asserts what Plan.error_bound promises; tasks/reference.hpp says how errors are measured."""
    problem = plan.problem
    unit, least = {"f32": (2.0**-24, 2.0**-126), "f16": (2.0**-11, 2.0**-14),
                   "bf16": (2.0**-8, 2.0**-126)}[problem.dtype]
    y = np.asarray(y, np.float64)
    assert y.shape == truth.shape == problem.y_shape
    error, size = np.abs(y - truth), np.maximum(size, least)
    norm, worst = plan.error_bound
    terms = problem.c // problem.groups * problem.r * problem.s
    scale = max(np.linalg.norm(np.maximum(np.abs(truth), least)),
                2 * np.linalg.norm(size) / np.sqrt(terms))
    assert np.linalg.norm(error) <= norm * scale, str(problem)
    tile = re.search(r"F\((\d)x", plan.describe())
    largest = _tile_maximum(size, int(tile[1]) if tile else 1)
    assert np.all(error <= worst * unit * largest), str(problem)
