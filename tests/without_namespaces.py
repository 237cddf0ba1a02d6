"""Becomes a program that can't make namespaces, as in most containers: `python -m tests.without_namespaces COMMAND …`."""

from __future__ import annotations

import os
import sys
from errno import EPERM

from tuning.engines.confinement import privileges, seccomp, system_calls

if __name__ == "__main__":
    privileges.gain_none()
    seccomp.restrict([seccomp.Rule("unshare", EPERM)], system_calls.NUMBERS)
    os.execv(sys.argv[1], sys.argv[1:])
