# SPDX-License-Identifier: Apache-2.0
"""Networks of PyTorch modules: torch.export, and what of its graph megaconv can take."""

from __future__ import annotations

import contextlib
import copy
import math
import re
from typing import Any, Callable, Optional

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

import megaconv
import megaconv.torch  # the operator

_aten = torch.ops.aten
_Node = Any  # an fx.Node: its arguments are of any type
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


class _Builder:
    """A network that grows by the nodes of an exported graph."""

    def __init__(self, inputs: dict[str, Tensor], layout: str, constants: dict[fx.Node, Tensor]):
        dtypes = {value.dtype for value in inputs.values()}
        if len(dtypes) != 1 or not dtypes <= set(_DTYPES):
            raise NotImplementedError(f"inputs of {sorted(map(str, dtypes))}, must be of one type: "
                                      "float32, float16 or bfloat16")
        self.network = megaconv.Network({name: _extents(value) for name, value in inputs.items()},
                                        dtype=_DTYPES[dtypes.pop()], layout=layout)
        self._constants = constants
        self._names: dict[fx.Node, str] = {}

    def name(self, node: Any) -> str:
        if not isinstance(node, fx.Node) or node in self._constants:
            raise NotImplementedError("an operand is a constant, must be a value of the network")
        return self._names.get(node, node.name)

    def numbers(self, node: Optional[fx.Node]) -> Any:
        """Weights as a NumPy array; None stays None."""
        if node is None:
            return None
        if node not in self._constants:
            raise NotImplementedError("weights are computed, must be constants")
        return self._constants[node].detach().to("cpu", torch.float32).numpy()

    def same(self, node: fx.Node, as_node: fx.Node) -> None:
        """Gives the value of another node again: reshaped at most, which names no new value."""
        self._names[node] = self.name(as_node)

    def rename(self, node: _Node) -> None:
        """From now on its value has its own name."""
        self._names.pop(node, None)

    def add(self, node: _Node) -> None:
        """Raises NotImplementedError for a node that is no operator of a network."""
        take = _OPERATORS.get(node.target)
        if take is None:
            raise NotImplementedError(f"operator {node.target}, which networks do not have")
        take(self, node)


def _extents(value: Tensor) -> Any:
    """(N, C, H, W): a matrix (N, C) has height and width 1."""
    shape = tuple(value.shape)
    if not all(isinstance(extent, int) for extent in shape):
        raise NotImplementedError(f"shape {shape}, must be of numbers")
    if len(shape) not in (2, 4):
        raise NotImplementedError(f"shape {shape}, must have 2 or 4 axes")
    return shape if len(shape) == 4 else (*shape, 1, 1)


