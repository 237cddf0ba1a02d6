"""What a launch may ask for, and the check of a whole launch before anything is stored."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Annotated, Any, Literal, Union

import msgspec
from django.contrib.auth.models import User
from msgspec import UNSET, Meta, UnsetType

from tuning.engines.wire.catalog import BUILTIN
from tuning.engines.wire.engines import ENGINES, META_SCHEDULE, Engine, EngineOptions
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.targets import pairs_of_bfloat16
from tuning.host import devices, interpreters, targets
from tuning.host.older import legacy_tvm, vta
from tuning.models import Machine, Needs, Network, Project, Run
from tuning.validation import Invalid, OptionDict, convert, gather, options_of

from . import projects
from .launches import continuing
from .machines import placing

SEEDS = 2**31
NAME_LENGTH = 200
MOST_TRIALS = 1_000_000
LONGEST_S = 1e7
MOST_VARIANTS = 24
"""Runs that are launched at once."""
SINGLE = ("integer", "number", "boolean", "choice")
"""Types of options of which each value is one word, so that several can be listed."""


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
    """What to tune, with which engine, and where to measure it."""

    engine: Annotated[
        Literal["meta_schedule", "auto_scheduler", "autotvm"],
        Meta(description="What tunes. Each has options, and built-in networks, of its own."),
    ] = "meta_schedule"
    interpreter: Annotated[
        str,
        Meta(
            description="By name, the interpreter with an older TVM that runs auto_scheduler or AutoTVM (see GET /api/v1/devices). "
            "It can be left out if there is only one."
        ),
    ] = ""

    device: Annotated[
        str,
        Meta(
            description="Where to measure: `this machine`, or `rpc:TRACKER/KEY` for the devices of a key at an "
            "allowed TVM RPC tracker (see GET /api/v1/devices).",
        ),
    ] = devices.HERE
    machine: Annotated[
        str,
        Meta(
            description="The machine that tunes, by name (see GET /api/v1/machines), or `any` that fits: whose CPU has what code for "
            "the target needs, and as many cores."
        ),
    ] = placing.ANY
    machines: Annotated[
        Union[int, Literal["all"]],
        Meta(
            description="How many equal machines (CPU, cores, versions) build and measure the run's candidates, or `all` that are. "
            "They join and leave while it is tuned."
        ),
    ] = 1
    priority: Annotated[
        Literal["low", "normal", "high"],
        Meta(description="Runs with a higher one come first. Only the project's admins may choose `high`."),
    ] = "normal"
    name: Annotated[str, Meta(description="By default, the network's name and options.")] | UnsetType = UNSET
    continues: (
        Annotated[
            int,
            Meta(
                description="A run that has ended, by its number: the search begins with all of its trials. It must be of MetaSchedule, "
                "and of the same project, network and target."
            ),
        ]
        | UnsetType
    ) = UNSET


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


def tuning_options(engine: str = META_SCHEDULE) -> list[OptionDict]:
    return options_of(ENGINES[engine].options)


def budget_options() -> list[OptionDict]:
    return options_of(Budget)


def extension_options() -> list[OptionDict]:
    return options_of(Extension)


def varied_options(engine: str = META_SCHEDULE) -> list[OptionDict]:
    """The options that variants may differ in."""
    return [option for option in (*budget_options(), *tuning_options(engine)) if option["type"] in SINGLE]


def variants_of(data: Mapping[str, Any], given: Any, user: User | None) -> list[Launch]:
    """A checked launch for each combination of the values of the options in `given`; the last option's values change fastest.

    They share what isn't varied, also a seed that is drawn. Raises `Invalid`: what is wrong with a combination is told of `variants`,
    and names the combination.
    """
    combinations = _combinations(given, varied_options(engine_of(data.get("engine")).name))
    if data.get("seed") in (None, "") and "seed" not in given:
        data = {**data, "seed": secrets.randbelow(SEEDS)}
    labels = [", ".join(f"{name}={value}" for name, value in one.items()) for one in combinations]
    launches = [_variant(data, one, label, user) for one, label in zip(combinations, labels, strict=True)]
    _check_different(labels, launches)
    return launches


def budgets_of(data: Mapping[str, Any], given: Any) -> list[int]:
    """The trials of each variant, of which nothing else is checked. Raises `Invalid`."""
    combinations = _combinations(given, varied_options(engine_of(data.get("engine")).name))
    return [_budget({**data, **one}).trials for one in combinations]


def _combinations(given: Any, options: list[OptionDict]) -> list[dict[str, Any]]:
    known = [option["name"] for option in options]
    if not isinstance(given, Mapping) or not given:
        raise Invalid({"variants": "Must be an object of options, each with a list of values."})
    for name, values in given.items():
        if name == "":
            raise Invalid({"variants": "Choose which option these values are for."})
        if name not in known:
            raise Invalid({"variants": f"{str(name)[:60]!r} can't be varied. Known: {', '.join(known)}."})
        if not isinstance(values, (list, tuple)) or not values:
            raise Invalid({"variants": f"{name}: enter a list of values."})
    number = prod(len(values) for values in given.values())
    if not 2 <= number <= MOST_VARIANTS:
        raise Invalid({"variants": f"2 to {MOST_VARIANTS} runs can be launched at once, not {number:,}."})
    return [dict(zip(given, values, strict=True)) for values in product(*given.values())]


def _variant(data: Mapping[str, Any], combination: dict[str, Any], label: str, user: User | None) -> Launch:
    try:
        launch = Launch({**data, **combination}, user)
    except Invalid as invalid:
        own = [f"{name}: {text}" for name, text in invalid.fields.items() if name in combination]
        wrong = {name: text for name, text in invalid.fields.items() if name not in combination}
        raise Invalid({**wrong, **({"variants": f"{label}: {' '.join(own)}"} if own else {})}) from invalid
    suffix = f" ({label})"
    launch.name = f"{launch.name[: NAME_LENGTH - len(suffix)]}{suffix}"
    return launch


def _check_different(labels: Sequence[str], launches: Sequence[Launch]) -> None:
    """Values may be written in several ways, such as 1 and 01."""
    found: dict[bytes, str] = {}
    for label, launch in zip(labels, launches, strict=True):
        settings = msgspec.json.encode((launch.budget, launch.options))
        if settings in found:
            raise Invalid({"variants": f"{found[settings]} and {label} are the same run."})
        found[settings] = label


class Launch:
    """A checked launch by a user, or the site itself, with a seed drawn if none was given.

    Raises `Invalid` that names every field at fault.
    """

    def __init__(self, data: Mapping[str, Any], user: User | None) -> None:
        wrong: dict[str, str] = {}
        self.project = gather(wrong, projects.chosen, data.get("project"), user, projects.LAUNCH)
        engine: Engine | None = gather(wrong, engine_of, data.get("engine"))
        if engine is None:
            raise Invalid(wrong)
        self.engine = engine
        self.interpreter = gather(wrong, interpreters.chosen, data.get("interpreter"), engine)
        self.network = gather(wrong, _network_name, data.get("network"), self.project, engine)
        self.network_options = gather(wrong, _network_options, self.network, data.get("network_options"), engine)
        self.budget = gather(wrong, _budget, data)
        self.name = gather(wrong, _name, data.get("name"), self)
        self.options = gather(wrong, _options, engine, data)
        remote = gather(wrong, devices.chosen, data.get("device"))
        self.machine: Machine | None = gather(wrong, placing.chosen, data.get("machine"))
        self.priority = gather(wrong, placing.priority, data.get("priority"), user, self.project)
        self.needs: Needs | None = None
        if not wrong.keys() & {"device", "interpreter", "engine", "machine"}:
            self.target = gather(wrong, self._target, data.get("target"), remote=remote is not None)
        if not wrong and self.network_options:
            gather(wrong, _check_dtype, self.network_options, self.target)
        if not wrong and isinstance(self.options, Options):
            gather(wrong, _check_precision, self.options, self.network_options, self.target)
        if not wrong:
            device = remote or self.target["device"]
            several = partial(placing.several, older=engine.legacy)
            self.machines = gather(wrong, several, data.get("machines"), device, self.machine, self.needs) or 0
            self.continues = gather(wrong, self._continued, data.get("continues"))
        if wrong:
            raise Invalid(wrong)
        self.device = remote or self.target["device"]
        self.target_is_guessed = bool(remote) and data.get("target") in ("this", None)
        """Whether the device is remote, but the target is this machine's."""
        if self.options.seed is None:
            self.options = msgspec.structs.replace(self.options, seed=secrets.randbelow(SEEDS))

    def _target(self, given: Any, *, remote: bool) -> targets.TargetDict:
        asked = targets.asked(given)
        if self.engine.legacy:
            return self._older(asked, remote=remote)
        if remote:
            placing.check_reaches_trackers(self.machine)
            return targets.resolve_elsewhere(asked)
        resolved, self.needs = placing.place(asked, self.machine)
        return resolved

    def _older(self, asked: str | dict[str, Any], *, remote: bool) -> targets.TargetDict:
        """Interpreters with an older TVM are this machine's, and so their runs are, too. Raises `Invalid`."""
        self.machine = placing.only_here(self.machine)
        resolved = self._resolved(asked, remote=remote)
        if not remote:
            placing.check_served(resolved)
        return resolved

    def _resolved(self, asked: str | dict[str, Any], *, remote: bool) -> targets.TargetDict:
        found = legacy_tvm.probed(self.interpreter, self.engine)
        if remote and not found.rpc:
            raise Invalid({"device": f"TVM {found.tvm} was built without RPC."})
        if self.network is not None and self.options is not None:
            legacy_tvm.check(found, self.engine, self.options, self._network_kind())
        resolved = legacy_tvm.resolve(asked, found, remote=remote)
        if self.options is not None:
            vta.check(resolved["target"], found, self.engine, self.options, self.network_options or {})
        return resolved

    def _continued(self, given: Any) -> Run | None:
        run = continuing.chosen(given, self.project)
        if run is not None:
            continuing.check(run, self.engine.name, self.known_network(), self.target)
        return run

    def known_network(self) -> Network | None:
        """Its network's row, if there is one yet."""
        return Network.objects.named(self.network, self.network_options, self.project)

    def _network_kind(self) -> str:
        if self.network in self.engine.networks:
            return "builtin"
        return Network.objects.get(project=self.project, name=self.network).kind


