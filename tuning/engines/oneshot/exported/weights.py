"""The weights and constants of a program, and where their bytes are in the archive."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tuning.engines.wire.errors import Refused

from .archive import HOW
from .program import CPU, check_attribute, check_expression

FILES = {"weights": re.compile(r"weight_\d+"), "constants": re.compile(r"tensor_\d+")}


class Tensor(msgspec.Struct):
    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: dict[str, Any] | None


class Config(msgspec.Struct):
    """What `model_weights_config.json` has."""

    config: dict[str, Tensor]


def checked(config: dict[str, Any], kind: str) -> tuple[dict[str, Any], list[str]]:
    """The configuration with all tensors on the CPU, and the names of their files. Raises `Refused`, or msgspec's error."""
    tensors = msgspec.convert(config, Config).config
    for name, tensor in tensors.items():
        check_attribute(name)
        if tensor.use_pickle or tensor.tensor_meta is None:
            raise Refused(
                f"{name[:200]} is pickled, as tensors of classes of their own are, and no pickle is ever read here. "
                f"Make it a plain tensor before {HOW}."
            )
        if not FILES[kind].fullmatch(tensor.path_name):
            raise Refused(f"{name[:200]} is in a file that isn't one of {kind}: {tensor.path_name[:200]}.")
        tensor.tensor_meta["device"] = CPU
        _check_sizes(tensor.tensor_meta)
    return msgspec.to_builtins(Config(tensors)), list(dict.fromkeys(one.path_name for one in tensors.values()))


def _check_sizes(meta: dict[str, Any]) -> None:
    for extent in (*meta["sizes"], *meta["strides"], meta["storage_offset"]):
        if "as_expr" in extent:
            check_expression(extent["as_expr"]["expr_str"])
