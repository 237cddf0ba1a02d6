from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.presentation import code
from dashboard.views.runs import tasks
from tests.world import claimed, make_run, make_tasks, make_user, measured_run, record_trials, write_record_files
from tuning.engines.wire.showing import Decision
from tuning.models import Record, Run
from tuning.reads import showing
from tuning.reads.records import Decided, Space, Tried
from tuning.reads.showing import Applying, Failed, Generated, HotLoop, Kernel, Kernels, Listing, Occupancy, Shown
from tuning.schedules.importance import Importance

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def test_it_shows_the_task_and_its_records(viewer: Client) -> None:
    run = measured_run([(0, 2e-3), (0, 1e-3), (0, None)])
    page = viewer.get(f"/runs/{run.pk}/tasks/0/")
    assertContains(page, "(1, 784) float32")
    assertContains(page, "prim_func")
    assert [(row["record"].trial, row["gap"]) for row in page.context["records"]] == [(2, 0.0), (1, 1.0)]
    assert page.context["records"][0]["record"].gflops == pytest.approx(1.0)
    assertContains(page, 'href="?record=2#record"')


def test_the_workload_hash_is_not_listed_as_an_argument(viewer: Client) -> None:
    run = measured_run()
    rows = viewer.get(f"/runs/{run.pk}/tasks/1/").content.decode().split("function-title")[-1].split("<tbody>")[1]
    arguments, _, rest = rows.partition("</tbody>")
    assert arguments.count("<tr>") == 2
    assert "0000000000000001" in rest


def test_it_shows_the_share_of_the_design_space_that_was_tried(viewer: Client) -> None:
    run = measured_run([(0, 2e-3), (1, 1e-3)])
    assertNotContains(viewer.get(f"/runs/{run.pk}/tasks/0/"), "candidates")
    run.tasks.update(space=1296)
    assertContains(viewer.get(f"/runs/{run.pk}/tasks/0/"), "0.1\u00a0% of 1,296 candidates")


def test_it_says_so_when_nothing_was_measured(viewer: Client) -> None:
    run = claimed(make_run())
    make_tasks(run)
    page = viewer.get(f"/runs/{run.pk}/tasks/1/")
    assertContains(page, "no valid trial yet")
    assertContains(page, "No record yet")


def test_it_draws_only_the_tasks_trials(viewer: Client) -> None:
    run = measured_run([(0, 2e-3), (1, 5e-3), (0, None), (0, 1e-3)])
    answer = viewer.get(f"/runs/{run.pk}/tasks/0/figures/").json()
    trials, _, failed, _, best = answer["curve"]["data"]
    assert (answer["last"], answer["end"]) == (4, [3, 4.0])
    assert (trials["x"], failed["x"], best["x"]) == ([1, 3], [2], [1, 3])


