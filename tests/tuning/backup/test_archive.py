"""The archive's format: any changed byte is noticed, and nothing but plain files comes out."""

from __future__ import annotations

import hashlib
import io
import stat
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard

from tuning.backup import archive
from tuning.backup.archive import Damaged, Writer

FILES = {"manifest.json": b"{}", "database": b"rows" * 5000, "runs/1/console.log": b""}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "made.tar.zst"
    with Writer(path) as writer:
        for name, content in FILES.items():
            writer.add(name, io.BytesIO(content), len(content), 1.0)
    return path


def contents(path: Path) -> dict[str, bytes]:
    with archive.opened(path) as file:
        return {member.name: member.file.read() for member in archive.members(file)}


def packed(path: Path, tar: bytes) -> Path:
    """An archive of a tar that an attacker made, with a correct checksum."""
    data = zstandard.ZstdCompressor().compress(tar)
    path.write_bytes(data + archive.MARK + hashlib.sha256(data).digest())
    return path


def tar_of(members: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def sums(*files: tuple[str, bytes]) -> tuple[tarfile.TarInfo, bytes]:
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files)
    return tarfile.TarInfo(archive.SUMS), "".join(lines).encode()


def test_what_was_written_is_read(made: Path) -> None:
    assert contents(made) == FILES
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_other_programs_can_open_it(made: Path) -> None:
    tar = zstandard.ZstdDecompressor().decompressobj().decompress(made.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert opened.getnames() == [*FILES, archive.SUMS]
        said = opened.extractfile(archive.SUMS)
        assert said
        assert said.read() == sums(*FILES.items())[1]


def test_every_changed_byte_is_noticed(made: Path) -> None:
    whole = made.read_bytes()
    for place in range(len(whole)):
        for flipped in (0x01, 0x80):
            made.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :])
            with pytest.raises(Damaged):
                contents(made)


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data[: len(data) // 2], lambda _: b"", lambda data: data + b"\0"]
)
def test_a_file_that_is_cut_off_or_too_long_is_refused(made: Path, change: Callable[[bytes], bytes]) -> None:
    made.write_bytes(change(made.read_bytes()))
    with pytest.raises(Damaged):
        contents(made)


def test_a_file_that_got_shorter_while_it_was_read_fails_the_backup(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unexpected end of data"), Writer(tmp_path / "made") as writer:
        writer.add("database", io.BytesIO(b"short"), 500, 1.0)


def test_an_existing_file_is_never_written_to(made: Path) -> None:
    with pytest.raises(FileExistsError):
        Writer(made)


KINDS = {
    "symbolic link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "folder": tarfile.DIRTYPE,
    "fifo": tarfile.FIFOTYPE,
    "device": tarfile.CHRTYPE,
    "old plain file": tarfile.AREGTYPE,
    "sparse file": tarfile.GNUTYPE_SPARSE,
    "header of unlimited size": tarfile.GNUTYPE_LONGNAME,
    "extended header": tarfile.XHDTYPE,
    "global extended header": tarfile.XGLTYPE,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_nothing_but_plain_files_is_accepted(tmp_path: Path, kind: bytes) -> None:
    first, info = tarfile.TarInfo("manifest.json"), tarfile.TarInfo("database")
    info.type, info.linkname = kind, "/etc/passwd"
    path = packed(tmp_path / "hostile", tar_of([(first, b"{}"), (info, b""), sums(("manifest.json", b"{}"))]))
    with pytest.raises(Damaged, match="isn't a plain file"):
        contents(path)


def test_a_long_name_that_needs_an_extended_header_is_refused(tmp_path: Path) -> None:
    tar = tar_of([(tarfile.TarInfo("runs/" + "x" * 500), b"")], tarfile.PAX_FORMAT)
    with pytest.raises(Damaged, match="isn't a plain file"):
        contents(packed(tmp_path / "hostile", tar))


@pytest.mark.parametrize(
    "members",
    [
        [(tarfile.TarInfo("database"), b"other"), sums(("database", b"rows"))],
        [(tarfile.TarInfo("database"), b"rows")],
        [(tarfile.TarInfo("database"), b"rows"), sums(("database", b"rows"), ("runs", b""))],
        [(tarfile.TarInfo("database"), b"rows"), sums(("database", b"rows")), (tarfile.TarInfo("later"), b"")],
        [],
    ],
    ids=["another content", "no checksums", "a missing file", "a file behind the checksums", "nothing"],
)
def test_members_must_be_those_of_the_checksums(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with pytest.raises(Damaged):
        contents(packed(tmp_path / "hostile", tar_of(members)))
