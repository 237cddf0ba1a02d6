"""`manage.py add_network FILE`: add a model, as uploading does."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.management import CommandError

from dashboard.accounts import UPLOAD
from tuning.actions import projects
from tuning.actions.networks import uploading
from tuning.management.migrated import MigratedCommand
from tuning.models import Network, Project
from tuning.validation import Invalid
from tuning.wording import listed

_OPTION = {"float_model": "--float-model"}


class Command(MigratedCommand):
    """Exit status 2 if the file or an option is invalid; then nothing is stored."""

    help = "Add a model to tune: an ONNX file, a program saved by torch.export.save, or a Relax module saved by tvm.ir.save_json."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument("--project", default="", help="the project that it belongs to (default: the first one)")
        parser.add_argument("--name", default="", help="name for `tune` (default: the file's name)")
        parser.add_argument(
            "--dim",
            action="append",
            default=[],
            metavar="NAME=N[,N…]",
            help="value of an open dimension of the model; several make a network each",
        )
        parser.add_argument(
            "--float-model",
            metavar="NETWORK",
            help="the network of the project that a quantized model was made from, to compare its libraries with",
        )
        parser.add_argument("--json", action="store_true", help="print only the network as JSON")

    def handle(
        self, *, file: Path, project: str, name: str, dim: list[str], float_model: str | None, **options: Any
    ) -> None:
        """Print the network's name."""
        if nameless := [one for one in dim if not one.rpartition("=")[0]]:
            raise CommandError(f"--dim {nameless[0]}: write NAME=N", returncode=2)
        dims = dict(one.rpartition("=")[::2] for one in dim)
        try:
            owner = projects.chosen(project, None, UPLOAD)
            floats = _float_model(owner, float_model, dims)
            with file.open("rb") as opened:
                given = File(opened, file.name)
                network, new = uploading.upload(given, owner, None, name=name, dims=dims, float_model=floats)
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}", returncode=2) from error
        except Invalid as error:
            lines = (f"{_OPTION.get(field, field)}: {message}" for field, message in error.fields.items())
            raise CommandError("\n".join(lines), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(network.to_dict()))
        else:
            several = any("," in value for value in dims.values())
            names = [one["name"] for one in network.every_batch()] if several else [network.name]
            self.stdout.write(
                f"{'Added' if new else 'Exists already:'} {listed(names)}. To tune it: manage.py tune {network.name}"
            )


def _float_model(project: Project, name: str | None, dims: Mapping[str, str]) -> Network | None:
    """The network of this name. Raises `Invalid`."""
    if name is None:
        return None
    found = project.networks.filter(name=name).first()
    if found is None:
        raise Invalid({"float_model": f"The project {project.name} has no network {name}."})
    if any("," in value for value in dims.values()):
        raise Invalid(
            {"float_model": "It has one shape of each input, so add the quantized model for one batch at a time."}
        )
    return found
