# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries: results of their kind, and no copies where none are needed."""

import numpy as np
import pytest

import megaconv
from megaconv import _arrays


class Seen:
    """Records the addresses that plans read from and write to."""

    def __init__(self, monkeypatch):
        self.addresses = []
        original = megaconv._core.Plan.execute

        def execute(plan, x, w, y, **others):
            if plan.problem.dtype == "f32":  # what NumPy can look at
                self.addresses.append(tuple(address(a) for a in (x, w, y)))
            return original(plan, x, w, y, **others)

        monkeypatch.setattr(megaconv._core.Plan, "execute", execute)


@pytest.fixture
def seen(monkeypatch):
    return Seen(monkeypatch).addresses


def address(array):
    return np.from_dlpack(array).__array_interface__["data"][0]


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


X, W = numbers(2, 8, 7, 6), numbers(4, 8, 3, 3)


@pytest.mark.parametrize("last", [False, True])
def test_numpy_arrays_are_not_copied(seen, last):
    x, w = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if last else a
            for a in (X, W))
    y = megaconv.conv2d(x, w, padding=1)
    assert seen == [(address(x), address(w), address(y))]


def test_what_is_not_dense_is_copied_once(seen):
    x = numbers(2, 8, 7, 12)[:, :, :, ::2]
    megaconv.conv2d(x, W)
    assert len(seen) == 1
    assert seen[0][0] != address(x)
    assert seen[0][1] == address(W)


def test_arrays_that_may_only_be_read_are_read():
    x = X.copy()
    x.flags.writeable = False
    assert np.array_equal(megaconv.conv2d(x, W), megaconv.conv2d(X, W))


@pytest.mark.parametrize("last", [False, True])
def test_tensors_of_pytorch_are_not_copied(seen, last):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    order = torch.channels_last if last else torch.contiguous_format
    x, w = (torch.tensor(a).contiguous(memory_format=order) for a in (X, W))
    y = megaconv.conv2d(x, w, padding=1)
    assert isinstance(y, torch.Tensor)
    assert y.is_contiguous(memory_format=order)
    assert seen == [(x.data_ptr(), w.data_ptr(), y.data_ptr())]
    assert np.array_equal(y, megaconv.conv2d(X, W, padding=1)) or last
    bits = megaconv.conv2d(x.bfloat16(), w.bfloat16())
    assert bits.dtype == torch.bfloat16


def test_arrays_of_jax_are_not_copied(seen):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    x, w = jax.numpy.asarray(X.copy()), jax.numpy.asarray(W.copy())
    y = megaconv.conv2d(x, w, padding=1)
    assert isinstance(y, jax.Array)
    assert seen[0][:2] == (x.unsafe_buffer_pointer(), w.unsafe_buffer_pointer())
    assert seen[0][2] == y.unsafe_buffer_pointer()
    assert np.array_equal(y, megaconv.conv2d(X, W, padding=1))
    assert megaconv.conv2d(x.astype("bfloat16"), w.astype("bfloat16")).dtype == "bfloat16"
    with pytest.raises(TypeError, match="x is of type .*Tracer"):
        jax.jit(megaconv.conv2d)(x, w)
    with pytest.raises(TypeError, match="out is of type ArrayImpl, which is never written to"):
        megaconv.conv2d(x, w, out=y)


