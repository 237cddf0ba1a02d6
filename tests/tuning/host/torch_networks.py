"""Run by an interpreter with PyTorch: saves networks as programs, with inputs and what PyTorch computes of them, in a folder."""

# mypy: disable-error-code="misc"
# PyTorch isn't in our environment, so its classes have no type here.

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """A layer of a transformer, whose batch and length are open."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.project(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, length, width)
        return x + self.feed(x + self.out(mixed))


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(8, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(5, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.last(torch.cat([x, self.up(functional.silu(self.down(x)))], 1))


class Named(nn.Module):
    """Inputs by keyword, constants, buffers and outputs in a dict, without gradients in between."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 0.5))
        self.shift = torch.ones(4)

    def forward(self, target: Any, *, metadata: Any, factor: float = 2.0) -> Any:
        with torch.no_grad():
            scaled = self.layer(target) * self.scale
        return {"name": scaled + self.shift, "type": (metadata * factor, torch.where(target > 0, target, metadata))}


def main(folder: Path) -> None:
    torch.manual_seed(0)
    open_dim = torch.export.Dim
    some = torch.randn
    norm = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.AdaptiveAvgPool2d(1))
    _save(folder / "attention", Attention(), some(2, 16, 32), shapes=({0: open_dim("batch"), 1: open_dim("length")},))
    _save(folder / "lstm", Recurrent("LSTM"), some(1, 5, 8))
    _save(folder / "gru", Recurrent("GRU"), some(1, 5, 8))
    _save(folder / "unet", UNet(), some(2, 1, 16, 16), shapes=({0: open_dim.AUTO, 2: open_dim.AUTO, 3: open_dim.AUTO},))
    _save(folder / "half", norm.half(), some(1, 3, 16, 16).half())
    _save(folder / "named", Named(), some(2, 4), metadata=some(2, 4), factor=3.0)
    _save(folder / "training", nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), some(2, 3, 8, 8), training=True)


def _save(path: Path, module: Any, given: Any, *, shapes: Any = None, training: bool = False, **named: Any) -> None:
    module.train(training)
    program = torch.export.export(module, (given,), named, dynamic_shapes=shapes)
    torch.export.save(program, path.with_suffix(".pt2"))
    outputs = torch.utils._pytree.tree_leaves(module(given, **named))
    tensors = [given, *(one for one in named.values() if isinstance(one, torch.Tensor))]
    found = {f"input{number}": one.numpy() for number, one in enumerate(tensors)}
    found |= {f"output{number}": one.detach().numpy() for number, one in enumerate(outputs)}
    np.savez(path.with_suffix(".npz"), **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
