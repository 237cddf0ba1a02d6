"""Writes a program of `torch.export` as an ONNX file: `python -m tuning.engines.pytorch.converting`. See `wire.pytorch.Converting`.

The program is a copy that `oneshot.exported` has checked, and this process is confined and limited all the same.
"""

import importlib
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from . import packages

LONGEST_REASON = 600
UNROLLED = ("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
"""Operators of ATen that become simpler ones, since TVM's ONNX importer has no recurrent ones."""


class Refused(Exception):
    """The program can't be converted; the text says why."""


def main() -> None:
    """Answer on the stdout that this process began with."""
    question = json.loads(sys.stdin.buffer.read())
    say = packages.private_stdout()
    warnings.simplefilter("ignore")
    try:
        versions = packages.imported(say)
        convert(question, say)
    except MemoryError:
        raise
    except Refused as refused:
        say({"type": "refused", "error": str(refused)})
    except packages.Missing as missing:
        say({"type": "refused", "error": f"The interpreter of TUNEBOARD_TORCH_PYTHON isn't complete: {missing}."})
    except Exception as error:
        traceback.print_exc()
        if "allocate memory" in str(error):
            raise MemoryError from error
        say({"type": "refused", "error": f"PyTorch can't convert the program: {_reason(error)}"})
    else:
        say({"type": "converted", "versions": versions})


def convert(question: dict[str, Any], say: packages.Say) -> None:
    """Raises `Refused`, or whatever PyTorch raises."""
    torch = importlib.import_module("torch")
    say({"type": "step", "text": "Reading the program"})
    program = torch.export.load(question["path"])
    say({"type": "step", "text": "Converting it to ONNX"})
    program = program.run_decompositions(_unrolling(torch))
    _check_pure(program.graph_signature)
    made = torch.onnx.export(program, dynamo=True, verbose=False)
    model = made.model_proto
    for one in model.graph.input:
        for extent in one.type.tensor_type.shape.dim:
            if extent.dim_param in question["dims"]:
                extent.dim_param = question["dims"][extent.dim_param]
    say({"type": "step", "text": "Writing the ONNX file"})
    Path(question["to"]).write_bytes(model.SerializeToString())


def _unrolling(torch: Any) -> Any:
    packets = (name.split(".") for name in UNROLLED)
    return importlib.import_module("torch._decomp").get_decompositions(
        [getattr(getattr(torch.ops.aten, name), overload) for name, overload in packets]
    )


def _check_pure(signature: Any) -> None:
    changed: set[str] = {*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()}
    if changed:
        named = ", ".join(sorted(changed)[:5])
        raise Refused(
            f"The program changes {named} whenever it runs, as networks do in training. Export it in evaluation mode: "
            "torch.export.export(model.eval(), (example,))."
        )


def _reason(error: BaseException) -> str:
    """What the first of the errors says, of which the others came, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:LONGEST_REASON] or 'no reason given'}"


if __name__ == "__main__":
    main()
