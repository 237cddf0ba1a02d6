"""The forms, built from the options that `tuning.actions` declares: bounds, defaults and choices aren't repeated here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.forms import BoundField
from django.utils.html import format_html, format_html_join
from typing_extensions import TypedDict

from tuning.actions import launching, projects
from tuning.actions.checking import checks
from tuning.actions.launches import templates
from tuning.actions.machines import placing
from tuning.engines.wire.engines import ENGINES, META_SCHEDULE
from tuning.host.devices import HERE, is_remote
from tuning.models import LaunchTemplate, Machine, Network, Run, described
from tuning.reads import device_status, network_list
from tuning.reads.network_list import NetworkDict
from tuning.validation import OptionDict, Type

OPTION = "network_options.{network}.{option}"
"""Field name of a network's option: several networks may have an option of the same name."""
VARIANTS = tuple((f"variant_option_{number}", f"variant_values_{number}") for number in (1, 2, 3))
"""Fields of the options that are varied, and of their values."""
TEMPLATE = "template_name"
"""Field of the name under which the settings are kept."""
PLAIN = ("tuner", "trials_per_batch", "seed")
"""Options that most users set; the others are collapsed."""
VTA_ENGINE = "autotvm"
AS_JSON = "or a target as JSON, such as <code>{&quot;kind&quot;: &quot;llvm&quot;, &quot;mcpu&quot;: &quot;znver4&quot;}</code>."
TARGET = f"<code>this</code> for this machine’s CPU, a tag of TVM such as <code>nvidia/nvidia-a100</code>, {AS_JSON}"
OLDER_TARGET = (
    "<code>this</code> for this machine’s CPU, text as older TVMs write it, such as <code>llvm -mcpu=core-avx2</code>, "
    f"{AS_JSON}"
)


class NetworkChoice(TypedDict):
    """A network in the form, with the fields of its options."""

    network: NetworkDict
    chosen: bool
    fields: list[BoundField]


