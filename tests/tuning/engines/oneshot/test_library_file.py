"""A built library that would do more than TVM's do isn't offered."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuning.engines.oneshot.library_file import look
from tuning.engines.oneshot.linking import link
from tuning.engines.wire.compiling import zig
from tuning.engines.wire.errors import Refused

LIKE_TVMS = """
extern float expf(float); extern int TVMBackendParallelLaunch(void *, void *, int); extern void *memcpy(void *, const void *, unsigned long);
float tuned(float x, void *to, void *from, long n) { memcpy(to, from, n); TVMBackendParallelLaunch(to, from, 0); return expf(x); }
"""


def library(folder: Path, source: str, *options: str) -> str:
    (folder / "made.c").write_text(source)
    made = [
        str(zig()),
        "cc",
        "-c",
        "-O1",
        "-fPIC",
        "-fno-stack-protector",
        "-fno-sanitize=all",
        "made.c",
        "-o",
        "made.o",
    ]
    subprocess.run(made, cwd=folder, check=True)
    link(str(folder / "made.so"), [str(folder / "made.o")], options)
    return str(folder / "made.so")


def test_a_library_like_tvms_is_offered(tmp_path: Path) -> None:
    assert look(library(tmp_path, LIKE_TVMS), by_compiler=False).symbols == [
        "TVMBackendParallelLaunch",
        "expf",
        "memcpy",
    ]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "volatile int seen; __attribute__((constructor)) void canary(void) { seen = 1; }",
            r"run code when it is loaded \(DT_INIT_ARRAY\)",
        ),
        (
            "volatile int seen; __attribute__((destructor)) void canary(void) { seen = 1; }",
            r"run code when it is loaded \(DT_FINI_ARRAY\)",
        ),
        ("void _init(void) {}", r"run code when it is loaded \(DT_INIT\)"),
        (
            'static void *choose(void) { return 0; } void canary(void) __attribute__((ifunc("choose")));',
            "run code when it is loaded",
        ),
        ('extern int system(const char *); int canary(void) { return system("id"); }', "it needs 'system'"),
        ('extern int dlopen(const char *, int); int canary(void) { return dlopen("x", 1); }', "it needs 'dlopen'"),
        ("extern long syscall(long, ...); long canary(void) { return syscall(59); }", "it needs 'syscall'"),
        ("extern int TVMFFIEvil(void); int canary(void) { return TVMFFIEvil(); }", "it needs 'TVMFFIEvil'"),
    ],
)
def test_it_refuses_what_tvms_libraries_never_do(tmp_path: Path, source: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        look(library(tmp_path, source), by_compiler=False)


def test_it_refuses_other_libraries(tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    other = library(tmp_path / "evil", "int evil(void) { return 1; }", "-soname", "libevil.so")
    with pytest.raises(Refused, match=r"load other libraries \(DT_NEEDED\)"):
        look(library(tmp_path, "extern int evil(void); int canary(void) { return evil(); }", other), by_compiler=False)
    with pytest.raises(Refused, match=r"load other libraries \(DT_RUNPATH\)"):
        look(library(tmp_path, LIKE_TVMS, "-rpath", "/tmp"), by_compiler=False)


def test_a_compilers_start_files_have_one_function(tmp_path: Path) -> None:
    canary = library(tmp_path, "volatile int seen; __attribute__((constructor)) void start(void) { seen = 1; }")
    look(canary, by_compiler=True)
    start = "__attribute__((constructor)) void start_{0}(void) {{ seen += {0}; }}"
    two = f"volatile int seen; {start.format(1)} {start.format(2)}"
    with pytest.raises(Refused, match="run several functions"):
        look(library(tmp_path, two), by_compiler=True)


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(57)])
def test_it_refuses_what_it_cannot_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "made.so").write_bytes(content)
    with pytest.raises(Refused, match="The library isn't offered"):
        look(str(tmp_path / "made.so"), by_compiler=False)


def test_it_refuses_a_library_that_was_cut(tmp_path: Path) -> None:
    made = Path(library(tmp_path, LIKE_TVMS))
    made.write_bytes(made.read_bytes()[:600])
    with pytest.raises(Refused, match="The library isn't offered"):
        look(str(made), by_compiler=False)
