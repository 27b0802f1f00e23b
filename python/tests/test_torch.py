# SPDX-License-Identifier: Apache-2.0
"""The operator and the modules for PyTorch."""

import copy

import numpy as np
import pytest
from reference import check, plan_of, random_case

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import megaconv.torch  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """PyTorch's own threads spin, and there are few CPUs for ours beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytorch_truth(case):
    """(y, S) by torch.nn.functional.conv2d in double."""
    results = []
    for size in (lambda a: torch.from_numpy(a).double(), lambda a: torch.from_numpy(a).double().abs()):
        y = functional.conv2d(size(case.x), size(case.w),
                              None if case.bias is None else size(case.bias), **case.geometry)
        results.append(y if case.residual is None else y + size(case.residual))
    y = results[0].clamp(min=0) if case.relu else results[0]
    return y.numpy(), results[1].numpy()


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_random_problems_agree_with_pytorch_in_double(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        case = random_case(seed)
        last = seed % 2 == 1
        order = torch.channels_last if last else torch.contiguous_format
        tensor = lambda a: None if a is None else torch.from_numpy(a)  # noqa: E731
        ordered = lambda a: tensor(a).contiguous(memory_format=order)  # noqa: E731
        y = megaconv.torch.conv2d(ordered(case.x), ordered(case.w), tensor(case.bias),
                                  residual=tensor(case.residual), **case.arguments())
        truth, size = pytorch_truth(case)
        check(plan_of(case, "nhwc" if last else "nchw"), y.numpy(), truth, size)
        assert np.allclose(case.truth()[0], truth, rtol=0, atol=1e-12 * size.max())


def samples():
    torch.manual_seed(0)
    x, w, bias = (torch.randn(shape, requires_grad=True) for shape in ((2, 6, 9, 8), (4, 6, 3, 3), (4,)))
    residual = torch.randn(2, 4, 9, 8, requires_grad=True)
    yield x, w, bias, residual, [1, 1], [1, 1], [1, 1], 1, True, "f32"
    yield x, w, None, None, [2, 1], [0, 1], [1, 2], 1, False, "tf32"
    last = x.detach().to(memory_format=torch.channels_last)
    yield last, w, bias, None, [1, 1], [1, 1], [1, 1], 1, False, "f32"
    yield x.detach()[:, :, ::2], w[:, :3].detach().clone(), None, None, [1, 1], [1, 1], [1, 1], 2, False, "f32"
    yield x.detach().bfloat16(), w.detach().bfloat16(), None, None, [1, 1], [2, 2], [1, 1], 1, True, "f32"


@pytest.mark.parametrize("index", range(5))
def test_the_operator_passes_opcheck(index):
    torch.library.opcheck(torch.ops.megaconv.conv2d.default, list(samples())[index])


@pytest.mark.parametrize("index", range(5))
def test_the_fake_operator_has_the_strides_of_the_real_one(index):
    arguments = list(samples())[index]
    real = torch.ops.megaconv.conv2d(*arguments)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = torch.ops.megaconv.conv2d(*(
            mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments))
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


def test_gradients_are_those_of_pytorch():
    x, w, bias, residual, *_ = next(samples())
    inputs = [t.detach().clone().requires_grad_() for t in (x, w, bias, residual)]
    ours = megaconv.torch.conv2d(*inputs[:3], padding=1, residual=inputs[3], activation="relu")
    theirs = torch.relu(functional.conv2d(x, w, bias, padding=1) + residual)
    weights = torch.randn_like(theirs)
    (ours * weights).sum().backward()
    (theirs * weights).sum().backward()
    for mine, other in zip(inputs, (x, w, bias, residual)):
        assert torch.equal(mine.grad, other.grad)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2, bias=False),
                                  nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"))
        self.tied = self.first
        self.wide = nn.Conv2d(8, 4, 1, padding=2)
        self.even = nn.Conv2d(4, 4, 2, padding="same")
        self.last = nn.Conv2d(4, 4, 3, padding="same", dilation=2)

    def forward(self, x):
        return self.last(self.even(self.wide(self.deep(self.tied(x)))))


def test_replace_swaps_what_it_can_and_names_what_it_cannot():
    torch.manual_seed(1)
    net = Net().eval()
    original, x = copy.deepcopy(net), torch.randn(2, 3, 12, 10)
    calls = []
    net.first.register_forward_hook(lambda *_: calls.append(1))
    left_out = megaconv.torch.replace(net)
    assert set(left_out) == {"deep.3", "wide", "even"}
    assert 'padding_mode "reflect"' in left_out["deep.3"]
    assert "padding 2, must be at most 1" in left_out["wide"]
    assert "the same on both sides" in left_out["even"]
    assert all(isinstance(m, megaconv.torch.Conv2d) for m in (net.first, net.deep[0], net.last))
    torch.testing.assert_close(net(x), original(x))
    assert calls == [1]
    assert list(net.state_dict()) == list(original.state_dict())
    assert megaconv.torch.replace(net) == left_out  # again: nothing is left to swap
    net.load_state_dict(original.state_dict())
    torch.testing.assert_close(copy.deepcopy(net)(x), original(x))


def test_replace_takes_a_convolution_itself_and_an_image_without_batch():
    layer, x = nn.Conv2d(3, 5, 3), torch.randn(3, 7, 6)
    expected = layer(x)
    assert megaconv.torch.replace(layer) == {}
    assert layer(x).shape == expected.shape
    torch.testing.assert_close(layer(x), expected)


def test_a_conv2d_of_a_kind_that_megaconv_lacks_is_refused():
    with pytest.raises(NotImplementedError, match="padding_mode"):
        megaconv.torch.Conv2d(3, 5, 3, padding_mode="circular", padding=1)
    assert "of torch.float64" in megaconv.torch.replace(nn.Conv2d(1, 1, 3).double())[""]

    class Other(nn.Conv2d):
        pass

    assert "of class Other" in megaconv.torch.replace(nn.Sequential(Other(1, 1, 3)))["0"]


def test_torch_compile_breaks_no_graph():
    torch._dynamo.reset()
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2))
    x = torch.randn(2, 3, 9, 9)
    expected = net(x)
    megaconv.torch.replace(net)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    y = compiled(x)
    torch.testing.assert_close(y, expected)
    y.sum().backward()
    assert net[0].weight.grad is not None
    assert torch._dynamo.explain(net)(x).graph_break_count == 0


def test_errors_are_named():
    with pytest.raises(ValueError, match="activation 'gelu'"):
        megaconv.torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), activation="gelu")
    with pytest.raises(ValueError, match="x has float64"):
        megaconv.torch.conv2d(torch.ones(1, 1, 3, 3).double(), torch.ones(1, 1, 3, 3).double())


def test_autocast_computes_in_its_type():
    layer, x = nn.Conv2d(3, 8, 3, padding=1), torch.randn(2, 3, 9, 9, requires_grad=True)
    megaconv.torch.replace(layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        raw = torch.ops.megaconv.conv2d(x, layer.weight, layer.bias, None, [1, 1], [1, 1], [1, 1],
                                        1, False, "f32")
    assert y.dtype == raw.dtype == torch.bfloat16 and torch.equal(y, raw)
    expected = megaconv.torch.conv2d(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16(),
                                     padding=1)
    assert torch.equal(y, expected)
    y.float().sum().backward()
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32
    torch._dynamo.reset()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), y)
    assert layer(x).dtype == torch.float32


def test_prepared_filters_are_made_once_for_a_shape_and_again_for_new_weights(monkeypatch):
    prepared = []
    original = megaconv._core.Plan.prepare_filters
    monkeypatch.setattr(megaconv._core.Plan, "prepare_filters",
                        lambda *given: prepared.append(1) or original(*given))
    layer = torch.nn.Conv2d(8, 12, 3, padding=1, groups=2)
    model = torch.nn.Sequential(layer, torch.nn.ReLU())
    assert megaconv.torch.replace(model, filters="prepared") == {}
    x, small = torch.randn(2, 8, 9, 7), torch.randn(1, 8, 5, 5)
    expected = lambda x: torch.nn.functional.conv2d(  # noqa: E731
        x, layer.weight, layer.bias, padding=1, groups=2).relu()
    close = lambda x: torch.allclose(model(x), expected(x), rtol=1e-4, atol=1e-5)  # noqa: E731
    with torch.no_grad():
        assert close(x) and close(x) and len(prepared) == 1
        assert close(small) and close(small[0]) and len(prepared) == 2
        layer.weight.mul_(2)
        assert close(x) and close(x) and len(prepared) == 3
        assert close(x.contiguous(memory_format=torch.channels_last)) and len(prepared) == 4
        for size in range(6, 20):
            assert close(torch.randn(1, 8, size, size))
        assert len(layer.kept_filters._kept) == layer.kept_filters.SHAPES
    made = len(prepared)
    assert close(x) and len(prepared) == made  # with gradients: the operator
    assert model(x).requires_grad
    twin = __import__("copy").deepcopy(model)
    with torch.no_grad():
        assert torch.equal(twin(x), model(x))
        assert torch.equal(torch.compile(model, fullgraph=True)(x), model(x))
    assert twin[0].kept_filters is not layer.kept_filters
    with pytest.raises(ValueError, match='filters "once", must be "every_run" or "prepared"'):
        megaconv.torch.replace(model, filters="once")
