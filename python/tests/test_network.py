# SPDX-License-Identifier: Apache-2.0
"""Networks: built in, made in Python, run on arrays of any library."""

import numpy as np
import pytest
from reference import convolution

import megaconv


def small(layout="nhwc", dtype="f32"):
    """Two convolutions, batch norm and a sum, a pooling, and a fully connected layer; its truth."""
    random = np.random.default_rng(3)
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)  # noqa: E731
    w1, b1, w2, fc = normal(8, 3, 3, 3), normal(8), normal(8, 8, 1, 1), normal(5, 8 * 4 * 4)
    gamma, beta, mean, variance = normal(8), normal(8), normal(8), np.abs(normal(8)) + 0.5
    net = megaconv.Network({"x": (2, 3, 8, 8)}, layout=layout, dtype=dtype)
    net.convolution("c1", "x", w1, b1, padding=(1, 1), relu=True)
    net.convolution("c2", "c1", w2)
    net.batch_norm("norm", "c2", gamma, beta, mean, variance)
    net.add("sum", "norm", "c1")
    net.clamp("relu6", "sum", 0, 6)
    net.pooling("pool", "relu6", "max", (2, 2), stride=(2, 2))
    net.fully_connected("scores", "pool", fc)
    net.outputs = ["scores", "pool"]

    def truth(x, number=lambda v: v):
        """Scores and pooled values; with number=np.abs the magnitudes that went into them."""
        geometry = lambda padding: ((1, 1), (padding, padding), (1, 1), 1)  # noqa: E731
        double = lambda v: number(v.astype(np.float64))  # noqa: E731
        c = lambda v: double(v).reshape(1, -1, 1, 1)  # noqa: E731
        one = np.maximum(convolution(double(x), double(w1), *geometry(1)) + c(b1), 0)
        two = convolution(one, double(w2), *geometry(0))
        norm = c(gamma) * (two + c(-mean)) / np.sqrt(c(variance) + 1e-5) + c(beta)
        total = norm + one if number is np.abs else np.clip(norm + one, 0, 6)
        pooled = total.reshape(2, 8, 4, 2, 4, 2).max(axis=(3, 5))
        return pooled.reshape(2, -1) @ double(fc).T, pooled

    return net, truth, normal(2, 3, 8, 8)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_a_network_made_in_python_computes_what_it_says(layout):
    net, truth, x = small(layout)
    assert len(net) == 7 and net.layout == layout
    assert net.inputs == {"x": (2, 3, 8, 8)} and net.outputs == ["scores", "pool"]
    assert net.operators[0] == ("c1", "convolution", ["x"], (2, 8, 8, 8))
    plan = megaconv.NetworkPlan(net, algorithm="direct", threads=2)
    assert "network: 7 operators" in plan.describe()
    scores, pooled = plan(x)
    assert scores.shape == (2, 5, 1, 1) and pooled.shape == (2, 8, 4, 4)
    # A value passes through sums of 28, 9 and 128 terms and 5 operations between them. In any order
    # these err by no more than so many units of FP32 of the magnitudes (Higham, section 4.2).
    error = (28 + 9 + 128 + 5) * 2.0**-24
    for got, wanted, size in zip((scores.reshape(2, 5), pooled), truth(x), truth(x, np.abs)):
        assert np.all(np.abs(got - wanted) <= error * size)
    turned = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert np.array_equal(plan(turned)[0], scores)


def test_a_built_in_network_runs_traces_and_is_simulated():
    assert "resnet50" in megaconv.network_names()
    net = megaconv.network("resnet18", image=32, classes=10, batch=2)
    plan = megaconv.NetworkPlan(net, threads=1)
    x = np.ones((2, 3, 32, 32), "float32")
    y = plan(x)
    assert y.shape == (2, 10, 1, 1) and np.isfinite(y).all()
    out = np.empty((2, 1, 1, 10), "float32").transpose(0, 3, 1, 2)
    dense = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    trace = plan.execute([dense], [out], trace=True)
    assert np.array_equal(out, y)
    assert len(trace) == len(plan.graph) == len(plan.order)
    model = megaconv.NetworkPlan(net, backend="sim", machine="v100")
    assert megaconv.simulate(model, "v100").time_us > 0


def test_a_policy_orders_a_network():
    net = megaconv.network("resnet18", image=32, classes=10)
    plan = megaconv.NetworkPlan(net, policy=lambda graph: range(len(graph)), threads=1)
    assert plan.policy == "custom"
    x = np.ones((1, 3, 32, 32), "float32")
    assert np.array_equal(plan(x), megaconv.NetworkPlan(net, threads=2)(x))
    with pytest.raises(ZeroDivisionError):
        megaconv.NetworkPlan(net, policy=lambda graph: 1 / 0)


def test_what_is_wrong_is_named_and_leaves_the_network_as_it_was():
    net, _, x = small()
    with pytest.raises(ValueError, match="nowhere"):
        net.add("new", "nowhere", "sum")
    with pytest.raises(ValueError, match="c1"):
        net.convolution("c1", "x", np.zeros((8, 3, 3, 3), "float32"))
    with pytest.raises(ValueError, match="must have 4"):
        net.convolution("new", "x", np.zeros((8, 3), "float32"))
    assert len(net) == 7
    with pytest.raises(ValueError, match="nobody"):
        net.outputs = ["nobody"]
    assert net.outputs == ["scores", "pool"]
    plan = megaconv.NetworkPlan(net)
    with pytest.raises(ValueError, match="2 inputs, must be 1"):
        plan(x, x)
    with pytest.raises(ValueError, match=r"\(2, 3, 8, 8\)"):
        plan(x[:1])
    with pytest.raises(ValueError, match="float64"):
        plan(x.astype(np.float64))
    with pytest.raises(ValueError, match="network"):
        plan.problem
    with pytest.raises(ValueError, match="resnet50"):
        megaconv.network("resnet51")
    with pytest.raises(ValueError, match="batch"):
        megaconv.network("resnet18", batch=0)


def test_a_model_that_is_not_there_is_an_error():
    kind = RuntimeError if megaconv.reads_onnx else NotImplementedError
    with pytest.raises(kind):
        megaconv.load("nowhere.onnx")
