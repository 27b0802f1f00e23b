# SPDX-License-Identifier: Apache-2.0
"""Wrong input is a Python exception that says what was received and what is allowed."""

import numpy as np
import pytest

import megaconv

X, W = np.ones((1, 4, 6, 6), np.float32), np.ones((2, 4, 3, 3), np.float32)


@pytest.mark.parametrize("changes, error, text", [
    (dict(x=[1, 2]), TypeError, "x is of type list, must be an array"),
    (dict(x=None), TypeError, "x is of type NoneType"),
    (dict(w="w"), TypeError, "w is of type str"),
    (dict(x=X[0]), ValueError, r"x has shape \(4, 6, 6\), must have four axes"),
    (dict(w=W[0]), ValueError, r"w has shape \(4, 3, 3\), must have four axes"),
    (dict(x=X.astype(float)), ValueError, "x has float64, must be float32, float16"),
    (dict(x=X.astype(np.complex64)), ValueError, "x has complex64"),
    (dict(x=X.astype(np.int32)), ValueError, "x has int32"),
    (dict(w=W.astype(np.float16)), ValueError, "w has float16, must be float32"),
    (dict(w=W[:, :3]), ValueError, r"w has 3 channels, must be 4, those of x \(4\)"),
    (dict(x=X[:0]), ValueError, "n = 0"),
    (dict(groups=3), ValueError, "groups"),
    (dict(groups=0), ValueError, "groups"),
    (dict(groups=-1), ValueError, "groups"),
    (dict(groups=1.5), TypeError, "integer"),
    (dict(stride=0), ValueError, "stride"),
    (dict(stride=-1), ValueError, "stride"),
    (dict(stride=(1, 2, 3)), ValueError, r"stride \(1, 2, 3\), must be an integer or a pair"),
    (dict(stride="2"), ValueError, "stride '2', must be an integer or a pair"),
    (dict(stride=1.5), ValueError, "stride 1.5"),
    (dict(padding=-1), ValueError, "vertical padding = -1: must be 0 to 3"),
    (dict(padding=(0, 4)), ValueError, "horizontal padding = 4: must be 0 to 3"),
    (dict(padding="reflect"), ValueError, 'padding "reflect", must be "same", "valid"'),
    (dict(padding="same", stride=2), ValueError, r'padding "same" with stride \(2, 2\)'),
    (dict(padding="same", w=W[:, :, :2]), NotImplementedError, "differs between the two sides"),
    (dict(dilation=0), ValueError, "dilation"),
    (dict(dilation=3), ValueError, "filter"),
    (dict(activation="gelo"), ValueError, 'activation "gelo": must be none, relu, clamp:ALPHA:BETA, leaky_relu:ALPHA, sigmoid'),
    (dict(activation=""), ValueError, 'activation "": must be none, relu'),
    (dict(precision="f64"), ValueError, 'precision "f64", must be one of f32, tf32, f16, bf16'),
    (dict(precision=""), ValueError, 'precision "", must be one of f32'),
    (dict(max_error=0), ValueError, "max_error = 0: must be a number greater than 0"),
    (dict(max_error=1e-3, precision="tf32"), ValueError, "precision tf32: must be left out with max_error"),
    (dict(bias=np.ones(3, np.float32)), ValueError, r"bias has shape \(3,\), must be \(2,\)"),
    (dict(bias=np.ones(2)), ValueError, "bias has float64, must be float32"),
    (dict(bias=1), TypeError, "bias is of type int"),
    (dict(residual=X), ValueError, r"residual has shape \(1, 4, 6, 6\), must be \(1, 2, 4, 4\)"),
    (dict(out=X), ValueError, r"y has shape \(1, 4, 6, 6\), must be \(1, 2, 4, 4\)"),
    (dict(out=np.empty((1, 2, 4, 8), np.float32)[..., ::2]), ValueError, r"y_strides \(64, 32, 8, 2\)"),
    (dict(out=np.empty((1, 2, 4, 4))), ValueError, "y has float64"),
    (dict(out=[0]), TypeError, "out is of type list"),
    (dict(x=X, out=np.broadcast_to(np.float32(0), (1, 2, 4, 4))), TypeError, "y is of type ndarray"),
])
def test_conv2d_names_what_is_wrong(changes, error, text):
    arguments = {"x": X, "w": W, **changes}
    with pytest.raises(error, match=text):
        megaconv.conv2d(**arguments)


def test_out_must_not_lie_over_x():
    with pytest.raises(ValueError, match="x overlaps y"):
        megaconv.conv2d(X, np.ones((4, 4, 3, 3), np.float32), padding=1, out=X)


@pytest.mark.parametrize("problem", ["", "n1", "c4h4", "c4h4k4q9", "c4h4k4+f64", "c-1h4k4", "c4h1k4r9p0"])
def test_a_wrong_problem_string_is_a_value_error(problem):
    with pytest.raises(ValueError):
        megaconv.Problem(problem)