OWN = {*Choice.__struct_fields__, *Budget.__struct_fields__}
"""The fields of a launch that aren't options of its engine."""


def engine_of(given: Any) -> Engine:
    """The engine of this name, by default MetaSchedule. Raises `Invalid`."""
    name = META_SCHEDULE if given in (None, "") else given
    if not isinstance(name, str) or name not in ENGINES:
        raise Invalid({"engine": f"There is no engine {str(name)[:60]!r}. Known: {', '.join(ENGINES)}."})
    return ENGINES[name]


def network_choice(data: Mapping[str, Any], user: User | None) -> tuple[str, dict[str, Any], Project | None]:
    """The name and checked options of `network` and `network_options`, and an uploaded model's project. Raises `Invalid`."""
    name = data.get("network")
    project = None if name in BUILTIN else projects.chosen(data.get("project"), user, projects.UPLOAD)
    name = _network_name(name, project)
    return name, _network_options(name, data.get("network_options")), project


def network_of(data: Mapping[str, Any], project: Project, engine: Engine) -> tuple[str, dict[str, Any]]:
    """The name and checked options of the network that a launch names. Raises `Invalid`."""
    name = _network_name(data.get("network"), project, engine)
    return name, _network_options(name, data.get("network_options"), engine)


def _network_name(name: Any, project: Project | None, engine: Engine = ENGINES[META_SCHEDULE]) -> str:
    """The name of one of the engine's networks or of the project's models. Raises `Invalid`."""
    if name in (None, ""):
        raise Invalid({"network": "Choose a network."})
    models = Network.objects.uploaded().filter(project=project).values_list("name", flat=True)
    if not isinstance(name, str) or (name not in engine.networks and name not in models):
        where = f" in the project {project}" if project and models else ""
        raise Invalid(
            {
                "network": f"There is no network {str(name)[:60]!r}{where}. Known: {', '.join([*engine.networks, *models])}."
            }
        )
    return name


