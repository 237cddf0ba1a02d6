"""An import into a database, measured in a process of its own, which prints the figures as JSON: `python -m tests.benchmarks.logs.storing FILE`.

The process's environment says which database, an empty one.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from pathlib import Path

from tests.benchmarks.logs.reading import peak_bytes


def main(path: str) -> None:
    """Prints CPU seconds of this process, elapsed seconds, the peak of its memory in bytes, and the trials."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0)
    logging.getLogger("tuning.notify.announce").setLevel(logging.CRITICAL)  # No broker, and nobody is watching.
    from tuning.actions.incoming import imports
    from tuning.models import Run
    from tuning.work.importing import carry_out

    source, files = imports.start_here([Path(path)], {})
    assert source.claim()
    cpu_s, began = time.process_time(), time.monotonic()
    assert carry_out(source, files, threading.Event()) == "finished"
    found = {"cpu_s": time.process_time() - cpu_s, "elapsed_s": time.monotonic() - began, "peak_bytes": peak_bytes()}
    sys.stdout.write(json.dumps({**found, "trials": Run.objects.get().trials_done}))


if __name__ == "__main__":
    main(sys.argv[1])
