"""One module of a network's modules for several batches, which has their weights once and takes any batch.

A batch that none of the modules is for is padded with zeros to the next one's, and the outputs are cut. A batch larger than all is computed in pieces.
So an input's samples must not depend on each other, which the outputs tell: see `tuning.engines.oneshot.proving`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tvm import IRModule, relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tuning.engines.wire.compiling import MAIN, entry
from tuning.engines.wire.errors import Refused

Body = Callable[[Any, "list[Any]"], Any]
"""Emits what a function does with so many samples in these inputs, and returns its output."""


def joined(modules: Mapping[int, IRModule]) -> IRModule:
    """Join modules by batch: `main` takes any batch, `entry(batch)` exactly that one. The first one's functions keep their names.

    Raises `Refused` if an input or output has its batch elsewhere than in its first axis.
    """
    samples = _samples(modules)
    builder = relax.BlockBuilder()
    entries = {batch: _added(builder, mod, entry(batch)) for batch, mod in modules.items()}
    _Joining(builder, samples, entries).build()
    return builder.get()


class _Tensor(NamedTuple):
    """An input or output of the network."""

    name: str
    shape: tuple[int, ...]
    """Of the whole tensor, or of one sample if it has several."""
    dtype: str
    has_batch: bool

    def of(self, batch: Any) -> Any:
        """Its type with so many samples."""
        return relax.TensorType((batch, *self.shape) if self.has_batch else self.shape, self.dtype)


class _Samples(NamedTuple):
    inputs: list[_Tensor]
    outputs: list[_Tensor]
    is_tuple: bool
    """Whether the network returns a tuple, even if of one output."""

    def returned(self, batch: Any) -> Any:
        types = [one.of(batch) for one in self.outputs]
        return relax.TupleType(types) if self.is_tuple else types[0]


def _samples(modules: Mapping[int, IRModule]) -> _Samples:
    mains = {batch: mod[MAIN] for batch, mod in modules.items()}
    inputs = [
        _compared(str(params[0].name), {batch: param.ty for batch, param in zip(mains, params, strict=True)})
        for params in zip(*(main.params for main in mains.values()), strict=True)
    ]
    returned = {batch: main.ret_ty for batch, main in mains.items()}
    is_tuple = all(hasattr(ty, "fields") for ty in returned.values())
    parts = zip(*(ty.fields if is_tuple else [ty] for ty in returned.values()), strict=True)
    outputs = [_compared(f"output {nth}", dict(zip(returned, types, strict=True))) for nth, types in enumerate(parts)]
    if without := [one.name for one in outputs if not one.has_batch]:
        raise Refused(
            f"The network can't take any batch: {without[0]} has the same shape for all batches, so its samples aren't computed apart."
        )
    return _Samples(inputs, outputs, is_tuple)


def _compared(name: str, types: Mapping[int, Any]) -> _Tensor:
    """What the types of a tensor have in common. Raises `Refused`."""
    shapes = {batch: tuple(int(extent) for extent in ty.shape) for batch, ty in types.items()}
    dtype = str(next(iter(types.values())).dtype)
    first = next(iter(shapes.values()))
    if all(shape == first for shape in shapes.values()):
        return _Tensor(name, first, dtype, has_batch=False)
    if any(shape[:1] != (batch,) or shape[1:] != first[1:] for batch, shape in shapes.items()):
        listed = ", ".join(f"{'×'.join(map(str, shape))} for batch {batch}" for batch, shape in shapes.items())
        raise Refused(f"The network can't take any batch: the first axis of {name} isn't its batch ({listed}).")
    return _Tensor(name, first[1:], dtype, has_batch=True)


def _added(builder: Any, mod: IRModule, name: str) -> Any:
    """Add the module's functions to those that are built, and return its main function's new variable."""
    renamed = {
        str(var.name_hint): builder.add_func(function, str(var.name_hint))
        for var, function in mod.functions.items()
        if str(var.name_hint) != MAIN
    }
    return builder.add_func(_Renaming(renamed).visit_expr(mod[MAIN]).with_attr("global_symbol", name), name)


@mutator
class _Renaming(PyExprMutator):  # type: ignore[misc]
    """Has a function call others instead of those that were named so."""

    def __init__(self, renamed: Mapping[str, Any]) -> None:
        super().__init__()
        self._renamed = renamed

    def visit_global_var_(self, op: Any) -> Any:
        return self._renamed[str(op.name_hint)]


class _Joining:
    """Builds the functions that take any batch, of those that take just one."""

    def __init__(self, builder: Any, samples: _Samples, entries: Mapping[int, Any]) -> None:
        self._builder = builder
        self._samples = samples
        self._entries = entries

    def build(self) -> None:
        # It calls itself for what the largest batch leaves, so it must be declared before it is defined.
        main = self._function(MAIN, self._exactly(min(self._entries)), private=False)
        chosen = self._function(f"{MAIN}_of_any", self._any(main))
        self._builder.update_func(main, self._builder.get()[chosen].with_attr("global_symbol", MAIN))

    def _any(self, main: Any) -> Body:
        largest = max(self._entries)
        in_pieces = self._function(f"{MAIN}_above_{largest}", self._in_pieces(largest, main))
        ways = [
            (
                batch,
                self._function(f"{MAIN}_of_{batch}", self._exactly(batch)),
                self._function(f"{MAIN}_below_{batch}", self._padded(batch)),
            )
            for batch in sorted(self._entries, reverse=True)
        ]

        def body(batch: Any, given: list[Any]) -> Any:
            chosen = relax.Call(in_pieces, given)
            for size, exactly, below in ways:
                fits = relax.If(batch < size, relax.Call(below, given), chosen)
                chosen = relax.If(batch == size, relax.Call(exactly, given), fits)
            return self._builder.emit(chosen)

        return body

    def _exactly(self, size: int) -> Body:
        def body(batch: Any, given: list[Any]) -> Any:
            fixed = self._of_samples(given, lambda one, tensor: self._builder.match_cast(one, tensor.of(size)))
            found = self._builder.emit(relax.Call(self._entries[size], fixed))
            return self._builder.match_cast(found, self._samples.returned(batch))

        return body

    def _padded(self, size: int) -> Body:
        def padded(given: Any) -> Any:
            def element(nth: Any, *others: Any) -> Any:
                return tirx.if_then_else(nth < given.shape[0], given(nth, *others), tirx.const(0, given.dtype))

            return te.compute((size, *given.shape[1:]), element, name="padded")

        def body(batch: Any, given: list[Any]) -> Any:
            fixed = self._of_samples(given, lambda one, _: self._builder.emit_te(padded, one))
            found = self._builder.emit(relax.Call(self._entries[size], fixed))
            return self._of_outputs(lambda one: self._rows(one, batch), found)

        return body

    def _in_pieces(self, largest: int, main: Any) -> Body:
        def joined(one: Any, other: Any, batch: Any) -> Any:
            def element(nth: Any, *others: Any) -> Any:
                return tirx.if_then_else(nth < largest, one(nth, *others), other(nth - largest, *others))

            return te.compute((batch, *one.shape[1:]), element, name="joined")

        def body(batch: Any, given: list[Any]) -> Any:
            first = self._of_samples(given, lambda one, _: self._rows(one, largest))
            rest = self._of_samples(given, lambda one, _: self._rows(one, batch - largest, skipped=largest))
            found = self._builder.emit(relax.Call(self._entries[largest], first))
            more = self._builder.emit(relax.Call(main, rest))
            return self._of_outputs(lambda one, other: self._builder.emit_te(joined, one, other, batch), found, more)

        return body

    def _rows(self, tensor: Any, number: Any, *, skipped: int = 0) -> Any:
        def rows(given: Any) -> Any:
            return te.compute(
                (number, *given.shape[1:]), lambda nth, *others: given(nth + skipped, *others), name="rows"
            )

        return self._builder.emit_te(rows, tensor)

    def _of_samples(self, given: list[Any], made: Callable[[Any, _Tensor], Any]) -> list[Any]:
        """The inputs, those with a batch made into others."""
        pairs = zip(given, self._samples.inputs, strict=True)
        return [made(one, tensor) if tensor.has_batch else one for one, tensor in pairs]

    def _of_outputs(self, made: Callable[..., Any], *found: Any) -> Any:
        """What is made of each output, returned as the network does."""
        if not self._samples.is_tuple:
            return made(*found)
        outputs = [
            made(*(self._builder.emit(relax.TupleGetItem(one, nth)) for one in found))
            for nth in range(len(self._samples.outputs))
        ]
        return self._builder.emit(relax.Tuple(outputs))

    def _function(self, name: str, body: Body, *, private: bool = True) -> Any:
        batch = tirx.Var("batch", "int64")
        given = [relax.Var(one.name, one.of(batch)) for one in self._samples.inputs]
        with self._builder.function(name, given, private=private):
            self._builder.emit_func_output(body(batch, given))
        return self._builder.get().get_global_var(name)
