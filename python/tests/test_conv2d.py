# SPDX-License-Identifier: Apache-2.0
"""conv2d against convolutions in double: random problems, types, memory orders."""

import numpy as np
import pytest
from reference import Case, check, plan_of, random_case

import megaconv


def channels_last(array):
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_random_problems_have_the_errors_that_their_plans_promise(block):
    for seed in range(100 * block, 100 * (block + 1)):
        case = random_case(seed)
        last = seed % 2 == 1
        order = channels_last if last else np.asarray
        y = megaconv.conv2d(order(case.x), order(case.w), case.bias,
                            residual=None if case.residual is None else order(case.residual),
                            **case.arguments())
        assert y.dtype == np.float32
        check(plan_of(case, "nhwc" if last else "nchw"), y, *case.truth())


def test_float16_rounds_once():
    for seed in range(50):
        case = random_case(seed, np.float16)
        y = megaconv.conv2d(case.x, case.w, case.bias, residual=case.residual, **case.arguments())
        assert y.dtype == np.float16
        check(plan_of(case, dtype="f16"), y, *case.truth())


def test_bfloat16_of_ml_dtypes_rounds_once():
    bfloat16 = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    for seed in range(20):
        case = random_case(seed, bfloat16)
        y = megaconv.conv2d(case.x, case.w, case.bias, residual=case.residual, **case.arguments())
        assert y.dtype == bfloat16
        wide = Case(*(None if a is None else a.astype(np.float32)
                      for a in (case.x, case.w, case.bias, case.residual)), case.geometry, case.relu)
        check(plan_of(case, dtype="bf16"), y.astype(np.float32), *wide.truth())


def test_int8_is_exact_and_saturates():
    random = np.random.default_rng(1)
    x, w = (random.integers(-128, 128, shape).astype(np.int8)
            for shape in ((2, 7, 9, 8), (5, 7, 3, 3)))
    scale, bias = np.full(5, 2.0**-8, np.float32), np.arange(5, dtype=np.float32)
    y = megaconv.conv2d(x, w, bias, padding=1, scale=scale)
    sums = Case(x, w, None, None, dict(stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1),
                False).truth()[0]
    exact = np.clip(np.rint(sums * 2.0**-8 + bias.reshape(1, 5, 1, 1)), -128, 127)
    assert y.dtype == np.int8
    assert np.array_equal(y, exact.astype(np.int8))
    assert np.any(y == 127)


def test_same_padding_is_what_keeps_the_extents():
    x, w = np.ones((1, 3, 7, 9), np.float32), np.ones((2, 3, 3, 5), np.float32)
    y = megaconv.conv2d(x, w, padding="same", dilation=(1, 2))
    assert y.shape == (1, 2, 7, 9)
    assert np.array_equal(y, megaconv.conv2d(x, w, padding=(1, 4), dilation=(1, 2)))
    assert megaconv.conv2d(x, w, padding="valid").shape == (1, 2, 5, 5)


@pytest.mark.parametrize("last", [False, True])
def test_the_result_has_the_memory_order_of_x(last):
    order = channels_last if last else np.asarray
    x, w = np.ones((2, 8, 6, 5), np.float32), np.ones((4, 8, 3, 3), np.float32)
    y = megaconv.conv2d(order(x), w, padding=1)  # w is copied where its order is the other one
    assert (y.transpose(0, 2, 3, 1) if last else y).flags.c_contiguous
    assert y[1, 3, 2, 2] == 72


def test_any_strides_will_do():
    random = np.random.default_rng(5)
    wide = random.standard_normal((2, 16, 8, 14)).astype(np.float32)
    w = random.standard_normal((3, 8, 3, 3)).astype(np.float32)
    x = wide[:, ::2, ::-1, 2:12]
    filters = np.asfortranarray(w)
    bias = np.arange(6, dtype=np.float32)[::2]
    expected = megaconv.conv2d(x.copy(), w, bias.copy(), padding=1)
    assert np.array_equal(megaconv.conv2d(x, filters, bias, padding=1), expected)
    image = random.standard_normal((1, 8, 5, 5)).astype(np.float32)
    expanded = np.broadcast_to(image, (3, 8, 5, 5))
    assert np.array_equal(megaconv.conv2d(expanded, w), megaconv.conv2d(expanded.copy(), w))


def test_out_is_written_and_returned_and_may_be_the_residual():
    random = np.random.default_rng(6)
    x, w, residual = (random.standard_normal(shape).astype(np.float32)
                      for shape in ((1, 4, 6, 6), (4, 4, 3, 3), (1, 4, 6, 6)))
    expected = megaconv.conv2d(x, w, padding=1, residual=residual, activation="relu")
    y = megaconv.conv2d(x, w, padding=1, residual=residual, activation="relu", out=residual)
    assert y is residual
    assert np.array_equal(y, expected)


def test_a_plan_is_made_once_and_the_number_of_kept_ones_is_bounded():
    from megaconv import _conv2d

    _conv2d._plan.cache_clear()
    x, w = np.ones((1, 2, 4, 4), np.float32), np.ones((2, 2, 1, 1), np.float32)
    for _ in range(3):
        megaconv.conv2d(x, w)
    assert _conv2d._plan.cache_info().misses == 1
    for width in range(1, _conv2d.PLANS_KEPT + 10):
        megaconv.conv2d(np.ones((1, 1, 1, width), np.float32), np.ones((1, 1, 1, 1), np.float32))
    assert _conv2d._plan.cache_info().currsize == _conv2d.PLANS_KEPT
