# SPDX-License-Identifier: Apache-2.0
"""megaconv.torch.compile: modules as networks, and what stays PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import megaconv.torch  # noqa: E402


class Block(nn.Module):
    """A residual block with batch norm, as ResNet has it."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + x)


class Small(nn.Module):
    def __init__(self, middle=None):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, stride=2, padding=3), nn.ReLU6(),
                                  nn.MaxPool2d(3, 2, 1))
        self.block = Block(16)
        self.middle = middle or nn.Identity()
        self.branch = nn.Conv2d(16, 8, 1, groups=2)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.middle(self.block(self.stem(x)))
        x = torch.cat([x, self.branch(x)], 1)
        x = nn.functional.dropout(nn.functional.adaptive_avg_pool2d(x, 1), training=self.training)
        return self.head(torch.flatten(x, 1))


def prepared(module):
    """With statistics that batch norm has something to do with."""
    torch.manual_seed(1)
    for child in module.modules():
        if isinstance(child, nn.BatchNorm2d):
            child.running_mean.normal_()
            child.running_var.uniform_(0.5, 2)
    return module.eval()


def close(got, expected):
    # Sums of 147 terms in two orders: 147 * 2^-24 = 1e-5 of the magnitudes in each of five layers,
    # and on both sides.
    return (got - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_a_whole_module_becomes_one_network(layout):
    module, x = prepared(Small()), 20 * torch.randn(2, 3, 32, 32)  # ReLU6 has what to cut off
    compiled = megaconv.torch.compile(module, x, layout=layout, threads=2)
    assert compiled.left_out == {}
    assert len(compiled.networks) == 1
    with torch.no_grad():
        expected = module(x)
        assert compiled(x).shape == expected.shape
        assert close(compiled(x), expected)
        again = torch.randn(2, 3, 32, 32)
        assert close(compiled(again), module(again))


def test_what_networks_do_not_have_stays_and_is_named():
    module, x = prepared(Small(nn.ELU())), torch.randn(1, 3, 32, 32)
    compiled = megaconv.torch.compile(module, x)
    assert len(compiled.left_out) == 1
    (name, reason), = compiled.left_out.items()
    assert "elu" in name and "elu" in reason
    assert len(compiled.networks) == 2
    with torch.no_grad():
        assert close(compiled(x), module(x))


@pytest.mark.parametrize("size", [1, 2, (4, 8), 8])
def test_adaptive_pooling_to_a_whole_part_is_taken(size):
    height, width = size if isinstance(size, tuple) else (size, size)
    module = prepared(nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.AdaptiveAvgPool2d(size),
                                    nn.Flatten(), nn.Linear(6 * height * width, 4)))
    x = torch.randn(2, 3, 8, 8)
    compiled = megaconv.torch.compile(module, x)
    assert compiled.left_out == {} and len(compiled.networks) == 1
    with torch.no_grad():
        assert close(compiled(x), module(x))


def test_adaptive_pooling_of_uneven_windows_is_named():
    module, x = nn.Sequential(nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(4)).eval(), torch.randn(1, 3, 8, 8)
    (reason,) = megaconv.torch.compile(module, x).left_out.values()
    assert "adaptive pooling of (1, 6, 6, 6) to (4, 4)" in reason


def test_convolutions_that_were_replaced_are_taken():
    module, x = prepared(Small()), torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        expected = module(x)
    assert megaconv.torch.replace(module) == {}
    compiled = megaconv.torch.compile(module, x)
    assert compiled.left_out == {} and len(compiled.networks) == 1
    with torch.no_grad():
        assert close(compiled(x), expected)


def test_a_module_that_trains_stays_in_training():
    module, x = prepared(Small()).train(), torch.randn(1, 3, 32, 32)
    compiled = megaconv.torch.compile(module, x)
    assert module.training and compiled.left_out == {}
    with torch.no_grad():
        assert close(compiled(x), module.eval()(x))


def test_other_shapes_and_types_are_refused():
    module, x = prepared(Small()), torch.randn(1, 3, 32, 32)
    compiled = megaconv.torch.compile(module, x)
    with pytest.raises(Exception, match="shape|size"):
        compiled(torch.randn(1, 3, 64, 64))
    with pytest.raises(ValueError, match="layout"):
        megaconv.torch.compile(module, x, layout="chwn")
    double = megaconv.torch.compile(module.double(), x.double())
    assert double.networks == [] and "float64" in next(iter(double.left_out.values()))
    with torch.no_grad():
        assert torch.equal(double(x.double()), module(x.double()))


class Functions(nn.Module):
    """All that networks have beside convolutions, as YOLO and MobileNetV3 use it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.gate = nn.Conv2d(8, 8, 1)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x):
        x = nn.functional.leaky_relu(self.conv(x), 0.1)
        x = x * nn.functional.hardsigmoid(self.gate(nn.functional.adaptive_avg_pool2d(x, 1)))
        x = nn.functional.silu(nn.functional.hardswish(x)) * torch.sigmoid(x)
        x = nn.functional.pad(self.up(torch.tanh(x)), (1, 0, 2, -1), value=0.5)
        return torch.softmax(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1), 1)


def test_activations_products_and_upsampling_are_taken():
    module, x = Functions().eval(), torch.randn(2, 3, 9, 8)
    compiled = megaconv.torch.compile(module, x)
    assert compiled.left_out == {} and len(compiled.networks) == 1
    with torch.no_grad():
        assert close(compiled(x), module(x))


def test_what_a_back_end_does_not_have_stays_pytorchs_and_is_named(monkeypatch):
    plan = megaconv.NetworkPlan

    def without_poolings(network, **options):
        for name, kind, *_ in network.operators:
            if kind == "max pooling":
                raise NotImplementedError(f"network on cuda: {name}: max pooling, must be on cpu")
        return plan(network, **options)

    monkeypatch.setattr(megaconv, "NetworkPlan", without_poolings)
    module, x = prepared(Small()), torch.randn(1, 3, 32, 32)
    compiled = megaconv.torch.compile(module, x)
    (name, reason), = compiled.left_out.items()
    assert name.startswith("max_pool2d") and reason.startswith("network on cuda: max_pool2d")
    assert len(compiled.networks) == 2
    with torch.no_grad():
        assert close(compiled(x), module(x))


def test_an_exported_graph_is_compiled_for_the_example():
    module = prepared(Small())
    with torch.no_grad():
        exported = torch.export.export(module, (torch.randn(1, 3, 32, 32),)).module()
        for x in (torch.randn(3, 3, 32, 32), torch.randn(2, 3, 40, 24)):
            compiled = megaconv.torch.compile(exported, x, threads=1)
            assert close(compiled(x), module(x))
        half, x = __import__("copy").deepcopy(exported).half(), torch.randn(2, 3, 32, 32)
        compiled = megaconv.torch.compile(half, x.half(), threads=1)
        assert compiled(x.half()).dtype == torch.float16
        assert (compiled(x.half()).float() - module(x)).norm() < 1e-2 * module(x).norm()
