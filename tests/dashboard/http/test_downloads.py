"""Files of a run over HTTP: names, caching, streaming."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import Client

from dashboard.asgi import application
from dashboard.presentation.downloads import stem
from tests.world import claimed, make_network, make_run, make_tasks, make_user, measured_run, write_record_files
from tuning.models import Run
from tuning.reads import files

pytestmark = pytest.mark.django_db
FILES = {
    "records": ("best-records.zip", "application/zip"),
    "records?format=jsonl": ("best-records.jsonl", "application/jsonl"),
    "records?which=all": ("all-records.zip", "application/zip"),
    "records?which=all&format=jsonl&task=1": ("task-1_all-records.jsonl", "application/jsonl"),
    "records?k=3": ("best-3-records.zip", "application/zip"),
    "trials.csv": ("trials.csv", "text/csv; charset=utf-8"),
    "trials.parquet": ("trials.parquet", "application/vnd.apache.parquet"),
    "trials.csv?task=0": ("task-0_trials.csv", "text/csv; charset=utf-8"),
    "console.log": ("console.log", "text/plain; charset=utf-8"),
}


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def run_with_files(**values: Any) -> Run:
    run = measured_run(**values)
    write_record_files(run)
    run.console_log.write_text("one\ntwo\n")
    return run


def get(client: Client, run: Run, path: str, **headers: str) -> Any:
    return client.get(f"/api/v1/runs/{run.pk}/{path}", headers=headers)


@pytest.mark.parametrize("path", FILES)
def test_each_file_has_its_name(viewer: Client, path: str) -> None:
    run = run_with_files()
    answer = get(viewer, run, path)
    assert answer.status_code == 200
    name, kind = FILES[path]
    assert answer.headers["Content-Disposition"] == f'attachment; filename="mlp_znver4_run-{run.pk}_{name}"'
    assert answer.headers["Content-Type"] == kind
    assert answer.headers["Cache-Control"] == "private, no-cache"
    body = answer.getvalue()
    assert body
    assert int(answer.headers.get("Content-Length", len(body))) == len(body)


@pytest.mark.parametrize("path", FILES)
def test_head_has_no_body(viewer: Client, path: str) -> None:
    run = run_with_files()
    whole, head = get(viewer, run, path), viewer.head(f"/api/v1/runs/{run.pk}/{path}")
    assert head.status_code == 200
    assert head.getvalue() == b""
    assert head.headers == whole.headers


def test_an_unchanged_file_is_not_sent_again(viewer: Client) -> None:
    run = run_with_files()
    for path in FILES:
        etag = get(viewer, run, path).headers["ETag"]
        again = get(viewer, run, path, **{"if-none-match": etag})
        assert (again.status_code, again.getvalue() if again.streaming else again.content) == (304, b"")
        assert again.headers["ETag"] == etag
    Run.objects.filter(pk=run.pk).update(trials_done=2)
    stale = get(viewer, run, "trials.csv").headers["ETag"]
    Run.objects.filter(pk=run.pk).update(trials_done=3)
    assert get(viewer, run, "trials.csv", **{"if-none-match": stale}).status_code == 200


@pytest.mark.parametrize("status", ["running", "failed", "stopped", "interrupted", "finished"])
def test_runs_of_any_status_have_files(viewer: Client, status: str) -> None:
    run = run_with_files()
    Run.objects.filter(pk=run.pk).update(status=status)
    with zipfile.ZipFile(io.BytesIO(get(viewer, run, "records").getvalue())) as archive:
        assert len(archive.namelist()) == 2


@pytest.mark.parametrize("path", FILES)
def test_it_refuses_files_without_content(viewer: Client, path: str) -> None:
    run = claimed(make_run())
    make_tasks(run)
    answer = get(viewer, run, path)
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "conflict"
    assert " yet" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("records?k=0", "k"),
        ("records?k=9", "k"),
        ("records?k=2&which=all", "k"),
        ("records?format=csv", "format"),
        ("records?which=worst", "which"),
        ("records?task=7", "task"),
        ("trials.csv?task=7", "task"),
        ("trials.parquet?after=7", "after"),
    ],
)
def test_it_names_an_invalid_parameter(viewer: Client, path: str, field: str) -> None:
    answer = get(viewer, run_with_files(), path)
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"].keys() == {field}


@pytest.mark.parametrize(
    ("network", "target", "expected"),
    [
        ("resnet-18", {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, "resnet-18_znver4"),
        ("squeezenet1.1", {"kind": "cuda", "arch": "sm_90"}, "squeezenet1.1_sm-90"),
        ("Größe 7/../b", "nvidia/nvidia-a100", "Groe-7-..-b_nvidia-nvidia-a100"),
        ("模型", {"kind": "llvm"}, "network_llvm"),
        ('a"\r\nb', {"tag": "apple/m1-gpu", "kind": "metal"}, "a-b_apple-m1-gpu"),
    ],
)
def test_file_names_have_network_and_target_and_suit_any_file_system(network: str, target: Any, expected: str) -> None:
    run = make_run(network=make_network(network), target=target)
    assert stem(run) == f"{expected}_run-{run.pk}"


class Stream:
    """A client of the ASGI application that requests a file, and may disconnect after the first piece."""

    def __init__(self, client: Client, path: str, *, hang_up: bool = False) -> None:
        cookies = client.cookies.output(header="", sep=";").strip().encode()
        self._scope: Any = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"testserver"), (b"cookie", cookies)],
        }
        self._hang_up = hang_up
        self._begun = asyncio.Event()
        self._messages = iter([{"type": "http.request"}])
        self.bodies: list[bytes] = []
        self.status = 0

    async def _receive(self) -> Any:
        if message := next(self._messages, None):
            return message
        await self._begun.wait()
        if not self._hang_up:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        if body := message.get("body"):
            self.bodies.append(body)
            self._begun.set()
            await self.sent()
            await asyncio.sleep(0)

    async def sent(self) -> None:
        """Called after each piece."""

    async def run(self) -> None:
        await asyncio.wait_for(application(self._scope, self._receive, self._send), 30)


class Source:
    """Makes pieces of a file, and counts them."""

    def __init__(self, count: int) -> None:
        self.made = 0
        self.closed = False
        self._count = count

    def pieces(self, *_: Any) -> Iterator[bytes]:
        try:
            while self.made < self._count:
                self.made += 1
                yield b"x"
        finally:
            self.closed = True


@pytest.mark.django_db(transaction=True)
async def test_it_sends_a_piece_before_it_makes_the_next(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(5)
    monkeypatch.setattr(files, "file_pieces", source.pieces)
    run = await database_sync_to_async(prepared)(client)
    stream = Stream(client, f"/api/v1/runs/{run.pk}/console.log")
    made: list[int] = []

    async def sent() -> None:
        made.append(source.made)

    monkeypatch.setattr(stream, "sent", sent)
    await stream.run()
    assert stream.status == 200
    assert b"".join(stream.bodies) == b"xxxxx"
    assert made == [1, 2, 3, 4, 5]
    assert source.closed


@pytest.mark.django_db(transaction=True)
async def test_it_stops_when_the_client_disconnects(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(1_000_000_000)
    monkeypatch.setattr(files, "file_pieces", source.pieces)
    run = await database_sync_to_async(prepared)(client)
    await Stream(client, f"/api/v1/runs/{run.pk}/console.log", hang_up=True).run()
    assert source.closed


@pytest.mark.django_db(transaction=True)
async def test_files_are_streamed_through_asgi(client: Client) -> None:
    run = await database_sync_to_async(prepared)(client)
    for path in ("records", "trials.csv", "trials.parquet", "console.log"):
        stream = Stream(client, f"/api/v1/runs/{run.pk}/{path}")
        await stream.run()
        assert stream.status == 200
        assert content(b"".join(stream.bodies)) == content(await database_sync_to_async(whole)(client, run, path)), path


def whole(client: Client, run: Run, path: str) -> bytes:
    body: bytes = get(client, run, path).getvalue()
    assert body
    return body


def content(body: bytes) -> Any:
    """Of a zip, its files, without the times at which they were made."""
    if not zipfile.is_zipfile(io.BytesIO(body)):
        return body
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def prepared(client: Client) -> Run:
    client.force_login(make_user("viewer"))
    return run_with_files()


def test_the_zip_has_the_best_records_of_the_run(viewer: Client) -> None:
    body = get(viewer, run_with_files(), "records?k=1").getvalue()
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        lines = archive.read("database_tuning_record.json").decode().splitlines()
    assert [json.loads(line)[1][1] for line in lines] == [[1e-3], [3e-3]]