def _pair(value: Any) -> tuple[int, int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def _arguments(node: _Node) -> dict[str, Any]:
    """By name, those left out too."""
    schema = node.target._schema
    values = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    values.update(zip((a.name for a in schema.arguments), node.args))
    values.update(node.kwargs)
    return values


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise NotImplementedError(text)


def _take_convolution(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    _require(not a.get("transposed", False), "transposed convolution, which networks do not have")
    w = a["weight"].meta["val"]
    padding = a["padding"]
    if isinstance(padding, str):  # "same" or "valid"
        total = [d * (k - 1) for d, k in zip(_pair(a["dilation"]), w.shape[2:])]
        _require(padding == "valid" or not any(rows % 2 for rows in total),
                 f'padding "same" of a filter {tuple(w.shape[2:])} differs between the two sides')
        padding = (0, 0) if padding == "valid" else [rows // 2 for rows in total]
    net.network.convolution(node.name, net.name(a["input"]), net.numbers(a["weight"]),
                            net.numbers(a["bias"]), stride=_pair(a["stride"]),
                            padding=_pair(padding), dilation=_pair(a["dilation"]),
                            groups=a["groups"])


def _take_replaced(net: _Builder, node: _Node) -> None:
    """megaconv.torch.conv2d."""
    x, w, bias, residual, stride, padding, dilation, groups, relu, _ = node.args
    net.network.convolution(node.name, net.name(x), net.numbers(w), net.numbers(bias),
                            stride=_pair(stride), padding=_pair(padding), dilation=_pair(dilation),
                            groups=groups, relu=relu,
                            residual=None if residual is None else net.name(residual))


def _take_batch_norm(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    _require(not a.get("training", False), "batch norm in training, must be module.eval()")
    channels = node.meta["val"].shape[1]
    ones, zeros = [1.0] * channels, [0.0] * channels
    gamma, beta = net.numbers(a["weight"]), net.numbers(a["bias"])
    net.network.batch_norm(node.name, net.name(a["input"]), ones if gamma is None else gamma,
                           zeros if beta is None else beta, net.numbers(a["running_mean"]),
                           net.numbers(a["running_var"]), a["eps"])


def _take_pooling(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    average = node.target is _aten.avg_pool2d.default
    padding = _pair(a["padding"])
    _require(not a["ceil_mode"], "ceil_mode, must be False")
    _require(_pair(a.get("dilation", 1)) == (1, 1), "dilation, must be 1")
    _require(not average or padding == (0, 0) or not a["count_include_pad"],
             "an average that counts padding, must not")
    _require(a.get("divisor_override") is None, "divisor_override, must be None")
    size = _pair(a["kernel_size"])
    net.network.pooling(node.name, net.name(a["input" if "input" in a else "self"]),
                        "average" if average else "max", size,
                        stride=_pair(a["stride"]) if a["stride"] else size, padding=padding)


def _take_global_average(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    x = a["input" if "input" in a else "self"]
    rank = len(x.meta["val"].shape)
    dims = sorted(d % rank for d in a["dim"])
    _require(rank == 4 and dims == [2, 3] and a.get("dtype") is None,
             f"mean over the axes {a['dim']}, must be over height and width")
    net.network.global_average_pooling(node.name, net.name(x))


def _take_adaptive_average(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    shape, size = tuple(a["self"].meta["val"].shape), _pair(a["output_size"])
    _require(len(shape) == 4 and all(n % m == 0 for n, m in zip(shape[2:], size)),
             f"adaptive pooling of {shape} to {size}, must be to a whole part of rows and columns")
    if size == (1, 1):
        net.network.global_average_pooling(node.name, net.name(a["self"]))
        return
    window = tuple(n // m for n, m in zip(shape[2:], size))
    net.network.pooling(node.name, net.name(a["self"]), "average", window, stride=window)


def _take_linear(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    _require(len(a["input"].meta["val"].shape) == 2, "linear of more than a matrix")
    net.network.fully_connected(node.name, net.name(a["input"]), net.numbers(a["weight"]),
                                net.numbers(a["bias"]))


def _take_addition(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    _require(a.get("alpha", 1) == 1, f"alpha {a.get('alpha')}, must be 1")
    values = [a["self"], a["other"]]
    names = [net.name(value) for value in values]
    shapes = [tuple(value.meta["val"].shape) for value in values]
    _require(shapes[0] == shapes[1], f"shapes {shapes[0]} and {shapes[1]}, must be the same")
    net.network.add(node.name, *names)


def _take_concatenation(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    rank = len(node.meta["val"].shape)
    _require(a["dim"] % rank == 1, f"concatenation along axis {a['dim']}, must be along channels")
    net.network.concatenation(node.name, [net.name(value) for value in a["tensors"]])


def _take_clamp(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    if "min_val" in a:
        least, most = a["min_val"], a["max_val"]
    elif "min" in a:
        least, most = a["min"], a["max"]
        least, most = -math.inf if least is None else least, math.inf if most is None else most
    else:
        least, most = (0, 6) if "relu6" in str(node.target) else (0, math.inf)
    net.network.clamp(node.name, net.name(a["input" if "input" in a else "self"]), least, most)


def _take_function(function: str, **numbers: Any) -> Callable[[_Builder, _Node], None]:
    def take(net: _Builder, node: _Node) -> None:
        net.network.pixelwise(node.name, function, [net.name(node.args[0])], **numbers)

    return take


def _take_leaky_relu(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    net.network.pixelwise(node.name, "leaky_relu", [net.name(a["self"])],
                          alpha=a["negative_slope"])


def _take_gelu(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    function = {"none": "gelu", "tanh": "gelu_tanh"}[a["approximate"]]
    net.network.pixelwise(node.name, function, [net.name(a["self"])])


def _take_silu(net: _Builder, node: _Node) -> None:
    x, gate = net.name(node.args[0]), f"{node.name}.sigmoid"
    net.network.pixelwise(gate, "sigmoid", [x])
    net.network.pixelwise(node.name, "multiply", [x, gate])


def _take_product(net: _Builder, node: _Node) -> None:
    a, b = node.args
    names = [net.name(a), net.name(b)]
    shapes = [_extents(value.meta["val"]) for value in (a, b)]
    if shapes[0][2:] == (1, 1):  # the one that is stretched stands last
        names.reverse()
        shapes.reverse()
    _require(shapes[1] in (shapes[0], (*shapes[0][:2], 1, 1)),
             f"shapes {shapes[0]} and {shapes[1]}, must be the same, or one number for a channel")
    net.network.pixelwise(node.name, "multiply", names)


def _take_softmax(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    rank = len(node.meta["val"].shape)
    _require(a["dim"] % rank == 1, f"softmax along axis {a['dim']}, must be along channels")
    net.network.pixelwise(node.name, "softmax", [net.name(a["self"])])


def _take_upsampling(net: _Builder, node: _Node) -> None:
    x = node.args[0]
    before, after = x.meta["val"].shape[2:], node.meta["val"].shape[2:]
    repeat = tuple(to // size for size, to in zip(before, after))
    _require(all(size * times == to for size, times, to in zip(before, repeat, after)),
             f"upsampling of {tuple(before)} to {tuple(after)}, must be a whole number of times")
    net.network.rearrangement(node.name, net.name(x), repeat=repeat)


def _take_padding(net: _Builder, node: _Node) -> None:
    a = _arguments(node)
    pad = list(a["pad"])
    _require(len(pad) in (2, 4), f"padding of {len(pad) // 2} axes, must be of height and width")
    left, right, top, bottom = pad if len(pad) == 4 else [*pad, 0, 0]
    net.network.rearrangement(node.name, net.name(a["self"]), padding=(top, bottom, left, right),
                              fill=a["value"] or 0.0)


def _take_flattening(net: _Builder, node: _Node) -> None:
    x = node.args[0]
    before, after = tuple(x.meta["val"].shape), tuple(node.meta["val"].shape)
    _require(after == before or after == (before[0], math.prod(before[1:])),
             f"shape {after} of {before}, must be that of a matrix with one row an image")
    net.same(node, x)


def _take_nothing(net: _Builder, node: _Node) -> None:
    _require(not _arguments(node).get("train", False), "dropout in training, must be module.eval()")
    net.same(node, node.args[0])


_OPERATORS: dict[Any, Callable[[_Builder, _Node], None]] = {
    _aten.conv2d.default: _take_convolution,
    _aten.conv2d.padding: _take_convolution,
    _aten.convolution.default: _take_convolution,
    torch.ops.megaconv.conv2d.default: _take_replaced,
    _aten.batch_norm.default: _take_batch_norm,
    _aten.max_pool2d.default: _take_pooling,
    _aten.avg_pool2d.default: _take_pooling,
    _aten.adaptive_avg_pool2d.default: _take_adaptive_average,
    _aten.mean.dim: _take_global_average,
    _aten.linear.default: _take_linear,
    _aten.add.Tensor: _take_addition,
    _aten.add_.Tensor: _take_addition,
    _aten.cat.default: _take_concatenation,
    _aten.concat.default: _take_concatenation,
    _aten.relu.default: _take_clamp,
    _aten.relu_.default: _take_clamp,
    _aten.relu6.default: _take_clamp,
    _aten.hardtanh.default: _take_clamp,
    _aten.hardtanh_.default: _take_clamp,
    _aten.clamp.default: _take_clamp,
    _aten.leaky_relu.default: _take_leaky_relu,
    _aten.leaky_relu_.default: _take_leaky_relu,
    _aten.sigmoid.default: _take_function("sigmoid"),
    _aten.tanh.default: _take_function("tanh"),
    _aten.hardsigmoid.default: _take_function("hard_sigmoid", alpha=1 / 6, beta=0.5),
    _aten.hardswish.default: _take_function("hard_swish"),
    _aten.hardswish_.default: _take_function("hard_swish"),
    _aten.gelu.default: _take_gelu,
    _aten.silu.default: _take_silu,
    _aten.silu_.default: _take_silu,
    _aten.mul.Tensor: _take_product,
    _aten.softmax.int: _take_softmax,
    _aten._softmax.default: _take_softmax,
    _aten.upsample_nearest2d.vec: _take_upsampling,
    _aten.upsample_nearest2d.default: _take_upsampling,
    _aten.pad.default: _take_padding,
    _aten.constant_pad_nd.default: _take_padding,
    _aten.flatten.using_ints: _take_flattening,
    _aten.view.default: _take_flattening,
    _aten.reshape.default: _take_flattening,
    _aten.dropout.default: _take_nothing,
    _aten.dropout_.default: _take_nothing,
    _aten.contiguous.default: _take_nothing,
}


def _constants_of(graph: fx.GraphModule) -> dict[fx.Node, Tensor]:
    found = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value: Any = graph
            for part in node.target.split("."):
                value = getattr(value, part)
            if isinstance(value, Tensor):
                found[node] = value
    return found


def _obstacles(graph: fx.GraphModule, constants: dict[fx.Node, Tensor],
               layout: str) -> dict[str, str]:
    """Why a network of one operator cannot be made of a node, by the name of the node."""
    found = {}
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        values = [n for n in node.all_input_nodes if n not in constants]
        try:
            if not isinstance(node.meta.get("val"), Tensor):
                raise NotImplementedError(f"operator {node.target}, which networks do not have")
            net = _Builder({n.name: n.meta["val"] for n in values}, layout, constants)
            net.add(node)
            _extents(node.meta["val"])
        except (NotImplementedError, ValueError) as error:
            found[node.name] = str(error)
    return found


class _Refused(Exception):
    """No plan can be made of a part, for what the nodes named are."""

    def __init__(self, nodes: list[fx.Node], reason: str):
        super().__init__(reason)
        self.nodes = nodes


def _plan_of(part: fx.GraphModule, network: megaconv.Network,
             options: dict[str, Any]) -> megaconv.NetworkPlan:
    """Raises _Refused for operators that networks do not have on this back end."""
    try:
        return megaconv.NetworkPlan(network, **options)
    except NotImplementedError as error:
        nodes = [n for n in part.graph.nodes if n.op == "call_function"]
        words = set(re.findall(r"\w+", str(error)))
        raise _Refused([n for n in nodes if n.name in words] or nodes, str(error)) from error


def _like(graph: fx.GraphModule, nodes: list[fx.Node]) -> list[str]:
    """Names of all nodes that do the same to what the same operators made: refused for the same."""
    def kind(node: fx.Node):
        return node.target, *(str(n.target) if n.op == "call_function" else n.op
                              for n in node.all_input_nodes)

    kinds = {kind(node) for node in nodes}
    return [n.name for n in graph.graph.nodes if n.op == "call_function" and kind(n) in kinds]


class _Support(OperatorSupportBase):
    def __init__(self, obstacles: dict[str, str]):
        self._obstacles = obstacles

    def is_node_supported(self, submodules, node) -> bool:
        return node.op == "call_function" and node.name not in self._obstacles


class NetworkModule(nn.Module):
    """A part of a module as one network: a plan for the shapes of the example."""

    def __init__(self, plan: megaconv.NetworkPlan, outputs: list[tuple[str, torch.Size]]):
        super().__init__()
        self.plan = plan
        self._outputs = outputs  # names in the plan and shapes in PyTorch

    def forward(self, *inputs: Tensor) -> Any:
        wanted = list(self.plan.inputs.values())
        given = [x if x.dim() == 4 else x.reshape(*x.shape, 1, 1) for x in inputs]
        for x, shape in zip(given, wanted):
            if tuple(x.shape) != shape:
                raise ValueError(f"input of shape {tuple(x.shape)}, must be {shape}, as in the "
                                 "example that the module was compiled for")
        results = self.plan(*given)
        values = dict(zip(self.plan.outputs, results if isinstance(results, tuple) else [results]))
        found = tuple(values[name].reshape(shape) for name, shape in self._outputs)
        return found[0] if len(found) == 1 else found

    def extra_repr(self) -> str:
        return repr(self.plan)


def _network_of(part: fx.GraphModule, arguments: list[fx.Node], constants: dict[fx.Node, Tensor],
                layout: str, options: dict[str, Any]) -> NetworkModule:
    """The module of a partition; `arguments`: nodes outside that it is called with."""
    inside: dict[fx.Node, Tensor] = {}
    inputs: dict[str, Tensor] = {}
    holders = [n for n in part.graph.nodes if n.op == "placeholder"]
    for holder, outer in zip(holders, arguments):
        holder.meta.setdefault("val", outer.meta.get("val"))
        if outer in constants:
            inside[holder] = constants[outer]
        else:
            inputs[holder.name] = outer.meta["val"]
    inside.update(_constants_of(part))
    net = _Builder(inputs, layout, inside)
    returned: Any = ()
    for node in part.graph.nodes:
        if node.op == "call_function":
            net.add(node)
        elif node.op == "output":
            returned = node.args[0]
    nodes = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    outputs = []
    for node in nodes:
        if net.name(node) in inputs:  # reshaped only: a clamp without limits makes it a value
            net.network.clamp(node.name, net.name(node), -math.inf, math.inf)
            net.rename(node)
        outputs.append((net.name(node), node.meta["val"].shape))
    net.network.outputs = list(dict.fromkeys(name for name, _ in outputs))
    return NetworkModule(_plan_of(part, net.network, options), outputs)


def _fuse(graph: fx.GraphModule, obstacles: dict[str, str], layout: str,
          options: dict[str, Any]) -> fx.GraphModule:
    """A copy of the graph with all but the obstacles in networks. Raises _Refused."""
    own = fx.GraphModule(graph, copy.deepcopy(graph.graph))  # shares the weights
    partitioner = CapabilityBasedPartitioner(own, _Support(obstacles),
                                             allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    constants = _constants_of(fused)
    networks = {}
    for node in list(fused.graph.nodes):
        part = getattr(fused, str(node.target)) if node.op == "call_module" else None
        if not isinstance(part, fx.GraphModule) or not str(node.target).startswith("fused_"):
            continue
        if all(_OPERATORS[n.target] in (_take_flattening, _take_nothing)
               for n in part.graph.nodes if n.op == "call_function"):
            continue  # nothing is computed: PyTorch's
        networks[str(node.target)] = _network_of(part, list(node.args), constants, layout, options)
        node.args = tuple(a for a in node.args if a not in constants)
    for name, network in networks.items():
        setattr(fused, name, network)
    fused.graph.eliminate_dead_code()
    fused.delete_all_unused_submodules()
    fused.recompile()
    setattr(fused, "left_out", dict(obstacles))
    setattr(fused, "networks", [network.plan for network in networks.values()])
    return fused


def _of_aten_operators(graph: fx.GraphModule) -> bool:
    return all(isinstance(node.target, torch._ops.OpOverload)
               for node in graph.graph.nodes if node.op == "call_function")


def _with_shapes_of(exported: fx.GraphModule, example: tuple[Tensor, ...]) -> fx.GraphModule:
    """A copy that shares the weights, with shapes and types as the example makes them."""
    graph = fx.GraphModule(exported, copy.deepcopy(exported.graph))
    for node in list(graph.graph.nodes):
        if node.op == "call_module" and not node.users:  # guards of what it was exported for
            graph.graph.erase_node(node)
    graph.recompile()
    FakeTensorProp(graph, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*example)
    return graph


def _graph_of(module: nn.Module, example: tuple[Tensor, ...]) -> fx.GraphModule:
    """Of ATen operators, with shapes and types."""
    with torch.no_grad():
        if isinstance(module, fx.GraphModule) and _of_aten_operators(module):
            return _with_shapes_of(module, example)
        training = module.training
        module.eval()
        try:
            return torch.export.export(module, example).module()
        finally:
            module.train(training)


def compile(module: nn.Module, example: Tensor | tuple[Tensor, ...], *, layout: str = "nhwc",
            **options: Any) -> fx.GraphModule:
    """megaconv.torch.compile."""
    if layout not in ("nhwc", "nchw"):
        raise ValueError(f'layout "{layout}", must be "nhwc" or "nchw"')
    example = (example,) if isinstance(example, Tensor) else tuple(example)
    graph = _graph_of(module, example)
    device = example[0].device if example else torch.device("cpu")
    on_device = torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
    options = {"backend": "cuda" if device.type == "cuda" else "cpu", **options}
    constants = _constants_of(graph)
    for node, value in constants.items():
        node.meta.setdefault("val", value)
    obstacles = _obstacles(graph, constants, layout)
    with on_device:
        while True:  # every turn leaves out more
            try:
                return _fuse(graph, obstacles, layout, options)
            except _Refused as refused:
                obstacles |= dict.fromkeys(_like(graph, refused.nodes), str(refused))
