"""`manage.py add_network FILE`: a model of one's own, as by upload."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import CommandError

from tuning.actions import networks
from tuning.management.migrated import MigratedCommand
from tuning.validation import Invalid


class Command(MigratedCommand):
    """Exit status 2 when the file or an option is wrong; then nothing is kept."""

    help = "Take an ONNX file, or a Relax module as tvm.ir.save_json writes it, to be tuned by its name."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """FILE, its name and its dimensions."""
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument("--name", default="", help="what `tune` calls it [the file's name]")
        parser.add_argument(
            "--dim",
            action="append",
            default=[],
            metavar="NAME=N",
            help="value of a dimension that the file leaves open",
        )
        parser.add_argument("--json", action="store_true", help="print the network as JSON, and nothing else")

    def handle(self, *, file: Path, name: str, dim: list[str], **options: Any) -> None:
        """Print the name under which it can be tuned."""
        if nameless := [one for one in dim if not one.rpartition("=")[0]]:
            raise CommandError(f"--dim {nameless[0]}: write NAME=N", returncode=2)
        dims = dict(one.rpartition("=")[::2] for one in dim)
        try:
            with file.open("rb") as opened:
                network, new = networks.upload(opened, file.name, None, name=name, dims=dims)
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}", returncode=2) from error
        except Invalid as error:
            lines = (f"{field}: {message}" for field, message in error.fields.items())
            raise CommandError("\n".join(lines), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(network.to_dict()))
        else:
            self.stdout.write(
                f"{'Added' if new else 'It is there already:'} {network.name}. Tune it: tune {network.name}"
            )
