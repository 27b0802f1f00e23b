# SPDX-License-Identifier: Apache-2.0
"""Tensors on a CUDA device: streams, graphs, memory orders, networks, PyTorch's modules."""

import numpy as np
import pytest
from reference import check, random_case
from test_torch_network import Functions, Small, close, prepared

import megaconv

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available() or not megaconv.has_cuda:
    pytest.skip("no CUDA device, or a build without CUDA", allow_module_level=True)

import megaconv.torch  # noqa: E402

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_random_problems_have_the_errors_that_their_plans_promise(dtype):
    for seed in range(60):
        case = random_case(seed, np.float16 if dtype == "f16" else np.float32)
        last = seed % 2 == 1
        order = torch.channels_last if last else torch.contiguous_format
        tensor = lambda a: None if a is None else torch.from_numpy(a).cuda()  # noqa: E731
        ordered = lambda a: (  # noqa: E731
            None if a is None else tensor(a).contiguous(memory_format=order))
        x = ordered(case.x)
        y = megaconv.conv2d(x, ordered(case.w), tensor(case.bias),
                            residual=ordered(case.residual), **case.arguments())
        assert y.is_cuda and y.dtype == DTYPES[dtype]
        geometry = [case.geometry[name] for name in ("stride", "padding", "dilation", "groups")]
        plan = megaconv.Plan(megaconv.Problem.from_shapes(
            case.x.shape, case.w.shape, *geometry, dtype=dtype, layout="nhwc" if last else "nchw",
            bias=case.bias is not None, residual=case.residual is not None,
            activation="relu" if case.relu else "none"), backend="cuda")
        check(plan, y.cpu().numpy(), *case.truth())


def test_the_current_stream_is_used_and_a_graph_captures_it():
    x, w = torch.zeros(8, 64, 28, 28, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    new = torch.randn_like(x)
    expected = megaconv.conv2d(new, w, padding=1)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # some 10 ms: what comes behind it is not there before
        x.copy_(new)
        y = megaconv.conv2d(x, w, padding=1)
    stream.synchronize()
    assert torch.equal(y, expected)
    x.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = megaconv.conv2d(x, w, padding=1)
    x.copy_(new)
    graph.replay()
    assert torch.equal(captured, expected)


def test_tensors_are_not_copied_unless_they_must_be():
    x, w = torch.randn(2, 16, 9, 8, device="cuda"), torch.randn(8, 16, 3, 3, device="cuda")
    y = megaconv.conv2d(x, w, copy=False)
    assert torch.equal(megaconv.conv2d(x.transpose(2, 3), w.transpose(2, 3), copy=False), y.mT)
    flat = torch.randn(x.numel() + 1, device="cuda")[1:].view_as(x)
    with pytest.raises(ValueError, match="must be at a multiple of 16 bytes where copy is False"):
        megaconv.conv2d(flat, w, copy=False)
    assert torch.equal(megaconv.conv2d(flat, w), megaconv.conv2d(flat.clone(), w))
    with pytest.raises(ValueError, match="w is in the memory of the CPU"):
        megaconv.conv2d(x, w.cpu())


def test_prepared_filters_lie_on_the_device():
    plan = megaconv.Plan("n4c32h14k64", backend="cuda", filters="prepared")
    x, w = torch.randn(4, 32, 14, 14, device="cuda"), torch.randn(64, 32, 3, 3, device="cuda")
    memory = torch.zeros(plan.prepared_filter_bytes, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    filters = plan.prepare_filters(w, memory, stream)
    expected = torch.nn.functional.conv2d(x.double(), w.double(), padding=1)
    assert (plan(x, filters) - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize("launch", ["persistent", "staged"])
def test_a_network_runs_where_its_tensors_are(launch):
    net = megaconv.network("resnet18", image=64, classes=10, batch=2)
    x = torch.randn(2, 3, 64, 64)
    on_cpu = torch.from_numpy(megaconv.NetworkPlan(net, threads=1)(x.numpy()))
    plan = megaconv.NetworkPlan(net, backend="cuda", launch=launch)
    y = plan(x.cuda())
    assert y.is_cuda and (y.cpu() - on_cpu).norm() < 1e-4 * on_cpu.norm()
    given, graph = x.cuda().contiguous(memory_format=torch.channels_last), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = plan(given)
    given.copy_(2 * given)
    graph.replay()
    assert torch.equal(captured, plan(given)) and not torch.equal(captured, y)
    with pytest.raises(ValueError, match="is in the memory of the CPU"):
        plan(x)


@pytest.mark.parametrize("module", [Small, Functions])
def test_modules_become_networks_on_the_device(module):
    module, x = prepared(module()).cuda(), torch.randn(2, 3, 32, 32, device="cuda")
    compiled = megaconv.torch.compile(module, x)
    assert compiled.networks and all(plan.backend == "cuda" for plan in compiled.networks)
    assert all(reason.startswith("network on cuda") for reason in compiled.left_out.values())
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        assert close(compiled(x), module(x))
    torch.backends.cudnn.allow_tf32 = before


def test_replaced_modules_compile_train_and_autocast():
    torch._dynamo.reset()
    layer = torch.nn.Conv2d(16, 32, 3, padding=1).cuda()
    x = torch.randn(2, 16, 14, 14, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.float16):
        expected = layer(x)
    assert megaconv.torch.replace(layer) == {}
    with torch.autocast("cuda", dtype=torch.float16):
        y = layer(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-2)
    y.float().sum().backward()
    assert x.grad is not None and layer.weight.grad.dtype == torch.float32
    fast = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(fast(x), layer(x))
    args = (x, layer.weight, layer.bias, None, [1, 1], [1, 1], [1, 1], 1, True, "f32")
    torch.library.opcheck(torch.ops.megaconv.conv2d.default, args)


def test_bench_and_tune_measure_on_the_device(tmp_path):
    assert megaconv.bench("n4c32h14k32+nhwc+f16", backend="cuda", seconds=0).least_us > 0
    net = megaconv.network("resnet18", image=64, classes=10)
    assert megaconv.bench(net, backend="cuda", seconds=0).least_us > 0
    tuned = megaconv.tune("n4c32h14k32", backend="cuda", evaluations=5, seconds=0,
                          database=str(tmp_path / "plans.db"))
    assert tuned.best_ms > 0 and tuned.heuristic_ms in tuned.columns()["best_ms"]
    assert tuned.plan.backend == "cuda"


def test_arrays_of_cupy_give_arrays_of_cupy():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    x, w = (cupy.random.standard_normal(shape, dtype=cupy.float32)
            for shape in ((2, 8, 9, 7), (4, 8, 3, 3)))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        y = megaconv.conv2d(x, w, padding=1)
        stream.synchronize()
    assert isinstance(y, cupy.ndarray)
    expected = megaconv.conv2d(x.get(), w.get(), padding=1)
    assert np.allclose(y.get(), expected, rtol=0, atol=1e-4)


def test_arrays_of_jax_on_a_device_are_refused_by_name():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    x = jax.numpy.ones((1, 1, 3, 3))
    with pytest.raises(NotImplementedError, match="must be PyTorch's or CuPy's"):
        megaconv.conv2d(x, x)