class Foreign:
    """An array of a library that is known by DLPack alone."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return type("foreign", (), {"from_dlpack": lambda y: Foreign(np.from_dlpack(y))})


@pytest.mark.parametrize("last", [False, True])
def test_arrays_of_any_library_with_dlpack_give_arrays_of_it(seen, last):
    x = Foreign(np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if last else X)
    y = megaconv.conv2d(x, W, padding=1)
    assert isinstance(y, Foreign)
    assert seen[0][0] == address(x) and seen[0][2] == address(y)
    assert np.allclose(y.array, megaconv.conv2d(X, W, padding=1), rtol=0, atol=1e-4)


class FakeCuPy:
    """The parts of CuPy that are used, on the CPU."""

    def __init__(self):
        class ndarray(Foreign):
            device = property(lambda self: self.module.context)
            dtype = property(lambda self: self.array.dtype)
            ndim = property(lambda self: self.array.ndim)

            def transpose(self, *axes):
                return ndarray(self.array.transpose(*axes))

        class Context:
            entered = 0

            def __enter__(self):
                Context.entered += 1

            def __exit__(self, *_):
                pass

        self.ndarray, self.context = ndarray, Context()
        ndarray.module = self
        self.cuda = type("cuda", (), {
            "get_current_stream": staticmethod(lambda: type("stream", (), {"ptr": 0}))})
        ndarray.nbytes = property(lambda self: self.array.nbytes)
        self.empty = lambda *arguments: ndarray(np.empty(*arguments))
        self.zeros = lambda *arguments: ndarray(np.zeros(*arguments))
        self.array = lambda array, order: ndarray(np.array(array.array, order=order))


def test_the_protocol_with_cupy_keeps_device_stream_and_kind(monkeypatch):
    cupy = FakeCuPy()
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    x = cupy.ndarray(X[:, :, ::-1])
    y = megaconv.conv2d(x, cupy.ndarray(W), padding=1)
    assert isinstance(y, cupy.ndarray)
    assert cupy.context.entered > 0
    assert np.array_equal(y.array, megaconv.conv2d(X[:, :, ::-1].copy(), W, padding=1))
    assert _arrays.library_of(X) is not _arrays.library_of(x)


def test_runs_on_one_stream_of_a_device_share_a_workspace_that_grows(monkeypatch):
    cupy = FakeCuPy()
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setattr(_arrays, "_workspaces", {})
    x = cupy.ndarray(X)
    library = _arrays.library_of(x)
    first = library.workspace(x, 100, 1)
    assert library.workspace(x, 50, 1) is first
    assert library.workspace(x, 50, 2) is not first
    larger = library.workspace(x, 200, 1)
    assert larger.nbytes == 200 and not larger.array.any()
    assert library.workspace(x, 100, 1) is larger


def test_a_tensor_without_memory_is_refused():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(TypeError, match="x is of type"):
        megaconv.conv2d(torch.empty(1, 1, 3, 3, device="meta"), torch.empty(1, 1, 1, 1))


@pytest.mark.parametrize("last", [False, True])
def test_rows_and_columns_that_are_turned_are_not_copied(seen, last):
    order = (0, 3, 2, 1) if last else (0, 1, 3, 2)
    x, w = (np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order)) for a in (X, W))
    expected = megaconv.conv2d(X, W, padding=(1, 0), stride=(2, 1))
    y = megaconv.conv2d(x, w, padding=(1, 0), stride=(2, 1), copy=False)
    assert seen[-1] == (address(x), address(w), address(y))
    assert y.shape == expected.shape
    assert np.allclose(y, expected, rtol=0, atol=1e-4)
    out = np.empty_like(y)  # of the same order
    assert megaconv.conv2d(x, w, padding=(1, 0), stride=(2, 1), out=out) is out
    assert np.array_equal(out, y)


@pytest.mark.parametrize("last", [False, True])
def test_parts_of_larger_arrays_are_not_copied(seen, last):
    order, back = ((0, 2, 3, 1), (0, 3, 1, 2)) if last else ((0, 1, 2, 3),) * 2
    stored = lambda a: np.ascontiguousarray(a.transpose(order)).transpose(back)  # noqa: E731
    whole, w = stored(numbers(2, 20, 11, 12)), stored(W)
    x = whole[:, 3:11, 2:9, 4:10]
    dense = megaconv.conv2d(stored(x), w, padding=1)
    y = megaconv.conv2d(x, w, padding=1, copy=False)
    assert seen[-1] == (address(x), address(w), address(y))
    assert y.strides == dense.strides and np.array_equal(y, dense)
    before = whole.copy()
    out = whole[:, 12:16, 2:9, 4:10]  # beside x, as in a concatenation
    assert megaconv.conv2d(x, w, padding=1, out=out, copy=False) is out
    assert seen[-1][2] == address(out) and np.array_equal(out, dense)
    whole[:, 12:16, 2:9, 4:10] = before[:, 12:16, 2:9, 4:10]
    assert np.array_equal(whole, before)
    residual = stored(numbers(2, 4, 7, 6))
    expected = megaconv.conv2d(x, w, padding=1, residual=residual)
    assert np.array_equal(megaconv.conv2d(x, w, padding=1, residual=residual, out=out), expected)
    with pytest.raises(ValueError, match="residual with strides .* must be those of out"):
        megaconv.conv2d(x, w, padding=1, residual=residual, out=out, copy=False)
    with pytest.raises(ValueError, match="x overlaps y"):
        megaconv.conv2d(x, w, padding=1, out=whole[:, 8:12, 2:9, 4:10])
    assert not (last and megaconv.conv2d(x[:, ::2], w[:, ::2]).strides == y.strides)


def test_every_copy_can_be_refused_and_is_shown(monkeypatch, capfd):
    x = numbers(2, 8, 7, 12)[:, :, :, ::2]
    assert np.array_equal(megaconv.conv2d(X, W, copy=False), megaconv.conv2d(X, W))
    with pytest.raises(ValueError, match=r"x \(2, 8, 7, 6\) with strides .*must be dense in NCHW"):
        megaconv.conv2d(x, W, copy=False)
    with pytest.raises(ValueError, match="w .*must be dense in NCHW order where copy is False"):
        megaconv.conv2d(X, W[:, :, ::-1], copy=False)
    assert "copy" not in capfd.readouterr().err
    monkeypatch.setenv("MEGACONV_VERBOSE", "1")
    megaconv.conv2d(x, W)
    assert "megaconv: copy of x (2, 8, 7, 6) with strides" in capfd.readouterr().err