class LaunchForm(forms.Form):
    """What to tune, for which target, and how. `runs.launch` validates the values; this form shows its errors."""

    network = forms.CharField(required=False)
    name = forms.CharField(label="Name", required=False, help_text="If empty: the network's name and options.")
    target = forms.CharField(
        label="Target",
        initial="this",
        required=False,
        help_text=TARGET,
        widget=forms.TextInput(attrs={"list": "target-tags"}),
    )

    def __init__(self, user: User, data: Mapping[str, Any] | None = None, **more: Any) -> None:
        super().__init__(data, use_required_attribute=False, label_suffix="", **more)
        asked = self.data.get("engine") or self.initial.get("engine")
        self.tunes_with: str = asked if asked in ENGINES and (settings.LEGACY_PYTHON or data) else META_SCHEDULE
        self.engines = list(ENGINES.values()) if settings.LEGACY_PYTHON else []
        self.fields["engine"] = forms.CharField(required=False, initial=self.tunes_with, widget=forms.HiddenInput)
        self.fields["interpreter"] = self._interpreter_field()
        self.tags = not ENGINES[self.tunes_with].legacy
        """Whether a target may be a tag."""
        if not self.tags:
            self.fields["target"].help_text = OLDER_TARGET + self._vta_builds()
        self.projects = [project.name for project in projects.usable(user, projects.LAUNCH)]
        self.fields["project"] = self._project_field()
        self.networks = self._networks(user)
        self.options = launching.tuning_options(self.tunes_with)
        self.fields["network"].initial = self.networks[0]["name"]
        self.fields["device"] = self._device_field()
        self.fleet = list(Machine.objects.all())
        if len(self.fleet) > 1:
            self.fields |= {"machine": _machine_field(self.fleet), "priority": _priority_field()}
            self.fields["machines"] = _machines_field(len(self.fleet))
        for option in (*launching.budget_options(), *self.options):
            self.fields[option["name"]] = _field(option)
        self.fields |= _variant_fields(launching.varied_options(self.tunes_with))
        self.fields[TEMPLATE] = _template_field()
        self.fields["continues"] = forms.CharField(required=False, widget=forms.HiddenInput)
        for network in self.networks:
            for option in network["options"]:
                self.fields[OPTION.format(network=network["name"], option=option["name"])] = _field(option)
        for name, field in self.fields.items():
            field.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "aria-describedby": f"about_{name}"}

    @property
    def held(self) -> Mapping[str, Any]:
        """What was sent, or what the form begins with, by field."""
        if self.is_bound:
            return self.data
        values = {name: self[name].value() for name in self.fields}
        return {name: "" if value is None else value for name, value in values.items()}

    def order(self) -> dict[str, Any]:
        """The input as `runs.launch` takes it."""
        held = self.held
        network = held.get("network", "")
        options = (*launching.budget_options(), *self.options)
        choices = ("project", "engine", "interpreter", "name", "device", "machine", "machines", "priority", "continues")
        return {
            "network": network,
            "target": held.get("target"),
            "network_options": _sent(held, self._option_fields(network)),
            **{name: held.get(name, "") for name in choices},
            **_sent(held, [(option["name"], option["name"]) for option in options]),
        }

    def variants(self) -> dict[str, list[str]]:
        """The values of each option that is varied, as `runs.launch_variants` takes them; empty if none is."""
        found: dict[str, list[str]] = {}
        held = self.held
        for option, values in VARIANTS:
            name, text = held.get(option, ""), held.get(values, "")
            if name or text.strip():
                found.setdefault(name, []).extend(one for part in text.split(",") if (one := part.strip()))
        return found

    def variant_rows(self) -> list[tuple[BoundField, BoundField]]:
        return [(self[option], self[values]) for option, values in VARIANTS]

    def refuse(self, wrong: Mapping[str, str]) -> None:
        """Adds the errors of `runs.launch` to their fields."""
        self.full_clean()
        for name, message in wrong.items():
            field = self.field_of(name)
            if field not in self.fields:
                self.add_error(None, f"{name}: {message}")
                continue
            self.add_error(field, message)
            self.fields[field].widget.attrs["aria-describedby"] = f"{self[field].auto_id}_error about_{field}"

    def field_of(self, name: str) -> str:
        """The field for what `runs.launch` calls so."""
        if name == "variants":
            return VARIANTS[0][1]
        if name == "template":
            return TEMPLATE
        return name.replace("network_options.", f"network_options.{self.data.get('network', '')}.")

    def by_field(self, told: Mapping[str, str]) -> dict[str, str]:
        """What `runs.launch` tells, by the form's own names of its fields."""
        return {self.field_of(name): text for name, text in told.items()}

    def families(self) -> list[tuple[str, list[NetworkChoice]]]:
        """The networks by family, with the bound fields of their options."""
        families = groupby(self.networks, key=itemgetter("family"))
        return [(family, [self._choice(network) for network in networks]) for family, networks in families]

    def about(self) -> str:
        """What the chosen engine is."""
        return ENGINES[self.tunes_with].description

    def plain(self) -> list[BoundField]:
        plain = [option["name"] for option in self.options if option["name"] in PLAIN]
        return [self[name] for name in (*(option["name"] for option in launching.budget_options()), *plain)]

    def advanced(self) -> list[BoundField]:
        return [self[option["name"]] for option in self.options if option["name"] not in PLAIN]

    def advanced_changed(self) -> bool:
        """Whether the folded part holds something that its user entered or must correct."""
        return any(
            field.errors or str(field.value() or "") != str(self.fields[field.name].initial or "")
            for field in self.advanced()
        )

    def _project_field(self) -> forms.Field:
        return forms.CharField(
            label="Project",
            required=False,
            initial=self.projects[0] if self.projects else None,
            widget=forms.Select(choices=[(name, name) for name in self.projects]),
            help_text="Its members see the run.",
        )

    def _vta_builds(self) -> str:
        """How to tune for VTA, if an interpreter can."""
        if self.tunes_with != VTA_ENGINE:
            return ""
        builds = device_status.vta_builds().items()
        told = format_html_join(
            ", ",
            "{} is for <code>{}</code> (<code>{}</code>)",
            [(name, one["target"], one["model"]) for name, one in builds],
        )
        return format_html(" For VTA, <code>ext_dev -device=vta</code>: the build of {}.", told) if told else ""

    def _networks(self, user: User) -> list[NetworkDict]:
        """Those that the project can tune that is chosen."""
        project = self["project"].value()
        return [one for one in network_list.networks(user, self.tunes_with) if one["project"] in (None, project)]

    def _interpreter_field(self) -> forms.Field:
        """Of an engine that runs under another interpreter; the others have none to choose."""
        names = list(settings.LEGACY_PYTHON) if ENGINES[self.tunes_with].legacy else []
        return forms.CharField(
            label="Interpreter",
            required=False,
            initial=names[0] if names else None,
            widget=forms.Select(choices=[(name, name) for name in names]) if names else forms.HiddenInput(),
            help_text="With a TVM that has the engine; the page Machines shows what each can do.",
        )

    def _device_field(self) -> forms.Field:
        """With what was entered among the choices: a tracker may have lost that key meanwhile."""
        given = self.data.get("device") or self.initial.get("device")
        self.devices = list(dict.fromkeys([*device_status.device_choices(), *([given] if given else [])]))
        return forms.CharField(
            label="Measured on",
            required=False,
            initial=self.devices[0],
            widget=forms.Select(choices=[(device, device) for device in self.devices]),
            help_text="A device elsewhere wants its own target: a tag or JSON.",
        )

    def machine_choices(self) -> list[tuple[str, str]]:
        """Names of more machines than a menu can hold, with what each is."""
        return [_of_machine(machine) for machine in self.fleet] if len(self.fleet) > MENU else []

    def numbers_of_machines(self) -> list[str]:
        """Examples of how many machines may measure a run, likewise."""
        return [*(str(2**power) for power in range(1, len(self.fleet).bit_length())), placing.ALL]

    def _choice(self, network: NetworkDict) -> NetworkChoice:
        fields = [self[field] for _, field in self._option_fields(network["name"])]
        return {"network": network, "chosen": self["network"].value() == network["name"], "fields": fields}

    def _option_fields(self, network: str) -> list[tuple[str, str]]:
        options = [option for known in self.networks if known["name"] == network for option in known["options"]]
        return [(option["name"], OPTION.format(network=network, option=option["name"])) for option in options]


