# SPDX-License-Identifier: Apache-2.0
"""Convolutions and networks as task graphs: a function, plans, scheduling policies, simulation.

    import megaconv, numpy as np
    x = np.random.rand(1, 64, 56, 56).astype("float32")
    w = np.random.rand(64, 64, 3, 3).astype("float32")
    y = megaconv.conv2d(x, w, padding=1, activation="relu")

megaconv.torch has the operator for PyTorch, megaconv.plot pictures of runs (matplotlib).
"""

from megaconv._bench import Times, bench
from megaconv._conv2d import conv2d
from megaconv._core import (Graph, Network, NetworkPlan, Plan, Problem, Simulation, Stage, Trace,
                            Tuned, has_cuda, load, lower_bounds, machine_names, network,
                            network_names, policy_names, reads_onnx, simulate, tune)
from megaconv import _core

__version__: str = getattr(_core, "__version__")

__all__ = ["Graph", "Network", "NetworkPlan", "Plan", "Problem", "Simulation", "Stage", "Times",
           "Trace", "Tuned", "bench", "conv2d", "has_cuda", "load", "lower_bounds", "machine_names",
           "network", "network_names", "policy_names", "reads_onnx", "simulate", "tune"]
