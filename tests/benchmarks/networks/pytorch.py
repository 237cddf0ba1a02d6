"""Measures networks of bench_networks by PyTorch on this machine's GPU: `python -m tests.benchmarks.networks.pytorch resnet-18 bert`.

It needs an interpreter that has torch and torchvision, not Tuneboard's. Weights are random, as in the networks that are tuned; their values
don't change how long a GPU takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

import torch
from torch import nn
from torchvision.models import resnet18

ROUNDS = 15
LAP_MS = 100.0
"""How long inferences are measured in a round, about."""


class Bert(nn.Module):  # type: ignore[misc]
    """As `models.bert`."""

    def __init__(self, layers: int = 4, hidden: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, hidden = x.shape
        query, key, value = (
            dense(x).view(batch, tokens, self.heads, -1).transpose(1, 2) for dense in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        x = self.first(x + self.out(attended.transpose(1, 2).reshape(batch, tokens, hidden)))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet-18": (resnet18, (1, 3, 224, 224)),
    "bert": (Bert, (1, 128, 256)),
}


def main(names: list[str]) -> None:
    """Print a line of JSON for each network and type: the median seconds of an inference, by how it is run."""
    _say({"torch": torch.__version__, "gpu": torch.cuda.get_device_name()})
    for name, dtype in product(names, (torch.float32, torch.float16)):
        with torch.inference_mode():
            took = {how: _spread(run) for how, run in _ways(name, dtype).items()}
        _say({"network": name, "dtype": str(dtype), "seconds": took})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _ways(name: str, dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """Float32 without TF32, which rounds as float16 does: TVM's float32 doesn't use tensor cores either."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    make, shape = NETWORKS[name]
    model = make().eval().cuda().to(dtype)
    x = torch.randn(shape, device="cuda", dtype=dtype)
    compiled = torch.compile(model)
    return {
        "eager": lambda: model(x),
        "graph": _captured(lambda: model(x)),
        "compiled, graph": _captured(lambda: compiled(x)),
    }


def _captured(run: Callable[[], Any]) -> Callable[[], Any]:
    """The inference as a CUDA graph, which the CPU launches at once."""
    beside = torch.cuda.Stream()
    with torch.cuda.stream(beside):
        for _ in range(5):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    replay: Callable[[], Any] = graph.replay
    return replay


def _spread(run: Callable[[], Any]) -> list[float]:
    """The median, the least and the most of the rounds."""
    number = max(1, round(LAP_MS / 1e3 / _seconds(run, 10)))
    found = [_seconds(run, number) for _ in range(ROUNDS)]
    return [median(found), min(found), max(found)]


def _seconds(run: Callable[[], Any], number: int) -> float:
    """Of one inference, over so many that are launched one after the other."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(number):
        run()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3 / number


if __name__ == "__main__":
    main(sys.argv[1:] or list(NETWORKS))