def _variant_fields(options: Sequence[OptionDict]) -> dict[str, forms.Field]:
    """For a few options: which, and the values that it takes in turn."""
    menu = [("", "–"), *((option["name"], option["title"]) for option in options)]
    fields: dict[str, forms.Field] = {}
    for number, (option, values) in enumerate(VARIANTS, 1):
        fields[option] = forms.CharField(label=f"Option {number}", required=False, widget=forms.Select(choices=menu))
        fields[values] = forms.CharField(
            label="Values", required=False, widget=forms.TextInput(attrs={"aria-label": f"Values of option {number}"})
        )
    return fields


def _template_field() -> forms.Field:
    return forms.CharField(
        label="Name of the template",
        required=False,
        widget=forms.TextInput(attrs={"maxlength": templates.LONGEST_NAME}),
        help_text="Everybody who launches in the project finds it above. The seed is kept if you enter one; variants aren’t.",
    )


MENU = 20
"""With more machines than this, one types a part of a name and chooses from what has it."""


def _machine_field(machines: Sequence[Machine]) -> forms.Field:
    """For sites with several."""
    menu = forms.Select(choices=[(placing.ANY, "any that fits"), *map(_of_machine, machines)])
    search = forms.TextInput(attrs={"list": "machine-names"})
    few = len(machines) <= MENU
    return forms.CharField(
        label="Machine",
        required=False,
        initial=placing.ANY if few else "",
        widget=menu if few else search,
        help_text=f"{'Any that fits' if few else 'If empty, any that fits'}: the first to be free of those that have the "
        "target’s CPU features and cores. <code>this</code> needs a machine if they aren’t equal.",
    )


