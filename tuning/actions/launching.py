"""What a launch may ask for, and the check of a whole launch before anything is stored."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Union

import msgspec
from django.conf import settings
from django.contrib.auth.models import User
from msgspec import UNSET, Meta, UnsetType

from tuning.engines.wire.catalog import BUILTIN
from tuning.engines.wire.protocol import Options
from tuning.host import devices, targets
from tuning.models import Network, Project
from tuning.validation import Invalid, OptionDict, convert, gather, options_of

from . import projects

SEEDS = 2**31
NAME_LENGTH = 200
MOST_TRIALS = 1_000_000
LONGEST_S = 1e7


class NetworkChoice(msgspec.Struct):
    """A network, the target that its tasks are extracted for, and the project that has the network or gets the run."""

    network: Annotated[
        str,
        Meta(
            description="A built-in network or an uploaded model, by name; see GET /api/v1/networks.",
            examples=list(BUILTIN),
        ),
    ]
    network_options: Annotated[
        dict[str, Any], Meta(description="The network's own options; see GET /api/v1/networks.")
    ] = {}
    target: Annotated[
        Union[str, dict[str, Any]],
        Meta(description="`this` machine's CPU, one of TVM's tags (`nvidia/nvidia-a100`), or a target as an object."),
    ] = "this"
    project: Annotated[
        str, Meta(description="A project, by name. It can be left out by those who may do this in only one project.")
    ] = ""


class Choice(NetworkChoice):
    """What to tune and where to measure it."""

    device: Annotated[
        str,
        Meta(
            description="Where to measure: `this machine`, or `rpc:TRACKER/KEY` for the devices of a key at an "
            "allowed TVM RPC tracker (see GET /api/v1/devices).",
        ),
    ] = devices.HERE
    name: Annotated[str, Meta(description="By default, the network's name and options.")] | UnsetType = UNSET


class Budget(msgspec.Struct):
    """How much to tune."""

    trials: Annotated[
        int,
        Meta(
            ge=1, le=MOST_TRIALS, title="Trials", description="Candidates to build and measure, in total for all tasks."
        ),
    ] = 64
    time_limit_s: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST_S)] | None,
        Meta(title="Time limit (s)", description="Seconds of tuning after which the run ends. Empty: no limit."),
    ] = None


class Extension(msgspec.Struct):
    """How much more to tune."""

    trials: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TRIALS)] | None, Meta(title="Trials", description="Added to the budget.")
    ] = None
    time_s: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST_S)] | None,
        Meta(title="Time (s)", description="Added to the time limit, if the run has one."),
    ] = None


class NoOptions(msgspec.Struct):
    """The options of an uploaded model: none, since its file and dimensions define it."""


def tuning_options() -> list[OptionDict]:
    return options_of(Options)


def budget_options() -> list[OptionDict]:
    return options_of(Budget)


def extension_options() -> list[OptionDict]:
    return options_of(Extension)


class Launch:
    """A checked launch by a user, or the site itself, with a seed drawn if none was given.

    Raises `Invalid` that names every field at fault.
    """

    def __init__(self, data: Mapping[str, Any], user: User | None) -> None:
        wrong: dict[str, str] = {}
        own = {*Choice.__struct_fields__, *Budget.__struct_fields__}
        self.project = gather(wrong, projects.chosen, data.get("project"), user, projects.LAUNCH)
        self.network = gather(wrong, _network_name, data.get("network"), self.project)
        self.network_options = gather(wrong, _network_options, self.network, data.get("network_options"))
        budget = {name: data.get(name, "") for name in Budget.__struct_fields__}
        self.budget = gather(wrong, convert, Budget, budget)
        self.name = gather(wrong, _name, data.get("name"), self.network, self.network_options)
        self.options = gather(wrong, _options, {key: data[key] for key in data.keys() - own})
        remote = gather(wrong, devices.chosen, data.get("device"))
        if "device" not in wrong:
            self.target = gather(wrong, _target, data.get("target"), remote=remote is not None)
        if not wrong and self.network_options:
            gather(wrong, _check_dtype, self.network_options, self.target)
        if wrong:
            raise Invalid(wrong)
        self.device = remote or self.target["device"]
        self.target_is_guessed = bool(remote) and data.get("target", "") in ("", "this", None)
        """Whether the device is remote, but the target is this machine's."""
        if self.options.seed is None:
            self.options = msgspec.structs.replace(self.options, seed=secrets.randbelow(SEEDS))


def network_choice(data: Mapping[str, Any], user: User | None) -> tuple[str, dict[str, Any], Project | None]:
    """The name and checked options of `network` and `network_options`, and an uploaded model's project. Raises `Invalid`."""
    name = data.get("network")
    project = None if name in BUILTIN else projects.chosen(data.get("project"), user, projects.UPLOAD)
    name = _network_name(name, project)
    return name, _network_options(name, data.get("network_options")), project


def _network_name(name: Any, project: Project | None) -> str:
    """The name of a built-in network or one of the project's models. Raises `Invalid`."""
    if name in (None, ""):
        raise Invalid({"network": "Choose a network."})
    models = Network.objects.uploaded().filter(project=project).values_list("name", flat=True)
    if not isinstance(name, str) or (name not in BUILTIN and name not in models):
        where = f" in the project {project}" if project and models else ""
        raise Invalid(
            {"network": f"There is no network {str(name)[:60]!r}{where}. Known: {', '.join([*BUILTIN, *models])}."}
        )
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
            {
                "network_options.dtype": "The target's CPU has no float16 instructions: "
                "choose another target, or use float32."
            }
        )


def _name(given: Any, network: str | None, options: dict[str, Any]) -> str:
    if given in (None, ""):
        return _default_name(network, options)[:NAME_LENGTH] if network and options is not None else ""
    return run_name(given)


def run_name(given: Any) -> str:
    """A run's name, stripped. Raises `Invalid`."""
    name = given.strip() if isinstance(given, str) else ""
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise Invalid({"name": f"Must be one line of at most {NAME_LENGTH} characters."})
    return name


def _default_name(network: str, options: dict[str, Any]) -> str:
    """The network's name and those of its options that differ from the default."""
    if network not in BUILTIN:
        return network
    defaults = {option["name"]: option["default"] for option in options_of(BUILTIN[network].options)}
    changed = [f"{name}={value}" for name, value in options.items() if value != defaults[name]]
    return " ".join([network, *changed])


def _target(given: Any, *, remote: bool) -> targets.TargetDict:
    resolve = targets.resolve_elsewhere if remote else targets.resolve
    resolved = resolve(targets.asked(given))
    if not remote and resolved["device"] not in settings.DEVICES:
        served = ", ".join(settings.DEVICES)
        raise Invalid(
            {"target": f"It runs on {resolved['device']}, and no worker serves that device. Served: {served}."}
        )
    return resolved
