"""A launch as a person orders it, checked whole before anything is stored."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from django.conf import settings
from msgspec import Meta

from tuning.engines.wire.catalog import BUILTIN
from tuning.engines.wire.protocol import Options
from tuning.host import devices, targets
from tuning.models import Network
from tuning.validation import Invalid, OptionDict, convert, options_of

SEEDS = 2**31
NAME_LENGTH = 200
MOST_TRIALS = 1_000_000
LONGEST_S = 1e7


class Budget(msgspec.Struct):
    """How much to tune."""

    trials: Annotated[
        int,
        Meta(
            ge=1, le=MOST_TRIALS, title="Trials", description="Candidates to build and measure in all, over all tasks."
        ),
    ] = 64
    time_limit_s: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST_S)] | None,
        Meta(title="Time limit (s)", description="Seconds of tuning after which the run ends. Empty: none."),
    ] = None


class Extension(msgspec.Struct):
    """How much more to tune."""

    trials: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TRIALS)] | None, Meta(title="Trials", description="Added to the budget.")
    ] = None
    time_s: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST_S)] | None,
        Meta(title="Time (s)", description="Added to the time limit, for a run that has one."),
    ] = None


def tuning_options() -> list[OptionDict]:
    """How a run can be tuned, besides what and how much."""
    return options_of(Options)


def budget_options() -> list[OptionDict]:
    """How much a run tunes: the number of trials, and for how long at most."""
    return options_of(Budget)


def extension_options() -> list[OptionDict]:
    """How much more a run can be given."""
    return options_of(Extension)


class NoOptions(msgspec.Struct):
    """Those of a model of one's own, whose file and dimensions say it all."""


class Order:
    """A checked launch: `network` and `network_options`, `target`, `device`, `budget`, `name`, and `options` with a seed."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        wrong: dict[str, str] = {}
        own = {"network", "network_options", "target", "device", "name", *Budget.__struct_fields__}
        self.network = _checked(wrong, _network_name, data.get("network"))
        self.network_options = _checked(wrong, _network_options, self.network, data.get("network_options"))
        budget = {name: data.get(name, "") for name in Budget.__struct_fields__}
        self.budget = _checked(wrong, convert, Budget, budget)
        self.name = _checked(wrong, _name, data.get("name"), self.network, self.network_options)
        self.options = _checked(wrong, _options, {key: data[key] for key in data.keys() - own})
        elsewhere = _checked(wrong, devices.chosen, data.get("device"))
        if "device" not in wrong:
            self.target = _checked(wrong, _target, data.get("target"), elsewhere is not None)
        if not wrong and self.network_options:
            _checked(wrong, _check_dtype, self.network_options, self.target)
        if wrong:
            raise Invalid(wrong)
        self.device = elsewhere or self.target["device"]
        self.guessed = bool(elsewhere) and data.get("target", "") in ("", "this", None)
        """Whether the device is another machine's and the target this one's."""
        if self.options.seed is None:
            self.options = msgspec.structs.replace(self.options, seed=secrets.randbelow(SEEDS))


def _checked(wrong: dict[str, str], check: Any, *values: Any) -> Any:
    try:
        return check(*values)
    except Invalid as error:
        wrong.update(error.fields)
        return None


def network_choice(data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and checked options of `network` and `network_options`. Raises `Invalid`."""
    name = _network_name(data.get("network"))
    return name, _network_options(name, data.get("network_options"))


def _network_name(name: Any) -> str:
    if name in (None, ""):
        raise Invalid({"network": "Choose a network."})
    own = Network.objects.uploaded()
    if not isinstance(name, str) or (name not in BUILTIN and not own.filter(name=name).exists()):
        known = ", ".join([*BUILTIN, *own.values_list("name", flat=True)])
        raise Invalid({"network": f"There is no network {str(name)[:60]!r}. Known: {known}."})
    return name


def _network_options(network: str | None, given: Any) -> dict[str, Any]:
    if network is None:
        return {}
    if not isinstance(given, (Mapping, type(None))):
        raise Invalid({"network_options": "Must be an object of option names and values."})
    try:
        known = BUILTIN[network].options if network in BUILTIN else NoOptions
        options: dict[str, Any] = msgspec.to_builtins(convert(known, given or {}))
    except Invalid as error:
        raise Invalid({f"network_options.{name}": message for name, message in error.fields.items()}) from error
    return options


def _options(given: Mapping[str, Any]) -> Options:
    options = convert(Options, given)
    if wrong := options.contradictions():
        raise Invalid(wrong)
    return options


def _check_dtype(network_options: dict[str, Any], target: targets.TargetDict) -> None:
    if network_options.get("dtype") == "float16" and not target.get("float16", True):
        raise Invalid(
            {"network_options.dtype": "The target's CPU has no instruction for float16: name another, or take float32."}
        )


def _name(given: Any, network: str | None, options: dict[str, Any]) -> str:
    if given in (None, ""):
        return _default_name(network, options)[:NAME_LENGTH] if network and options is not None else ""
    return run_name(given)


def run_name(given: Any) -> str:
    """A run's name as its user wrote it. Raises `Invalid`."""
    name = given.strip() if isinstance(given, str) else ""
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise Invalid({"name": f"Must be one line of at most {NAME_LENGTH} characters."})
    return name


def _default_name(network: str, options: dict[str, Any]) -> str:
    """The network, and those of its options that aren't as usual."""
    if network not in BUILTIN:
        return network
    usual = {option["name"]: option["default"] for option in options_of(BUILTIN[network].options)}
    unusual = [f"{name}={value}" for name, value in options.items() if value != usual[name]]
    return " ".join([network, *unusual])


def _target(given: Any, remote: bool) -> targets.TargetDict:  # noqa: FBT001
    resolve = targets.resolve_elsewhere if remote else targets.resolve
    resolved = resolve(targets.asked(given))
    if not remote and resolved["device"] not in settings.DEVICES:
        served = ", ".join(settings.DEVICES)
        raise Invalid({"target": f"It runs on {resolved['device']}, and no worker serves that. Served: {served}."})
    return resolved
