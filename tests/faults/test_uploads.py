"""Mutated models: each is accepted or refused with a clear text, and what TVM does with them ends one process at most."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from onnx import helper

from tests import models
from tests.faults import reading
from tests.faults.seeds import repeated_by, seed
from tests.live import ROOT, LiveSite

pytestmark = pytest.mark.tvm
EVERYDAY, ALL = 120, 10_000


def read(count: int, folder: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What became of this many models: those without a plain answer, and the totals."""
    number = seed()
    command = [sys.executable, "-m", "tests.faults.reading", str(number), "0", str(count), str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{repeated_by(number)}\n{ended.stderr[-3000:]}"
    *odd, last = map(json.loads, ended.stdout.splitlines())
    print(repeated_by(number), last, *odd, sep="\n")  # noqa: T201  shown with a failure, or by pytest -s
    return odd, last["totals"]


def check(count: int, folder: Path) -> None:
    odd, totals = read(count, folder)
    assert sum(totals.values()) == count
    assert [one for one in odd if one["outcome"] == "unclear"] == []
    assert min(totals["accepted"], totals["refused"]) > count / 50, "the mutations are too mild or too wild"


def test_mutated_models_are_accepted_or_refused(tmp_path: Path) -> None:
    check(EVERYDAY, tmp_path)


@pytest.mark.rare
def test_thousands_of_mutated_models_are_accepted_or_refused(tmp_path: Path) -> None:
    check(ALL, tmp_path)


def upload(site: LiveSite, data: bytes, name: str) -> tuple[int, Any]:
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=180)
    headers = {
        "Authorization": f"Bearer {site.token('operator')}",
        "Content-Type": f"multipart/form-data; boundary={boundary}",
    }
    try:
        connection.request("POST", "/api/v1/networks", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def check_over_http(site: LiveSite, count: int) -> None:
    """Nothing of a refused model is kept, and the web process survives all of them."""
    number = seed()
    (web,) = site.processes("dashboard.serve")
    files = reading.corpus()
    for index in random.Random(number).sample(range(10**6), count):
        status, answer = upload(site, reading.case(number, index, files), f"mutated-{index}.onnx")
        assert status in (200, 201, 422), (repeated_by(number), index, answer)
        if status == 422:
            assert all(text.strip() for text in answer["error"]["fields"].values()), (
                repeated_by(number),
                index,
                answer,
            )
    assert web.is_running()
    assert list(site.var.glob("networks/incoming-*")) == []


def test_mutated_uploads_get_one_answer(live_site: LiveSite) -> None:
    check_over_http(live_site, 3)


@pytest.mark.rare
def test_hundreds_of_mutated_uploads_get_one_answer(live_site: LiveSite) -> None:
    check_over_http(live_site, 300)


def test_a_model_that_crashes_tvm_is_refused_and_ends_no_process_of_the_site(live_site: LiveSite) -> None:
    """Found by the mutations: TVM follows a null pointer to an input that nothing defines."""
    (web,) = live_site.processes("dashboard.serve")
    status, answer = upload(live_site, crashing(), "crash.onnx")
    assert status == 422
    text = answer["error"]["fields"]["file"]
    assert text.startswith("TVM crashed at the step “Reading the model”: its process was killed by SIGSEGV.")
    assert web.is_running()


def crashing() -> bytes:
    concat = helper.make_node("Concat", ["nowhere", "else"], ["b"], axis=0)
    branch = helper.make_graph([concat], "branch", [], [helper.make_tensor_value_info("b", 1, [4])])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return bytes(models.onnx_model([choice], {"x": [4]}, {"y": [4]}, c=np.array(True)).SerializeToString())
