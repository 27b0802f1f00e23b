# SPDX-License-Identifier: Apache-2.0
"""megaconv for PyTorch: the operator megaconv::conv2d, and modules that use it.

    import megaconv.torch
    left_out = megaconv.torch.replace(model)   # every nn.Conv2d that it can take, in place
    y = model(x)

The operator is known to torch.compile. Its gradients are PyTorch's own: backward calls
torch.ops.aten.convolution_backward, the arithmetic that nn.Conv2d has there.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor, nn

import megaconv
from megaconv._arrays import is_part
from megaconv._conv2d import KeptFilters

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@torch.library.custom_op("megaconv::conv2d", mutates_args=(), device_types=("cpu", "cuda"))
def _conv2d(x: Tensor, w: Tensor, bias: Optional[Tensor], residual: Optional[Tensor],
            stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
            relu: bool, precision: str) -> Tensor:
    return megaconv.conv2d(x, w, bias, tuple(stride), tuple(padding), tuple(dilation), groups,
                           residual=residual, activation="relu" if relu else None,
                           precision=precision)


def _on_autocast(device: str):
    """Under torch.autocast the operator computes in its type, as nn.functional.conv2d does."""

    def run(x, w, bias, residual, *rest):
        dtype = torch.get_autocast_dtype(device)
        given = [t.to(dtype) if t is not None and t.is_floating_point() else t
                 for t in (x, w, bias, residual)]
        with torch.autocast(device, enabled=False):
            return torch.ops.megaconv.conv2d(*given, *rest)

    return run


_library = torch.library.Library("megaconv", "FRAGMENT")
for _device in ("cpu", "cuda"):
    _library.impl("conv2d", _on_autocast(_device), f"Autocast{_device.upper()}")


def _order(x: Tensor, others: Sequence[Optional[Tensor]]) -> torch.memory_format:
    """That of x, if it is a part of a tensor in one of the two orders only, else of the first tensor
    that is dense in one of them only, as megaconv.conv2d."""
    rows, last = torch.contiguous_format, torch.channels_last
    is_dense = x.is_contiguous() or x.is_contiguous(memory_format=last)
    if not is_dense and x.device.type == "cpu":
        part_of_rows, part_of_last = (is_part(x.shape, x.stride(), order) for order in (False, True))
        if part_of_rows != part_of_last:
            return last if part_of_last else rows
    for tensor in (x, *others):
        if tensor is not None:
            in_last = tensor.is_contiguous(memory_format=last)
            if in_last != tensor.is_contiguous():
                return last if in_last else rows
    return rows


@_conv2d.register_fake
def _(x, w, bias, residual, stride, padding, dilation, groups, relu, precision):
    extents = [(size + 2 * p - d * (filter - 1) - 1) // s + 1
               for size, filter, s, p, d in zip(x.shape[2:], w.shape[2:], stride, padding, dilation)]
    return torch.empty((x.shape[0], w.shape[0], *extents), dtype=x.dtype, device=x.device,
                       memory_format=_order(x, (w, residual)))


def _setup_context(ctx, inputs, output):
    x, w, bias, residual, stride, padding, dilation, groups, relu, _ = inputs
    ctx.save_for_backward(x, w, output if relu else None)
    ctx.bias_sizes = None if bias is None else list(bias.shape)
    ctx.has_residual = residual is not None
    ctx.geometry = stride, padding, dilation, groups


def _backward(ctx, grad):
    x, w, y = ctx.saved_tensors
    stride, padding, dilation, groups = ctx.geometry
    if y is not None:
        grad = grad * (y > 0)
    needs = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[2]]
    grad_x, grad_w, grad_bias = torch.ops.aten.convolution_backward(
        grad, x, w, ctx.bias_sizes, list(stride), list(padding), list(dilation), False, [0, 0],
        groups, needs)
    return (grad_x, grad_w, grad_bias, grad if ctx.has_residual else None, *[None] * 6)


_conv2d.register_autograd(_backward, setup_context=_setup_context)


def _pair(value: int | Sequence[int]) -> Sequence[int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def conv2d(x: Tensor, w: Tensor, bias: Optional[Tensor] = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *,
           residual: Optional[Tensor] = None, activation: Optional[str] = None,
           precision: str = "f32") -> Tensor:
    """activation(conv(x, w) + bias + residual), with gradients and for torch.compile.

    x (N, C, H, W), w (K, C/groups, R, S), bias (K,), residual (N, K, P, Q); activation None or
    "relu". Orders in memory, precision and errors: megaconv.conv2d. Under torch.autocast tensors are
    cast to its type. On CUDA it runs on the current stream of x's device. Raises RuntimeError where
    the tensors are on CUDA and megaconv was built without it.
    """
    if activation not in (None, "relu"):
        raise ValueError(f'activation {activation!r}, must be None or "relu"')
    return torch.ops.megaconv.conv2d(x, w, bias, residual, _pair(stride), _pair(padding),
                                     _pair(dilation), groups, activation == "relu", precision)


class Conv2d(nn.Conv2d):
    """nn.Conv2d that megaconv computes: the same constructor, parameters and state_dict."""

    precision = "f32"
    kept_filters: Optional[KeptFilters] = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if reason := _obstacle(self):
            raise NotImplementedError(f"Conv2d: {reason}")

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        batch = input if input.dim() == 4 else input.unsqueeze(0)
        geometry = self.stride, _padding_of(self), self.dilation, self.groups
        y = None
        if self.kept_filters is not None and _may_keep(batch, weight, bias):
            weights = weight.data_ptr(), weight._version
            capturing = batch.is_cuda and torch.cuda.is_current_stream_capturing()
            y = self.kept_filters.conv2d(batch, weight, weights, bias, *geometry, self.precision,
                                         capturing)
        if y is None:
            y = conv2d(batch, weight, bias, *geometry, precision=self.precision)
        return y if input.dim() == 4 else y.squeeze(0)


def _may_keep(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> bool:
    """Whether a run is of numbers alone: nothing is recorded, traced or cast."""
    tensors = [t for t in (x, weight, bias) if t is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return False
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type):
        return False
    return type(x) is Tensor and type(weight) in (Tensor, nn.Parameter)


def _padding_of(module: nn.Conv2d) -> Any:
    if module.padding == "same":
        return tuple(d * (k - 1) // 2 for d, k in zip(module.dilation, module.kernel_size))
    return (0, 0) if module.padding == "valid" else module.padding


def _obstacle(module: nn.Conv2d) -> Optional[str]:
    """Why megaconv cannot compute a module; None when it can."""
    if module.padding_mode != "zeros":
        return f'padding_mode "{module.padding_mode}", must be "zeros"'
    extents = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size)]
    if module.padding == "same" and any(extent % 2 for extent in extents):
        return f'padding "same" of a filter {module.kernel_size}, must be the same on both sides'
    if module.padding not in ("same", "valid"):
        for padding, extent in zip(_padding_of(module), extents):
            if padding > extent + 1:
                return f"padding {padding}, must be at most {extent + 1}, what the filter covers"
    if module.weight.dtype not in _DTYPES:
        return f"weights of {module.weight.dtype}, must be float32, float16 or bfloat16"
    return None


def replace(module: nn.Module, *, precision: str = "f32",
            filters: str = "every_run") -> dict[str, str]:
    """Lets megaconv compute every nn.Conv2d in `module`, in place: parameters, hooks and names stay.

    filters   "prepared": for inference; filters are transformed once for each shape of input, and
              again after optimizer steps and other changes that PyTorch counts, so not through
              `.data`. "every_run": in every run

    Returns the convolutions that it cannot take, by name, each with the reason. Subclasses of
    nn.Conv2d are among these: they may compute something else.
    """
    if filters not in ("every_run", "prepared"):
        raise ValueError(f'filters "{filters}", must be "every_run" or "prepared"')
    left_out = {}
    for name, child in module.named_modules():
        if not isinstance(child, nn.Conv2d) or isinstance(child, Conv2d):
            continue
        if type(child) is not nn.Conv2d:
            left_out[name] = f"of class {type(child).__name__}, must be nn.Conv2d itself"
        elif reason := _obstacle(child):
            left_out[name] = reason
        else:
            child.__class__ = Conv2d
            setattr(child, "precision", precision)
            if filters == "prepared":
                setattr(child, "kept_filters", KeptFilters())
    return left_out


def compile(module: nn.Module, example: Tensor | tuple[Tensor, ...], *, layout: str = "nhwc",
            **options):
    """A module that runs `module` as networks of megaconv: all of it in one launch, where it can.

    example    an input, or a tuple of them, whose shapes and types the result is for
    layout     of values in memory: "nhwc" or "nchw"
    options    of megaconv.NetworkPlan: threads, policy, precision, launch, ...

    torch.export reads the module, as it is in eval(). A graph that it made before,
    `exported.module()`, is taken as it is, for the shapes and the type of the example: export once,
    compile for every batch. What networks do not have, or not where the
    example is, stays PyTorch's; `left_out` of the result names these nodes, each with the reason,
    and `networks` are the plans in between. Weights are copied: train first. With an example on CUDA
    the networks are made for its device, and run on the current stream. Raises what torch.export
    raises, and ValueError for options that no plan can have.
    """
    from megaconv import _torch_network

    return _torch_network.compile(module, example, layout=layout, **options)