def _of_machine(machine: Machine) -> tuple[str, str]:
    return machine.name, described(machine)


def _machines_field(machines: int) -> forms.Field:
    numbers = [(str(number), str(number)) for number in range(1, machines + 1)]
    menu = forms.Select(choices=[*numbers, (placing.ALL, "all equal ones")])
    search = forms.TextInput(attrs={"list": "machine-numbers"})
    few = machines <= MENU
    return forms.CharField(
        label="Machines",
        required=False,
        initial="1" if few else "",
        widget=menu if few else search,
        help_text="How many build and measure its candidates. They must have the same CPU, cores and versions."
        f"{'' if few else ' If empty: one.'}",
    )


def _priority_field() -> forms.Field:
    return forms.CharField(
        label="Priority",
        required=False,
        initial="normal",
        widget=forms.Select(choices=[(name, name) for name in placing.PRIORITIES]),
        help_text="High is for the project’s admins.",
    )


def settings_of(run: Run) -> dict[str, str]:
    """What the launch form holds to launch one of the site's runs again, by field.

    Its name, seed and priority stay its own.
    """
    assert run.network is not None, "the site knows the networks of its own runs"
    values: dict[str, Any] = {
        **values_of_network(run.network),
        "project": run.project.name,
        "engine": run.engine,
        "interpreter": run.interpreter,
        "target": run.target,
        "device": run.device if is_remote(run.device) else HERE,
        "machine": run.chosen_machine.name if run.chosen_machine else placing.ANY,
        "machines": run.machines_wanted or placing.ALL,
        "trials": run.trials_budget,
        "time_limit_s": run.time_limit_s,
        **{name: value for name, value in run.options.items() if name != "seed"},
    }
    return {name: _as_text(value) for name, value in values.items()}


def settings_in(template: LaunchTemplate) -> dict[str, str]:
    """What the launch form holds with the template's settings, by field."""
    kept = dict(template.settings)
    options = _values_of_options(kept["network"], kept.pop("network_options"))
    values = {**kept, **options, "project": template.project.name, TEMPLATE: template.name}
    return {name: _as_text(value) for name, value in values.items()}


def values_of_network(network: Network) -> dict[str, Any]:
    """What chooses a network with its options in the launch form, by field."""
    project = {"project": network.project.name} if network.project else {}
    return {"network": network.name, **project, **_values_of_options(network.name, network.options)}