@pytest.mark.parametrize("options, error, text", [
    (dict(backend="tpu"), ValueError, 'backend "tpu", must be one of cpu, cuda, sim'),
    (dict(algorithm="fft"), ValueError, 'algorithm "fft", must be one of automatic, direct'),
    (dict(algorithm="opencnn"), NotImplementedError, "opencnn"),
    (dict(tile=3), ValueError, "3"),
    (dict(tile=-2), ValueError, "tile -2, must be 0 to 4294967295"),
    (dict(points="none"), ValueError, "points"),
    (dict(precision="f8"), ValueError, "precision"),
    (dict(max_error=0), ValueError, "max_error = 0: must be a number greater than 0"),
    (dict(max_error=-1e-6), ValueError, "max_error = -1e-06: must be a number greater than 0"),
    (dict(max_error=float("nan")), ValueError, "max_error = nan: must be a number greater than 0"),
    (dict(max_error="small"), TypeError, "max_error"),
    (dict(max_error=1e-9), NotImplementedError, "max_error = 1e-09: must be at least 4.*, the bound of winograd"),
    (dict(arithmetic="f8"), ValueError, "arithmetic"),
    (dict(filters="never"), ValueError, "filters"),
    (dict(group_tiles=-1), ValueError, "group_tiles -1"),
    (dict(window="half"), ValueError, 'window "half", must be "whole"'),
    (dict(window=(-1, 1)), ValueError, "window: slots of V -1"),
    (dict(policy="best"), ValueError, "best"),
    (dict(policy="interleaved", m_groups=0), ValueError, "0"),
    (dict(dig=-1), ValueError, "dig -1"),
    (dict(dgo=2**32), ValueError, "dgo 4294967296"),
    (dict(seed=-1), ValueError, "seed -1"),
    (dict(source="memory"), ValueError, "source"),
    (dict(measure_ms=-1), ValueError, "measure_ms -1"),
    (dict(workspace_limit=-1), ValueError, "workspace_limit -1"),
    (dict(workspace_limit=1), MemoryError, "1"),
    (dict(threads=-1), ValueError, "threads -1"),
    (dict(blocks=-1), ValueError, "blocks -1"),
    (dict(launch="later"), ValueError, "launch"),
    (dict(backend="sim", machine="abacus"), ValueError, "abacus"),
    (dict(backend="sim", machine="{}"), ValueError, 'machine model: key "megaconv_machine" is missing'),
    (dict(wait_budget_ms=0), ValueError, "wait budget 0 ms"),
])
def test_a_plan_names_what_is_wrong(options, error, text):
    with pytest.raises(error, match=text):
        megaconv.Plan("c16h12k16", **{"algorithm": "winograd", **options})


@pytest.mark.skipif(megaconv.has_cuda, reason="this build has CUDA")
def test_a_build_without_cuda_says_so():
    with pytest.raises(NotImplementedError, match="(?i)cuda"):
        megaconv.Plan("c16h12k16", backend="cuda")


def test_an_option_that_is_not_there_is_a_type_error():
    with pytest.raises(TypeError):
        megaconv.Plan("c16h12k16", thread=2)


def test_execute_takes_arrays_as_they_are():
    plan = megaconv.Plan("n1c4h6k2p0")
    y = np.empty((1, 2, 4, 4), np.float32)
    plan.execute(X, W, y)
    assert y[0, 0, 0, 0] == 36
    with pytest.raises(ValueError, match=r"x_strides \(144, 1, 24, 4\) of \(1, 4, 6, 6\)"):
        plan.execute(X.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2), W, y)
    with pytest.raises(ValueError, match="x is null"):
        plan.execute(None, W, y)
    with pytest.raises(ValueError, match="bias given, but this plan has no use for it"):
        plan.execute(X, W, y, bias=np.ones(2, np.float32))
    with pytest.raises(ValueError, match="bias is null"):
        megaconv.Plan("n1c4h6k2p0+bias").execute(X, W, y)
    with pytest.raises(MemoryError, match="workspace of 8 bytes"):
        plan.execute(X, W, y, workspace=np.empty(8, np.uint8))
    with pytest.raises(ValueError, match="prepare"):
        plan.prepare_filters(W)


def test_prepared_filters_are_for_their_plan_alone():
    plan, other = (megaconv.Plan("n1c4h6k2p0", filters="prepared", seed=seed) for seed in (0, 1))
    filters = plan.prepare_filters(W)
    assert plan.prepared_filter_bytes > 0
    assert np.array_equal(plan(X, filters), megaconv.conv2d(X, W))
    with pytest.raises(ValueError, match="another plan prepared"):
        other(X, filters)
    with pytest.raises(ValueError, match="w given, but this plan has no use for it"):
        plan(X, W)
