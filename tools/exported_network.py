# SPDX-License-Identifier: Apache-2.0
"""A network that `megaconv net export` wrote: its description and weights, and a PyTorch module."""
import json
import operator
import os
import subprocess
import sys
import tempfile


def read_network(path):
    """The description of a network, and its weights by name."""
    import numpy
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    network = json.loads(header.pop("__metadata__")["megaconv_network"])
    weights = {name: numpy.frombuffer(data[slice(*tensor["data_offsets"])], "<f4")
               for name, tensor in header.items()}
    return network, weights


def give_up(what):
    """Ends the program as its users are told: one line, and exit status 2."""
    print(f"{os.path.basename(sys.argv[0])}: {what}", file=sys.stderr)
    sys.exit(2)


def call(line):
    """What a command prints; gives up where it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True)
    except OSError as error:
        give_up(f"{line[0]}: {error.strerror}")
    if done.returncode != 0:
        give_up(f"{' '.join(line)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def type_options(backend, dtype):
    """What tells `megaconv net` a type: of floats on a GPU it is the precision of products."""
    options = ["--backend", backend, "--dtype", "f32" if dtype == "tf32" else dtype]
    if backend == "cuda" and dtype in ("f32", "tf32"):
        options += ["--precision", dtype]
    return options


def export(megaconv, name):
    """What read_network() says of a built-in network or a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "network.safetensors")
        call([megaconv, "net", "export", name, "-o", path])
        return read_network(path)


def module_of(torch, network, weights):
    """The network as a module of PyTorch, operator by operator, for inference. Of rearrangements it
    has nearest upsampling alone: others end the program."""
    nn = torch.nn
    root, graph = nn.Module(), torch.fx.Graph()
    values = {value["name"]: graph.placeholder(value["name"]) for value in network["inputs"]}

    def tensor(op, field, shape=(-1,)):
        found = weights.get(f"{op['name']}.{field}")
        return None if found is None else torch.from_numpy(found.copy()).reshape(shape)

    def convolution(op):
        w = tensor(op, "w", (op["k"], -1, op["r"], op["s"]))
        conv = nn.Conv2d(w.shape[1] * op["groups"], op["k"], w.shape[2:],
                         (op["stride_h"], op["stride_w"]), (op["pad_h"], op["pad_w"]),
                         (op["dilation_h"], op["dilation_w"]), op["groups"],
                         bias=f"{op['name']}.bias" in weights)
        return with_numbers(conv, w, tensor(op, "bias"))

    def fully_connected(op):
        w = tensor(op, "w", (op["k"], -1))
        linear = nn.Linear(w.shape[1], op["k"], bias=f"{op['name']}.bias" in weights)
        return nn.Sequential(nn.Flatten(), with_numbers(linear, w, tensor(op, "bias")))

    def with_numbers(module, weight, bias):
        module.weight.data = weight
        if bias is not None:
            module.bias.data = bias
        return module

    def batch_norm(op):
        norm = nn.BatchNorm2d(tensor(op, "gamma").numel(), eps=op["epsilon"])
        norm.running_mean, norm.running_var = tensor(op, "mean"), tensor(op, "variance")
        return with_numbers(norm, tensor(op, "gamma"), tensor(op, "beta"))

    def clamp(op):
        least, most = float(op["least"]), float(op["most"])
        return nn.ReLU() if (least, most) == (0, float("inf")) else nn.Hardtanh(least, most)

    def pooling(op):
        window, stride = (op["r"], op["s"]), (op["stride_h"], op["stride_w"])
        pad = (op["pad_h"], op["pad_w"])
        if op["mode"] == "max":
            return nn.MaxPool2d(window, stride, pad)
        return nn.AvgPool2d(window, stride, pad, count_include_pad=False)

    def pixelwise(op):
        made = {"leaky_relu": lambda: nn.LeakyReLU(op["alpha"]), "sigmoid": nn.Sigmoid,
                "hard_swish": nn.Hardswish, "hard_sigmoid": nn.Hardsigmoid,
                "tanh": nn.Tanh}.get(op["function"])
        return made() if made else refuse(op, op["function"])

    def rearrangement(op):
        moved = [op[key] for key in ("left", "right", "top", "bottom", "channels", "first_channel")]
        if any(moved) or op["groups"] != 1:
            refuse(op, "a rearrangement that is no upsampling")
        return nn.Upsample(scale_factor=(op["repeat_h"], op["repeat_w"]), mode="nearest")

    def refuse(op, what):
        give_up(f'{op["name"]}: {what}, of which there is no module here')

    modules = {"convolution": convolution, "fully_connected": fully_connected,
               "batch_norm": batch_norm, "clamp": clamp, "pooling": pooling,
               "global_average_pooling": lambda op: nn.AdaptiveAvgPool2d(1),
               "pixelwise": pixelwise, "rearrangement": rearrangement}
    for i, op in enumerate(network["operators"]):
        reads = tuple(values[name] for name in op["reads"])
        if op["does"] == "add":
            value = graph.call_function(operator.add, reads)
        elif op["does"] == "concatenation":
            value = graph.call_function(torch.cat, (list(reads), 1))
        else:
            root.add_module(f"op{i}", modules[op["does"]](op))
            value = graph.call_module(f"op{i}", reads)
        if op.get("relu"):
            root.add_module(f"op{i}relu", nn.ReLU())
            value = graph.call_module(f"op{i}relu", (value,))
        values[op["name"]] = value
    outputs = [values[name] for name in network["outputs"]]
    graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
    return torch.fx.GraphModule(root, graph)