def _values_of_options(network: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {OPTION.format(network=network, option=name): value for name, value in options.items()}


def _as_text(value: Any) -> str:
    """As a field shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.16g}"
    if isinstance(value, dict):
        return json.dumps(value)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class ExtensionForm(forms.Form):
    """How many more trials or seconds to give a run."""

    def __init__(self) -> None:
        super().__init__(use_required_attribute=False, label_suffix="")
        for option in launching.extension_options():
            self.fields[option["name"]] = _field(option)


class ExtractForm(forms.Form):
    """For which target, and with which options of a built-in network, tasks are extracted."""

    def __init__(self, options: list[OptionDict], data: Mapping[str, Any] | None = None, **more: Any) -> None:
        super().__init__(data, use_required_attribute=False, label_suffix="", **more)
        for option in options:
            self.fields[option["name"]] = _field(option)
        self.fields["target"] = forms.CharField(
            label="Target",
            initial="this",
            required=False,
            help_text=f"{TARGET} The device needn’t exist here.",
        )
        for name, field in self.fields.items():
            field.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "aria-describedby": f"about_{name}"}

    def request(self, network: str) -> dict[str, Any]:
        """The input as `extracting.extract_tasks` takes it."""
        options = _sent(self.data, [(name, name) for name in self.fields if name != "target"])
        return {"network": network, "network_options": options, "target": self.data.get("target")}

    def refuse(self, wrong: Mapping[str, str]) -> None:
        """Adds the errors of `extracting.extract_tasks` to their fields."""
        self.full_clean()
        for field, message in self.by_field(wrong).items():
            self.add_error(field if field in self.fields else None, message)

    def by_field(self, told: Mapping[str, str]) -> dict[str, str]:
        """What `extracting.extract_tasks` tells, by the form's own names of its fields."""
        return {name.removeprefix("network_options."): text for name, text in told.items()}


class CheckForm(forms.Form):
    """What a regression check measures, and when. `checks.create` and `checks.change` validate the values; this form shows their errors."""

    run = forms.CharField(
        label="Run",
        required=False,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "list": "check-runs"}),
        help_text="Its number. It tells network, target, device and engine, and with which options to tune.",
    )
    name = forms.CharField(
        label="Name",
        required=False,
        help_text="Shown by the badge, and known to <code>manage.py check_regression</code>.",
        widget=forms.TextInput(attrs={"maxlength": checks.LONGEST_NAME}),
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, known: bool = False, **more: Any) -> None:
        super().__init__(data, use_required_attribute=False, label_suffix="", **more)
        if known:
            del self.fields["run"]
        for option in checks.plan_options():
            self.fields[option["name"]] = _field(option)
        self.fields["at"] = forms.CharField(
            label="At",
            required=False,
            initial=checks.AT,
            widget=forms.TimeInput(attrs={"type": "time"}),
            help_text=f"In the site’s time zone, {settings.SCHEDULE_ZONE.key}. Missed times count once, as soon as the site is up.",
        )
        for name, field in self.fields.items():
            field.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "aria-describedby": f"about_{name}"}

    def about(self) -> list[BoundField]:
        return [self[name] for name in ("run", "name") if name in self.fields]

    def each_time(self) -> list[BoundField]:
        return [self[name] for name in ("how", "trials", "time_limit_s")]

    def schedule(self) -> list[BoundField]:
        return [self[name] for name in ("every", "at", "weekday")]

    def order(self) -> dict[str, Any]:
        """The input as `checks.create` takes it."""
        return _sent(self.data, [(name, name) for name in self.fields])

    def refuse(self, wrong: Mapping[str, str]) -> None:
        """Adds the errors of `checks.create` to their fields."""
        self.full_clean()
        for name, message in wrong.items():
            if name not in self.fields:
                self.add_error(None, f"{name}: {message}")
                continue
            self.add_error(name, message)
            self.fields[name].widget.attrs["aria-describedby"] = f"{self[name].auto_id}_error about_{name}"


def _sent(data: Mapping[str, Any], fields: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """By option, what its field holds. An emptied one was sent, too: only options that may be null can be empty."""
    return {option: data[field] for option, field in fields if field in data}


def _field(option: OptionDict) -> forms.Field:
    """Always optional text: `tuning.actions` validates, so that form, API and shell agree."""
    return forms.CharField(
        label=option["title"],
        help_text=option["description"],
        initial=_as_text(option["default"]),
        required=False,
        widget=_WIDGETS[option["type"]](option),
    )


def _choice(option: OptionDict) -> forms.Widget:
    return forms.Select(choices=[(choice, choice) for choice in option["choices"] or ()])


def _yes_or_no(_option: OptionDict) -> forms.Widget:
    return forms.Select(choices=[("true", "yes"), ("false", "no")])


def _integers(_option: OptionDict) -> forms.Widget:
    return forms.TextInput(attrs={"inputmode": "numeric"})


def _choices(option: OptionDict) -> forms.Widget:
    return forms.TextInput(attrs={"title": ", ".join(option["choices"] or ())})


def _text(_option: OptionDict) -> forms.Widget:
    return forms.TextInput()


def _number(option: OptionDict) -> forms.Widget:
    bounds = {"min": option["minimum"], "max": option["maximum"]}
    attributes = {name: f"{bound:.16g}" for name, bound in bounds.items() if bound is not None}
    attributes["step"] = "1" if option["type"] == "integer" else "any"
    return forms.NumberInput(attrs=attributes)


_WIDGETS: dict[Type, Callable[[OptionDict], forms.Widget]] = {
    "integer": _number,
    "integers": _integers,
    "number": _number,
    "boolean": _yes_or_no,
    "choice": _choice,
    "choices": _choices,
    "text": _text,
}