def _network_options(network: str | None, given: Any, engine: Engine = ENGINES[META_SCHEDULE]) -> dict[str, Any]:
    if network is None:
        return {}
    if not isinstance(given, (Mapping, type(None))):
        raise Invalid({"network_options": "Must be an object of option names and values."})
    try:
        known = engine.networks[network].options if network in engine.networks else NoOptions
        options: dict[str, Any] = msgspec.to_builtins(convert(known, given or {}))
    except Invalid as error:
        raise Invalid({f"network_options.{name}": message for name, message in error.fields.items()}) from error
    return options


def settings_of(data: Mapping[str, Any], engine: Engine) -> tuple[Budget, EngineOptions]:
    """The checked budget and options of a launch. Raises `Invalid`."""
    return _budget(data), _options(engine, data)


def _budget(data: Mapping[str, Any]) -> Budget:
    return convert(Budget, {name: data[name] for name in Budget.__struct_fields__ if name in data})


def _options(engine: Engine, data: Mapping[str, Any]) -> EngineOptions:
    options = convert(engine.options, {name: data[name] for name in data.keys() - OWN})
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


def _check_precision(options: Options, network_options: dict[str, Any], target: targets.TargetDict) -> None:
    if options.precision == "network":
        return
    if network_options.get("dtype", "float32") != "float32":
        raise Invalid(
            {
                "precision": "The network itself computes in float16: choose float32 for it, or compute as in the network."
            }
        )
    needs = target.get("needs")
    if needs is not None and isinstance(reason := pairs_of_bfloat16(needs), str):
        raise Invalid({"precision": reason})


def _name(given: Any, launch: Launch) -> str:
    if given in (None, ""):
        return _default_name(launch)[:NAME_LENGTH] if launch.network and launch.network_options is not None else ""
    return run_name(given)


def run_name(given: Any) -> str:
    """A run's name, stripped. Raises `Invalid`."""
    name = given.strip() if isinstance(given, str) else ""
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise Invalid({"name": f"Must be one line of at most {NAME_LENGTH} characters."})
    return name


def _default_name(launch: Launch) -> str:
    """The network's name and those of its options that differ from the default."""
    network, known = launch.network, launch.engine.networks
    if network not in known:
        return str(network)
    defaults = {option["name"]: option["default"] for option in options_of(known[network].options)}
    changed = [f"{name}={value}" for name, value in launch.network_options.items() if value != defaults[name]]
    return " ".join([network, *changed])
