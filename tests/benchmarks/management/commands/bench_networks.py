"""Tunes whole networks and compares their libraries with ONNX Runtime."""

from __future__ import annotations

import os
import signal
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management import CommandError

from tests.benchmarks.engine.sides import Broken, own_channel_layer
from tests.benchmarks.networks import plan, report
from tests.benchmarks.networks.plan import MINUTES, TENTH, THIS, WHOLE, WORKLOADS, Tuning
from tests.benchmarks.networks.shipping import Shipped, shipped
from tuning.management.migrated import MigratedCommand
from tuning.validation import Invalid


class Command(MigratedCommand):
    """Exits with 0 if every tuning was made, 1 if something failed, 2 for bad options."""

    help = "Tunes whole networks, compiles them and compares each library with ONNX Runtime, in turn. The machine should otherwise be idle."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to tune, for how long, and the output format."""
        parser.add_argument("--networks", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
        parser.add_argument("--shares", nargs="+", type=float, default=[TENTH, WHOLE], help="of the budget of trials")
        parser.add_argument("--seeds", nargs="+", type=int, default=[1])
        parser.add_argument("--minutes", type=float, default=MINUTES, help="longest tuning with the whole budget")
        parser.add_argument(
            "--target", default=THIS, metavar="TAG", help="other than this machine's CPU, such as nvidia/nvidia-h100"
        )
        parser.add_argument("--set", nargs="+", default=[], metavar="OPTION=VALUE", help="options of each tuning")
        parser.add_argument("--stock", action="store_true", help="tune with stock TVM as well, within the same budget")
        parser.add_argument(
            "--busy-core", action="store_true", help="measure each library also while another process keeps a core busy"
        )
        parser.add_argument("--into", type=Path, help="results file; an existing one is continued")
        parser.add_argument("--json", action="store_true", help="print only the figures, as JSON")
        parser.add_argument(
            "--markdown", action="store_true", help="print the tables as in docs/benchmarks.md (default)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Tunes one network after the other."""
        if min(*options["shares"], options["minutes"]) <= 0 or max(options["shares"]) > 1:
            raise CommandError("--shares must be above 0 and at most 1, and --minutes above 0", returncode=2)
        if options["target"] != THIS and (options["stock"] or options["busy_core"]):
            raise CommandError("--stock and --busy-core are for this machine's CPU, not for --target", returncode=2)
        # Valkey and the engines must end with this command, even if a shell started it with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        path = options["into"] or settings.VAR / "bench" / time.strftime("networks-%Y%m%d-%H%M%S.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        found = _read(path)
        given = _options(options["set"])
        what = (options["networks"], options["shares"], options["seeds"], options["minutes"])
        planned = list(plan.tunings(*what, options=given, target=options["target"]))
        self._say(f"{len(planned)} tunings, at most {sum(one.minutes for one in planned):.0f} minutes. Results: {path}")
        try:
            with own_channel_layer(path.parent):
                beside = {"with_stock": options["stock"], "with_busy_core": options["busy_core"]}
                self._ship([one for one in planned if not _has(found, one)], found, path, **beside)
        except Invalid as invalid:
            raise CommandError(
                "\n".join(f"{name}: {text}" for name, text in invalid.fields.items()), returncode=2
            ) from None
        except Broken as broken:
            raise CommandError(f"{broken}\nWhat was measured before is in {path}.") from broken
        except KeyboardInterrupt:
            self._say(f"Interrupted. --into {path} continues from here.")
        finally:
            if found:
                self.stdout.write(msgspec.json.encode(found).decode() if options["json"] else report.markdown(found))

    def _ship(self, planned: list[Tuning], found: list[Shipped], path: Path, **beside: bool) -> None:
        for tuning in planned:
            self._say(tuning.key)
            found.append(shipped(tuning, **beside))
            path.write_bytes(msgspec.json.encode(found))
            self._say("  " + _summary(found[-1]))

    def _say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _options(given: list[str]) -> dict[str, str]:
    if wrong := [each for each in given if "=" not in each]:
        raise CommandError(f"--set takes OPTION=VALUE, not {wrong[0]}", returncode=2)
    return dict(each.split("=", 1) for each in given)


def _read(path: Path) -> list[Shipped]:
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Shipped])
    except msgspec.DecodeError as error:
        raise CommandError(f"--into: {path} isn't a results file of this version: {error}", returncode=2) from error


def _has(found: list[Shipped], tuning: Tuning) -> bool:
    wanted = (tuning.workload.name, tuning.share, tuning.seed, tuning.options)
    there = (one for one in found if tuning.target == (THIS if one.cores else one.cpu))
    return any((one.network, one.share, one.seed, one.options) == wanted for one in there)


def _summary(one: Shipped) -> str:
    ratio, over = report.ratio(one, "onnxruntime"), report.over_estimate(one)
    known = {"÷ ONNX Runtime": ratio, "÷ estimate": over}
    spent = "an unrecorded time" if one.tuned_for_s is None else f"{one.tuned_for_s:.0f} s"
    return f"{one.trials} trials in {spent}; tuned " + ", ".join(
        f"{name} {'not measured' if value is None else format(value, '.3f')}" for name, value in known.items()
    )
