"""The filter of system calls as its program decides, for each machine, as the kernel would run it."""

from __future__ import annotations

import re
import socket
import stat
from collections.abc import Mapping
from errno import EAFNOSUPPORT, ENOSYS, EPERM
from pathlib import Path

import pytest

from tuning.engines.confinement import seccomp
from tuning.engines.confinement.system_calls import NUMBERS, refused

ALLOWED = 0
I386 = 0x40000003
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
MACHINES = sorted(seccomp.MACHINES)


def error(machine: str, call: str, *arguments: int, network: bool = False) -> int:
    place, name = seccomp.MACHINES[machine]
    number = NUMBERS[call][place]
    assert number is not None
    return decided(machine, name, number, arguments, network=network)


def decided(machine: str, name: int, number: int, arguments: tuple[int, ...] = (), *, network: bool = False) -> int:
    """The error that a call gets; 0 if it is allowed."""
    words = {seccomp.NUMBER_AT: number, seccomp.MACHINE_AT: name}
    words |= {
        seccomp.ARGUMENTS_AT + 8 * place: value & 0xFFFFFFFF for place, value in enumerate((*arguments, *[0] * 6))
    }
    result = run(seccomp.compiled(refused(network=network), NUMBERS, machine), words)
    return ALLOWED if result == seccomp.ALLOW else result & 0xFFFF


def run(program: list[seccomp.Instruction], words: Mapping[int, int]) -> int:
    """What the program returns: the kernel's packet filter, as far as it is used."""
    at = value = 0
    while True:
        code, operand, if_true, if_false = program[at]
        at += 1
        if code == seccomp.RETURN:
            return operand
        if code == seccomp.LOAD:
            value = words[operand]
        elif code == seccomp.AND:
            value &= operand
        elif code == seccomp.JUMP:
            at += operand
        else:
            assert code in (seccomp.EQUAL, seccomp.AT_LEAST)
            at += if_true if (value == operand if code == seccomp.EQUAL else value >= operand) else if_false


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", [False, True])
def test_it_leaves_only_the_families_of_sockets_that_are_needed(machine: str, network: bool) -> None:
    of_internet = [socket.AF_INET, socket.AF_INET6, 16]
    of_others = [40, 17, 38, 31, 29, (1 << 31) | 40, 0]
    assert error(machine, "socket", socket.AF_UNIX, network=network) == ALLOWED
    expected = ALLOWED if network else EAFNOSUPPORT
    assert {error(machine, "socket", family, network=network) for family in of_internet} == {expected}
    assert {error(machine, "socket", family, network=network) for family in of_others} == {EAFNOSUPPORT}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flag", [1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30])
def test_it_refuses_children_in_new_namespaces(machine: str, flag: int) -> None:
    thread, child = 0x3D0F00, 0x1200011
    assert (error(machine, "clone", thread), error(machine, "clone", child)) == (ALLOWED, ALLOWED)
    assert (error(machine, "clone", thread | flag), error(machine, "clone", child | flag)) == (EPERM, EPERM)
    assert error(machine, "clone3") == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("call", "before"), [("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("openat", 3)])
def test_it_refuses_modes_by_which_a_program_runs_as_its_owner(machine: str, call: str, before: int) -> None:
    others = [7] * before
    assert {error(machine, call, *others, mode) for mode in (0, 0o644, 0o777, 0o1777, stat.S_IFREG | 0o755)} == {
        ALLOWED
    }
    assert {error(machine, call, *others, mode) for mode in (0o4755, 0o2755, 0o6000, stat.S_IFREG | 0o4000)} == {EPERM}


@pytest.mark.parametrize("machine", MACHINES)
def test_it_refuses_devices_and_leaves_pipes(machine: str) -> None:
    modes = {
        kind: error(machine, "mknodat", 0, 0, kind | 0o600) for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, 0)
    }
    assert modes == {stat.S_IFCHR: EPERM, stat.S_IFBLK: EPERM, stat.S_IFIFO: ALLOWED, 0: ALLOWED}


@pytest.mark.parametrize("machine", MACHINES)
def test_it_refuses_to_type_into_a_terminal_and_to_be_another_system(machine: str) -> None:
    ask_size, type_into = 0x5413, [0x5412, 0x541C]
    assert error(machine, "ioctl", 0, ask_size) == ALLOWED
    assert {error(machine, "ioctl", 0, request) for request in type_into} == {EPERM}
    assert error(machine, "ioctl", 0, type_into[0] | 1 << 32) == EPERM
    assert (error(machine, "personality", 0xFFFFFFFF), error(machine, "personality", 0x40000)) == (ALLOWED, EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_it_leaves_calls_that_it_does_not_name(machine: str) -> None:
    named = {number for numbers in NUMBERS.values() if (number := numbers[seccomp.MACHINES[machine][0]]) is not None}
    others = set(range(424)) - named
    assert {decided(machine, seccomp.MACHINES[machine][1], number) for number in others} == {ALLOWED}


def test_it_refuses_calls_of_other_machines() -> None:
    """Otherwise each call would have another number: 26 is ptrace on i386."""
    assert decided("x86_64", I386, 26) == ENOSYS
    assert decided("x86_64", seccomp.MACHINES["x86_64"][1], 0x40000000 + 521) == ENOSYS
    assert decided("aarch64", 0x40000028, 26) == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_its_numbers_are_the_kernels(machine: str) -> None:
    """As far as the installed headers know the calls."""
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers for this machine aren't installed")
    known = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    numbers = {call: int(number) for call, number in known}
    place = seccomp.MACHINES[machine][0]
    ours = {call: places[place] for call, places in NUMBERS.items()}
    assert {call: ours[call] for call in ours.keys() & numbers.keys()} == {
        call: numbers[call] for call in ours.keys() & numbers.keys()
    }
    assert {call for call, number in ours.items() if number is None} & numbers.keys() == set()