def test_it_thins_trials_but_keeps_improvements(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.views.runs.tasks.POINTS", 4)
    run = claimed(make_run())
    make_tasks(run, 1)
    record_trials(run, [(0, 1.0 / number) for number in range(1, 33)])
    trials, _, _, _, best = viewer.get(f"/runs/{run.pk}/tasks/0/figures/").json()["curve"]["data"]
    assert best["x"] == list(range(1, 33))
    assert trials["x"] == list(range(1, 33))
    record_trials(run, [(0, 2.0)] * 32)
    trials, _, _, _, best = viewer.get(f"/runs/{run.pk}/tasks/0/figures/").json()["curve"]["data"]
    assert trials["x"] == [*range(1, 33), 48, 64]


def test_it_reads_no_trace(viewer: Client, django_assert_max_num_queries: Any) -> None:
    run = measured_run()
    with django_assert_max_num_queries(10) as queries:
        viewer.get(f"/runs/{run.pk}/tasks/0/")
    assert not any('"tuning_record"."text"' in query["sql"] for query in queries.captured_queries)


DECISION = Decision("sample_perfect_tile", "i1", "matmul", 128, [4, 32], "4 × 32", [])


def chosen(factor: int) -> list[Decision]:
    """One decision that all records share, and one that differs."""
    tile = Decision("sample_perfect_tile", "k", "matmul", 64, [factor, 64 // factor], f"{factor} × {64 // factor}", [])
    return [DECISION, tile]


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> dict[int, showing.State]:
    """The state of each trial's record; by default it can be shown."""
    given: dict[int, showing.State] = {}

    def show(records: Sequence[Record]) -> showing.State:
        trial = records[0].trial
        return given.get(
            trial, Shown(f"code({trial})", chosen(2**trial), f"for i in T.grid({trial}):\n    pass", packs=trial == 1)
        )

    monkeypatch.setattr(showing, "show", show)
    return given


def opened(viewer: Client, query: str, **headers: str) -> str:
    run = Run.objects.first() or measured_run([(0, 2e-3), (0, 1e-3), (0, 3e-3)])
    response = viewer.get(f"/runs/{run.pk}/tasks/0/?{query}", headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def words(html: str) -> str:
    """The visible text of the opened record."""
    record = html.partition('id="record"')[2].partition("function-title")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", record)).split())


@pytest.mark.usefixtures("states")
class TestAnOpenedRecord:
    def test_it_shows_code_decisions_and_tensorir(self, viewer: Client) -> None:
        page = opened(viewer, "record=2")
        text = words(page)
        assert "Record of trial 2 1.000 ms · 1.00 GFLOPS" in text
        for part in ("code ( 2 )", "i1 in matmul 128 4 × 32 sample_perfect_tile", "T . grid ( 2 )"):
            assert part in text
        assert 'data-role="packs"' not in page
        assert 'data-role="packs"' in opened(viewer, "record=1")

    def test_it_is_compared_with_the_unscheduled_function(self, viewer: Client) -> None:
        page = opened(viewer, "record=2&diff=before")
        assert "Before any schedule is applied" in words(page)
        assert "def main ( ) :" in words(page), "the task's own function is on the left"
        assert "grid" in words(page)

    def test_it_is_compared_with_another_record(self, viewer: Client) -> None:
        text = words(opened(viewer, "record=2&diff=3"))
        assert "Trial 3 3.000 ms Trial 2 1.000 ms" in text
        assert "T . grid ( 3 )" in text
        assert "Decisions 1 of 2 differ" in text
        assert (
            "i1 in matmul 128 4 × 32 4 × 32 sample_perfect_tile k in matmul 64 8 × 8 4 × 16 sample_perfect_tile" in text
        )
        text = words(opened(viewer, "record=2&diff=3&of=schedule"))
        assert "code ( 3 ) code ( 2 )" in text
        assert "grid" not in text

    def test_every_view_has_a_link(self, viewer: Client) -> None:
        page = opened(viewer, "record=2")
        for query in ("record=2", "record=2&amp;diff=before", "record=2&amp;diff=1", "record=2&amp;diff=3"):
            assert f'href="?{query}#record"' in page
        assert 'href="?record=2&amp;diff=2#record"' not in page

    def test_the_page_polls_while_the_schedule_is_applied(
        self, viewer: Client, states: dict[int, showing.State]
    ) -> None:
        states[3] = Applying("Applying the schedule")
        for query in ("record=3", "record=2&diff=3"):
            page = opened(viewer, query)
            assert "Applying the schedule…" in words(page)
            assert f'hx-get="?{escape(query)}" hx-trigger="every 1s"' in page
        assert "every 1s" not in opened(viewer, "record=2")

    def test_a_failure_names_the_record_and_can_be_tried_again(
        self, viewer: Client, states: dict[int, showing.State]
    ) -> None:
        states[3] = Failed("TVM can't apply its <Fuse>.")
        page = opened(viewer, "record=2&diff=3")
        assert "The schedule of trial 3 can’t be shown. TVM can't apply its <Fuse>." in words(page)
        assert 'href="?record=2&amp;diff=3#record"' in page.split('data-role="record-error"')[1]
        assert "every 1s" not in page

    @pytest.mark.parametrize(
        ("query", "why"),
        [
            ("record=9", "The run has no trial 9."),
            ("record=2&diff=9", "The run has no trial 9."),
            ("record=before", "isn’t the number of a trial"),
            ("record=x&diff=before", "isn’t the number of a trial"),
            (f"record={'9' * 60}", "isn’t the number of a trial"),
            (f"record={'9' * 10}", "The run has no trial 9,999,999,999."),
        ],
    )
    def test_it_says_why_there_is_no_record(self, viewer: Client, query: str, why: str) -> None:
        assert why in words(opened(viewer, query))

    def test_slow_and_failed_trials_have_one(self, viewer: Client, settings: Any, tmp_path: Path) -> None:
        settings.VAR = tmp_path
        run = measured_run([(0, 1e-3 + number * 1e-5) for number in range(10)] + [(0, None)])
        write_record_files(run)
        assert not run.tasks.get(index=0).records.filter(trial=10).exists()
        slow = words(opened(viewer, "record=10&diff=11"))
        assert "Record of trial 10 1.090 ms" in slow
        assert "with trial 11" in slow
        assert "Record of trial 11 run failed" in words(opened(viewer, "record=11"))

    def test_long_functions_are_not_compared(self, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(code, "MOST_LINES", 1)
        text = words(opened(viewer, "record=2&diff=3"))
        assert "more than can be compared" in text
        assert "1 of 2 differ" in text

    def test_htmx_gets_only_what_changes(self, viewer: Client) -> None:
        part = opened(viewer, "record=2", **{"HX-Request": "true"})
        assert "<html" not in part
        assert 'id="record"' in part
        assert 'hx-swap-oob="true"' in part
        whole = opened(viewer, "record=2", **{"HX-Request": "true", "HX-History-Restore-Request": "true"})
        assert "<html" in whole
        assert "hx-swap-oob" not in whole

    def test_no_record_is_opened_by_default(self, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(showing, "show", lambda _: 1 / 0)
        assert "record-title" not in opened(viewer, "").replace('aria-labelledby="record-title"', "")


def test_the_task_offers_its_own_downloads(viewer: Client) -> None:
    run = measured_run([(0, 1e-3), (0, None)])
    write_record_files(run)
    for task, ready in ((0, True), (1, False)):
        page = viewer.get(f"/runs/{run.pk}/tasks/{task}/").content.decode()
        links = re.findall(r'data-url="([^"]+)"( href=)?', page)
        assert len(links) == 6
        for url, href in links:
            assert bool(href) is ready
            assert viewer.get(url.replace("&amp;", "&")).status_code == (200 if ready else 409), url


def test_it_says_that_the_best_trial_is_noisy(viewer: Client) -> None:
    run = measured_run([(0, 2e-3), (0, 1e-3)])
    run.trials.filter(number=1).update(noisy=True)
    assertNotContains(viewer.get(f"/runs/{run.pk}/tasks/0/"), "The best trial is noisy")
    run.trials.filter(number=2).update(noisy=True)
    assertContains(viewer.get(f"/runs/{run.pk}/tasks/0/"), "The best trial is noisy")
    assertNotContains(viewer.get(f"/runs/{run.pk}/tasks/1/"), "The best trial is noisy")


HOT = HotLoop("main_compute_", 2, 2, 3, instructions=2, fma=1, arithmetic=0, bits=512, loads=1, stores=0, stack=1)
ASSEMBLY = "main:\n\tvfmadd231ps\t8(%rsp), %zmm1, %zmm2\n\tjne\t.LBB0_1\n\tretq\n"
GENERATED = Generated(
    [Listing("tir", "def lowered(): ..."), Listing("llvm", "define i32"), Listing("asm", ASSEMBLY, HOT)]
)


CUDA = Generated(
    [Listing("tir", "def lowered(): ..."), Listing("cuda", 'extern "C" __global__ void main_kernel();')],
    Kernels(
        "ptxas 13.0.88",
        "sm_80",
        [
            Kernel("main_kernel", 64, 32, 255, 20480, 0, 0, 0, Occupancy(8, 8, 64, ["registers"])),
            Kernel("main_kernel_1", 1, 768, 128, 0, 416, 380, 404, Occupancy(0, 0, 64, ["registers"])),
        ],
    ),
    ["Install nvdisasm."],
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[showing.CodeState]:
    """The state of what is made of records."""
    state: list[showing.CodeState] = [GENERATED]
    monkeypatch.setattr(showing, "generate", lambda _record: state[-1])
    return state


@pytest.mark.usefixtures("made")
class TestGeneratedCode:
    def test_assembly_is_shown_with_its_hot_loop(self, viewer: Client) -> None:
        page = opened(viewer, "record=2&code=asm")
        hot = page.partition('data-role="hot-loop">')[2].partition('<span class="hot"')[0]
        assert "vfmadd231ps" in hot
        text = words(page)
        assert "Hot loop : 2 instructions, 1 FMA of 512 bits, 1 load, 0 stores; 1 is of the stack" in text
        assert "Lines 2 to 3 of main_compute_ , inside of 1 other loop." in text

    @pytest.mark.parametrize(
        ("kind", "text"), [("tir", "def lowered ()"), ("llvm", "define"), ("nonsense", "def lowered ()")]
    )
    def test_each_form_has_a_link(self, viewer: Client, kind: str, text: str) -> None:
        page = opened(viewer, f"record=2&code={kind}")
        assert text in words(page)
        for other in ("tir", "llvm", "asm"):
            assert f'href="?record=2&amp;code={other}#record"' in page
        assert "Hot loop" not in words(page)

    def test_it_says_that_no_hot_loop_was_found(self, viewer: Client, made: list[showing.CodeState]) -> None:
        made.append(Generated([Listing("tir", "…"), Listing("asm", ASSEMBLY)]))
        assert "No hot loop was found" in words(opened(viewer, "record=2&code=asm"))

    def test_it_says_that_there_is_no_compiler(self, viewer: Client, made: list[showing.CodeState]) -> None:
        made.append(Generated([Listing("tir", "def lowered(): ...")]))
        assert "Only the lowered TIR" in words(opened(viewer, "record=2&code=asm"))

    def test_it_shows_what_kernels_need(self, viewer: Client, made: list[showing.CodeState]) -> None:
        made.append(CUDA)
        text = words(opened(viewer, "record=2&code=asm"))
        assert "main_kernel 12.5 % 8 of 64 warps, limited by registers 255 nothing 20.0 KB 32 64" in text
        assert "main_kernel_1 no block fits for lack of registers 128 380 + 404 B 0 bytes 768 1" in text
        assert "By ptxas 13.0.88 for sm_80" in text
        assert "Install nvdisasm." in text
        assert "__global__" in text, "CUDA C++ is what such a target has instead of assembly"

    def test_it_gives_no_occupancy_that_is_not_known(self, viewer: Client, made: list[showing.CodeState]) -> None:
        unknown = Kernel("main_kernel", 1, 32, 16, 0, 0, 0, 0, None)
        made.append(Generated([Listing("cuda", "…")], Kernels("ptxas 14.0.1", "sm_130", [unknown])))
        assert "limits of sm_130 aren’t known here" in words(opened(viewer, "record=2&code=cuda"))

    def test_it_says_what_is_missing_for_kernels(self, viewer: Client, made: list[showing.CodeState]) -> None:
        made.append(Generated([Listing("tir", "…"), Listing("cuda", "__global__")], missing=["Install nvcc."]))
        page = opened(viewer, "record=2&code=cuda")
        assert "Install nvcc." in words(page)
        assert 'data-role="kernels"' not in page

    def test_the_page_polls_and_says_why_it_failed(self, viewer: Client, made: list[showing.CodeState]) -> None:
        made.append(Applying("Building the schedule"))
        page = opened(viewer, "record=2&code=asm")
        assert "Building the schedule…" in words(page)
        assert 'hx-get="?record=2&amp;code=asm" hx-trigger="every 1s"' in page
        made.append(Failed("TVM can't build it."))
        assert "The code of trial 2 can’t be shown. TVM can't build it." in words(opened(viewer, "record=2&code=asm"))

    def test_a_listing_is_downloaded_whole(self, viewer: Client, made: list[showing.CodeState]) -> None:
        opened(viewer, "")
        path = f"/runs/{Run.objects.get().pk}/tasks/0/code/2/"
        answer = viewer.get(f"{path}asm/")
        assert answer.content.decode() == ASSEMBLY
        assert answer["Content-Disposition"].endswith('_task-0_trial-2.s"')
        assert answer["Content-Type"].startswith("text/plain")
        assert [
            viewer.get(f"{path}cuda/").status_code,
            viewer.get(path.replace("/2/", "/9/") + "asm/").status_code,
        ] == [404] * 2
        made.append(Applying("Loading TVM"))
        assert viewer.get(f"{path}asm/")["Location"].endswith("?record=2&code=asm#record")


def test_other_engines_say_that_there_is_no_code(viewer: Client) -> None:
    run = measured_run([(0, 1e-3)], engine="autotvm")
    Record.objects.update(text='{"config": {"entity": [["tile", "sp", [-1, 8]]]}}')
    page = viewer.get(f"/runs/{run.pk}/tasks/0/?record=1&code=asm").content.decode()
    assert "aren’t available" in words(page)
    assert viewer.get(f"/runs/{run.pk}/tasks/0/code/1/asm/").status_code == 302


class TestWhichDecisionsMatter:
    NAME = ("tiling of i of <matmul>", "factor 4 of 4, innermost")

    def shown(self, viewer: Client, monkeypatch: pytest.MonkeyPatch, *spaces: Space, query: str = "") -> str:
        run = Run.objects.first() or measured_run()
        monkeypatch.setattr(tasks, "decided", lambda _task: Decided([*spaces], 1, 0))
        page: str = viewer.get(f"/runs/{run.pk}/tasks/0/decisions/{query}").content.decode()
        return page

    def space(self, count: int, importance: Importance[tuple[str, str]] | None = None) -> Space:
        return Space([Tried(nth + 1, 1e-3 * (nth + 1), {self.NAME: nth % 4}) for nth in range(count)], importance)

    def test_the_sentence_names_the_decision_that_explains_most(
        self, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = self.shown(viewer, monkeypatch, self.space(40, Importance([(self.NAME, 0.62)], 0.1)), self.space(3))
        assert "Tiling of i of &lt;matmul&gt; (factor 4 of 4, innermost) explains 62.0\u00a0% of the spread" in page
        assert page.count("<polyline") == 40
        assert "?record=40#record" in page
        assert page.rindex("<title>Trial 1:") > page.rindex("<title>Trial 40:"), "the fastest is on top"
        assert "Design space 2" in page

    def test_chance_and_few_trials_are_said(self, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        chance = self.space(40, Importance([(self.NAME, 0.1)], 0.2))
        assert "than chance would" in self.shown(viewer, monkeypatch, chance)
        few = self.shown(viewer, monkeypatch, chance, self.space(3), query="?space=2")
        assert "can’t be told from 3 trials: at least 30 are needed" in few
        assert few.count("<polyline") == 3
        assert "told from 1 trial: " in self.shown(viewer, monkeypatch, self.space(1))

    def test_many_lines_are_thinned(self, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        page = self.shown(viewer, monkeypatch, self.space(1000))
        assert page.count("<polyline") == 400
        assert "600 slower trials are left out" in page

    def test_it_says_why_there_is_nothing(self, viewer: Client, settings: Any, tmp_path: Path) -> None:
        settings.VAR = tmp_path
        run = measured_run()
        assertContains(viewer.get(f"/runs/{run.pk}/tasks/0/decisions/"), "isn’t here anymore")

    def test_the_page_asks_for_it_when_it_is_opened(self, viewer: Client) -> None:
        run = measured_run()
        page = viewer.get(f"/runs/{run.pk}/tasks/0/")
        assertContains(page, f'hx-get="/runs/{run.pk}/tasks/0/decisions/"')
        assertNotContains(page, "<polyline")

    def test_values_are_in_order(self, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        values: list[int | str] = ["loop 10", "loop 9", "inlined", 16, 2]
        space = Space([Tried(nth + 1, 1e-3, {self.NAME: value}) for nth, value in enumerate(values)], None)
        page = self.shown(viewer, monkeypatch, space)
        ticks = re.findall(r'class="tick"[^>]* y="([\d.]+)"[^>]*>([^<]+)', page)[: len(values)]
        assert [text for _, text in sorted(ticks, key=lambda one: -float(one[0]))] == [
            "2",
            "16",
            "inlined",
            "loop 9",
            "loop 10",
        ]
