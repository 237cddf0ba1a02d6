"""The devices of this machine and of trackers: what uses them, what waits, how busy trackers were, and what older TVMs there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.engines.wire import tracker
from tuning.engines.wire.legacy import Probed, Vta
from tuning.engines.wire.pytorch import TorchProbed
from tuning.engines.wire.tracker import Address, Queue, TrackerError
from tuning.host import interpreters, pytorch
from tuning.host.devices import HERE, REMOTE
from tuning.host.interpreters import Asked
from tuning.models import Compilation, Run, SideBySide, TrackerSample

ASK_S = 1.0
"""Timeout for a tracker's answer, since a page waits for it."""

SAMPLED_EVERY = timedelta(seconds=15)
GAP = 2 * SAMPLED_EVERY
"""Samples farther apart than this have a gap between them."""


ELSEWHERE = "a run of another project"


class RunOnDevice(TypedDict):
    """A run that uses a device or waits for it; without its id and name for whoever isn't in its project."""

    id: int | None
    name: str
    status: str


class ProofOnDevice(TypedDict):
    """A compilation that is verified and benchmarked on a device, or waits for it; `run` is its run's name.

    Without the id and name for whoever isn't in its project.
    """

    id: int | None
    run: str
    status: str


class BesideOnDevice(TypedDict):
    """Runs whose best records are measured side by side on a device, or wait for it.

    Without the id and the runs' for whoever isn't in the project of each.
    """

    id: int | None
    runs: list[int]
    status: str


class DeviceDict(TypedDict):
    """A device; `runs`, `proofs` and `side_by_sides` use it, and what is `queued` waits for it in this order."""

    device: str
    runs: list[RunOnDevice]
    queued: list[RunOnDevice]
    proofs: list[ProofOnDevice]
    queued_proofs: list[ProofOnDevice]
    side_by_sides: list[BesideOnDevice]
    queued_side_by_sides: list[BesideOnDevice]


class KeyDict(DeviceDict):
    """The devices of one key at a tracker; the counts are None if the tracker doesn't list the key or doesn't answer."""

    key: str
    total: int | None
    free: int | None
    pending: int | None


class HistoryDict(TypedDict):
    """A key's devices, devices in use and waiting requests at the times of `at`; None where nothing was recorded."""

    key: str
    total: list[int | None]
    in_use: list[int | None]
    pending: list[int | None]


class TrackerDict(TypedDict):
    """An allowed tracker; `error` says why it isn't reachable, `error_since` since when as far as that was recorded."""

    name: str
    address: str
    error: str | None
    error_since: str | None
    keys: list[KeyDict]
    at: list[str]
    """Times of the last hour's samples and gaps, ISO 8601."""
    history: list[HistoryDict]


class VtaDict(TypedDict):
    """A VTA build that an interpreter can import: TARGET and MODEL of its environment.

    `trouble` is why its simulator doesn't work; `bitstreams` are those in its cache that a board can be programmed with.
    """

    target: str
    model: str
    trouble: str | None
    bitstreams: list[str]


class InterpreterDict(TypedDict):
    """An interpreter with an older TVM. Before it has answered, and if it can't (`error`), `tvm` is None and the rest empty.

    `engines` and `targets` have None for what works, else the reason. So do `xgboost`, `relay_testing` and `onnx`.
    """

    name: str
    error: str | None
    tvm: str | None
    versions: dict[str, str]
    engines: dict[str, str | None]
    tuners: list[str]
    targets: dict[str, str | None]
    xgboost: str | None
    relay_testing: str | None
    onnx: str | None
    rpc: bool | None
    vta: VtaDict | None


class TorchDict(TypedDict):
    """The interpreter with PyTorch. Before it has answered, and if it can't (`error`), `versions` is empty."""

    error: str | None
    versions: dict[str, str]


class BesideDict(TypedDict):
    """`torch` is None if no interpreter with PyTorch is named."""

    trackers: list[TrackerDict]
    interpreters: list[InterpreterDict]
    torch: TorchDict | None


class DevicesDict(BesideDict):
    local: list[DeviceDict]


