"""Whether a tuned library computes what the untuned one does, for each batch that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from tuning.engines.proof.outputs import Verdict, compared, drawn, excess
from tuning.engines.wire.compiling import Prove, Quantized
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import NetworkSpec, TensorInfo

Given = dict[str, Any]
"""An inference's inputs by name: numpy arrays."""


def cases_of(question: Prove, manifest: dict[str, Any]) -> dict[int | None, tuple[NetworkSpec, Given]]:
    """The network and its inputs for each batch, of which smaller ones are the first samples of the largest; the run's own first.

    A library that takes one batch only has None for it.
    """
    if question.batch is None:
        inputs = msgspec.convert(manifest["inputs"], list[TensorInfo])
        return {None: (question.network, _drawn(inputs, question.seed))}
    shapes = {one["batch"]: msgspec.convert(one["inputs"], list[TensorInfo]) for one in manifest["batches"]}
    most = _drawn(shapes[max(shapes)], question.seed)
    given = {
        batch: {one.name: most[one.name][: one.shape[0]] if one.shape else most[one.name] for one in inputs}
        for batch, inputs in shapes.items()
    }
    networks = {question.batch: question.network, **question.others}
    return {batch: (network, given[batch]) for batch, network in networks.items()}


def _drawn(inputs: list[TensorInfo], seed: int) -> Given:
    return drawn(((one.name, one.shape, one.dtype) for one in inputs), seed)


class Inference(Protocol):
    def outputs(self) -> list[Any]:
        """Numpy arrays."""
        ...


class Library(Protocol):
    def on(self, given: Given, /) -> Inference: ...


class Judge:
    """Compares what the two libraries compute."""

    def __init__(self, tuned: Library, untuned: Library, question: Prove, quantized: Quantized | None) -> None:
        self._tuned = tuned
        self._untuned = untuned
        self._computed_in = None if question.precision == "network" else question.precision
        self.quantized = quantized

    def verdicts(self, given: Mapping[int | None, Given]) -> list[Verdict]:
        """One for each batch; of several batches, also one on those that are padded or computed in pieces.

        Raises `Refused` if the samples of a batch depend on each other, so that none may be padded.
        """
        wanted = {batch: self._untuned.on(one).outputs() for batch, one in given.items()}
        found = [self._compared(self._tuned.on(one).outputs(), wanted[batch]) for batch, one in given.items()]
        return [*found, self._on_others(given, wanted)] if len(given) > 1 else found

    def _on_others(self, given: Mapping[int | None, Given], wanted: Mapping[int | None, list[Any]]) -> Verdict:
        """Compared with the same samples of the untuned library's largest batch."""
        batches = sorted(batch for batch in given if batch is not None)
        smallest, largest = given[batches[0]], given[batches[-1]]
        samples = wanted[batches[-1]]
        for batch in batches[:-1]:
            if not compared(wanted[batch], [output[:batch] for output in samples]).right:
                raise Refused(
                    f"The outputs of a batch of {batch} differ from those of the same samples in a batch of {batches[-1]}. So the network's samples "
                    "depend on each other, and no batch can be padded or computed in pieces. Compile each batch alone."
                )
        found = []
        for batch in {*(batch - 1 for batch in batches), batches[-1] + 1} - {0}:
            asked = {
                name: array if array.shape == smallest[name].shape else np.resize(array, (batch, *array.shape[1:]))
                for name, array in largest.items()
            }
            expected = [np.resize(output, (batch, *output.shape[1:])) for output in samples]
            found.append(self._compared(self._tuned.on(asked).outputs(), expected))
        return max(found, key=excess)

    def _compared(self, outputs: list[Any], wanted: list[Any]) -> Verdict:
        return compared(outputs, wanted, self._computed_in, self._steps)

    @property
    def _steps(self) -> list[float | None] | None:
        return self.quantized.steps if self.quantized else None
