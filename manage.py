#!/usr/bin/env python3
"""Tuneboard's commands, on a machine that has Python and nothing else: see README.md.

This file is read by whatever `python3` is; all that follows in dashboard/bootstrap.py may rely on 3.10.
"""

import sys

if sys.version_info < (3, 10):
    sys.exit(
        "Tuneboard needs Python 3.10 or newer, and this is %d.%d. Call it with a newer one: python3.12 manage.py up"  # noqa: UP031
        % sys.version_info[:2]
    )

from dashboard.bootstrap import main

if __name__ == "__main__":
    main(sys.argv)