def devices(user: User | None) -> DevicesDict:
    """All devices and their current state, as far as it is the user's to know; asks each tracker."""
    work = _work(user)
    return {"local": [_device(name, work) for name in _local(work)], **_beside(work)}


def beside_machines(user: User | None) -> BesideDict:
    """Only what belongs to no machine: trackers, each of which is asked, and interpreters."""
    return _beside(_work(user, f"{REMOTE}:") if settings.TRACKERS else _Work([], [], [], set()))


def _beside(work: _Work) -> BesideDict:
    return {
        "trackers": [_tracker(name, address, work) for name, address in settings.TRACKERS.items()],
        "interpreters": [_interpreter(name, interpreters.look(name)) for name in settings.LEGACY_PYTHON],
        "torch": _torch(pytorch.look()),
    }


def _torch(asked: Asked[TorchProbed] | None) -> TorchDict | None:
    if asked is None:
        return None
    return {"error": asked.error, "versions": asked.found.versions if asked.found else {}}


def _interpreter(name: str, asked: Asked[Probed]) -> InterpreterDict:
    found = asked.found
    return {
        "name": name,
        "error": asked.error,
        "tvm": found.tvm if found else None,
        "versions": found.versions if found else {},
        "engines": {str(engine): why for engine, why in found.engines.items()} if found else {},
        "tuners": found.tuners if found else [],
        "targets": found.targets if found else {},
        "xgboost": found.xgboost if found else None,
        "relay_testing": found.relay_testing if found else None,
        "onnx": found.onnx if found else None,
        "rpc": found.rpc if found else None,
        "vta": _vta(found.vta) if found and found.vta else None,
    }


def _vta(build: Vta) -> VtaDict:
    return {
        "target": build.target,
        "model": build.model,
        "trouble": build.trouble,
        "bitstreams": build.bitstreams,
    }


def vta_builds() -> dict[str, VtaDict]:
    """VTA builds by the name of their interpreter, as far as these have answered."""
    looked = {name: interpreters.look(name).found for name in settings.LEGACY_PYTHON}
    return {name: _vta(found.vta) for name, found in looked.items() if found and found.vta}


def choices() -> list[str]:
    """The remote devices that a launch can choose, as last recorded."""
    latest = {name: TrackerSample.objects.recent(name).last() for name in settings.TRACKERS}
    return [
        f"{REMOTE}:{name}/{key}"
        for name, last in latest.items()
        if last
        for key, queue in last.queues.items()
        if queue["total"]
    ]


def device_choices() -> list[str]:
    """All devices that a launch can choose."""
    return [HERE, *choices()]


class _Work(NamedTuple):
    """What uses devices or waits for them, in queue order, and the keys of the runs that the user sees."""

    runs: list[Run]
    proofs: list[Compilation]
    side_by_sides: list[SideBySide]
    seen: set[int]

    @property
    def devices(self) -> set[str]:
        return (
            {one.device for one in self.runs}
            | {one.device for one in self.proofs}
            | {one.device for one in self.side_by_sides}
        )


def _work(user: User | None, device: str = "") -> _Work:
    """On all devices whose name begins like this."""
    order = ("queued_at", "pk")
    busy = Run.objects.filter(status__in=(Run.Status.QUEUED, *Run.LIVE))
    runs = list(busy.filter(device__startswith=device).order_by(*order))
    proving = Compilation.objects.on_device().filter(run__device__startswith=device)
    proofs = list(proving.select_related("run").order_by(*order))
    beside = list(SideBySide.objects.unfinished().filter(device__startswith=device).order_by(*order))
    keys = (
        {run.pk for run in runs} | {proof.run_id for proof in proofs} | {key for one in beside for key in one.run_keys}
    )
    seen = set(Run.objects.seen_by(user).filter(pk__in=keys).values_list("pk", flat=True))
    return _Work(runs, proofs, beside, seen)


def _local(work: _Work) -> list[str]:
    """Devices that a worker serves, and those that are used although none does."""
    used = sorted(work.devices - set(settings.DEVICES))
    return [*settings.DEVICES, *(name for name in used if not name.startswith(f"{REMOTE}:"))]


def _device(name: str, work: _Work) -> DeviceDict:
    runs = [run for run in work.runs if run.device == name]
    proofs = [proof for proof in work.proofs if proof.device == name]
    beside = [one for one in work.side_by_sides if one.device == name]
    return {
        "device": name,
        "runs": [_run(run, work) for run in runs if run.is_live],
        "queued": [_run(run, work) for run in runs if not run.is_live],
        "proofs": [_proof(proof, work) for proof in proofs if proof.is_live],
        "queued_proofs": [_proof(proof, work) for proof in proofs if not proof.is_live],
        "side_by_sides": [_side_by_side(one, work) for one in beside if one.is_live],
        "queued_side_by_sides": [_side_by_side(one, work) for one in beside if not one.is_live],
    }


def _run(run: Run, work: _Work) -> RunOnDevice:
    if run.pk not in work.seen:
        return {"id": None, "name": ELSEWHERE, "status": run.status}
    return {"id": run.pk, "name": run.name, "status": run.status}


def _proof(compilation: Compilation, work: _Work) -> ProofOnDevice:
    if compilation.run_id not in work.seen:
        return {"id": None, "run": ELSEWHERE, "status": compilation.status}
    return {"id": compilation.pk, "run": compilation.run.name, "status": compilation.status}


def _side_by_side(row: SideBySide, work: _Work) -> BesideOnDevice:
    seen = work.seen.issuperset(row.run_keys)
    return {"id": row.pk if seen else None, "runs": row.run_keys if seen else [], "status": row.status}


def asked(address: Address) -> tuple[list[Queue], str | None]:
    """A tracker's queues, or why it doesn't answer."""
    try:
        return tracker.summary(address, ASK_S).queues, None
    except TrackerError as trouble:
        return [], str(trouble)


def _tracker(name: str, address: Address, work: _Work) -> TrackerDict:
    queues, error = asked(address)
    samples = list(TrackerSample.objects.recent(name))
    shown = list(_with_gaps(samples))
    prefix = f"{REMOTE}:{name}/"
    used = {device.removeprefix(prefix) for device in work.devices if device.startswith(prefix)}
    known = {queue.key: queue for queue in queues}
    recorded = sorted({key for one in samples for key in one.queues})
    return {
        "name": name,
        "address": str(address),
        "error": error,
        "error_since": _since(samples).isoformat() if error and samples and samples[-1].error else None,
        "keys": [_key(prefix, key, known.get(key), work) for key in sorted(used | known.keys())],
        "at": [one.at.isoformat() for one in shown],
        "history": [_history(key, shown) for key in recorded],
    }


def _with_gaps(samples: list[TrackerSample]) -> Iterator[TrackerSample]:
    """The samples, with a failed one added in every gap."""
    for earlier, one in zip([None, *samples], samples, strict=False):
        if earlier and one.at - earlier.at > GAP:
            yield TrackerSample(at=earlier.at + SAMPLED_EVERY, error="not recorded")
        yield one


def _key(prefix: str, key: str, queue: Queue | None, work: _Work) -> KeyDict:
    return {
        **_device(prefix + key, work),
        "key": key,
        "total": queue.total if queue else None,
        "free": queue.free if queue else None,
        "pending": queue.pending if queue else None,
    }


def _since(samples: list[TrackerSample]) -> datetime:
    """When the failures at the end of the samples began."""
    first = samples[-1].at
    for one in reversed(samples):
        if not one.error:
            break
        first = one.at
    return first


def _history(key: str, samples: list[TrackerSample]) -> HistoryDict:
    """If a tracker has answered without naming the key, the key has no devices."""
    none = {"total": 0, "free": 0, "pending": 0}
    queues: list[dict[str, Any] | None] = [None if one.error else one.queues.get(key, none) for one in samples]
    return {
        "key": key,
        "total": [queue["total"] if queue else None for queue in queues],
        "in_use": [max(0, queue["total"] - queue["free"]) if queue else None for queue in queues],
        "pending": [queue["pending"] if queue else None for queue in queues],
    }
