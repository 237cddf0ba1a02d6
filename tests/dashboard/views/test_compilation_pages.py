"""Compilation pages, and the list of compilations on a run's page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from tests import older_tvm
from tests.world import make_compilation, make_run, make_user, measured_run, publish, tuned_for_cuda
from tuning.actions.networks.chosen import stored
from tuning.models import Benchmark, Compilation, Network, Run
from tuning.queue import jobs
from tuning.reads.library import tvm

pytestmark = pytest.mark.django_db
UNPROVEN: dict[str, Any] = dict.fromkeys(("verified", "max_abs_error", "max_rel_error", "tolerance", "finished_at"))
UNBUILT = UNPROVEN | {"stage": "build", "sha256": None, "size": None, "estimate_s": None, "used": [], "untuned": []}


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of enqueued compilations."""
    keys: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda one: keys.append(one.pk))
    return keys


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(make_user("operator"))
    return client


@pytest.fixture
def viewer() -> Client:
    client = Client()
    client.force_login(make_user("viewer"))
    return client


def ended(**values: Any) -> Run:
    run = measured_run(**({"versions": {"apache-tvm": tvm()}} | values))
    run.move("running", to="finished")
    return run


def page(client: Client, compilation: Compilation) -> Any:
    return client.get(f"/compilations/{compilation.pk}/")


def test_a_run_is_compiled_from_its_page(operator: Client, enqueued: list[int]) -> None:
    run = ended()
    shown = operator.get(f"/runs/{run.pk}/")
    assertContains(shown, 'data-role="compile"')
    assertNotContains(shown, 'data-role="compile" disabled')
    answer = operator.post(f"/runs/{run.pk}/compile/", {"source": "library"})
    made = Compilation.objects.get()
    assert answer.headers["Location"] == f"/compilations/{made.pk}/"
    assert (made.run, made.source, made.status, enqueued) == (run, "library", "queued", [made.pk])
    assert made.created_by is not None
    assertContains(page(operator, made), "queued: waiting for a worker")


def test_without_a_valid_record_the_page_says_why_it_cannot_be_compiled(operator: Client) -> None:
    run = ended(latencies=[(0, None)])
    shown = operator.get(f"/runs/{run.pk}/")
    assertContains(shown, 'data-role="compile" disabled')
    assertContains(shown, "no valid record yet")
    operator.post(f"/runs/{run.pk}/compile/", {"source": "run"})
    assert not Compilation.objects.exists()
    assertContains(operator.get(f"/runs/{run.pk}/"), "no valid record yet")


def test_a_run_without_records_can_be_compiled_with_those_of_other_runs(operator: Client) -> None:
    ended()
    choices = operator.get(f"/runs/{ended(latencies=[(0, None)]).pk}/").context["compile_sources"]
    assert (choices["chosen"], choices["blocked"]) == ("library", None)


def test_it_says_that_another_tvm_tuned_the_run(operator: Client) -> None:
    run = ended(versions={"apache-tvm": "0.1.0"})
    choices = operator.get(f"/runs/{run.pk}/").context["compile_sources"]
    assert "0.1.0" in choices["blocked"]


def of_older_tvm(**values: Any) -> Run:
    """An ended run of AutoTVM, whose network an older TVM defines."""
    options = {"batch": 1, "dtype": "float32", "source": "relay.testing"}
    relays, _ = Network.objects.get_or_create(fingerprint="relay's", defaults={"name": "mlp", "options": options})
    versions = {"apache-tvm": "0.9.dev0"}
    return ended(**{"engine": "autotvm", "interpreter": "tvm0.9", "network": relays, "versions": versions} | values)


def test_a_run_of_an_older_tvm_is_compiled_from_its_page(
    operator: Client, enqueued: list[int], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_tvm.name(settings, monkeypatch)
    run = of_older_tvm()
    assert operator.get(f"/runs/{run.pk}/").context["compile_sources"]["chosen"] == "run"
    operator.post(f"/runs/{run.pk}/compile/", {"source": "run"})
    assert enqueued == [Compilation.objects.get().pk]
    settings.LEGACY_PYTHON = {}
    assertContains(operator.get(f"/runs/{run.pk}/"), "TUNEBOARD_LEGACY_PYTHON doesn&#x27;t name")


def test_the_program_for_a_library_of_an_older_tvm_is_its_own(operator: Client) -> None:
    compilation = make_compilation(of_older_tvm(), versions={"apache-tvm": "0.9.dev0"})
    publish(compilation)
    (snippet,) = page(operator, compilation).context["snippets"]
    assert snippet["language"] == "python"
    assert "with a Python that has TVM 0.9.dev0" in snippet["text"]
    assert 'network.set_input("x", random.standard_normal((1, 784)).astype("float32"))' in snippet["text"]
    compile(snippet["text"], snippet["file_name"], "exec")


def test_an_unknown_source_of_records_is_refused(operator: Client) -> None:
    run = ended()
    answer = operator.post(f"/runs/{run.pk}/compile/", {"source": "elsewhere"}, follow=True)
    assertContains(answer, "Not compiled.")
    assert not Compilation.objects.exists()


def test_viewers_can_look_and_download_but_change_nothing(viewer: Client) -> None:
    run = ended()
    compilation = make_compilation(run)
    publish(compilation)
    assertNotContains(viewer.get(f"/runs/{run.pk}/"), 'data-role="compile"')
    shown = page(viewer, compilation)
    assertContains(shown, 'data-role="download-library"')
    assertNotContains(shown, 'data-role="benchmark"')
    for path in (
        f"/runs/{run.pk}/compile/",
        *(f"/compilations/{compilation.pk}/{action}/" for action in ("cancel", "benchmark")),
    ):
        assert viewer.post(path).status_code == 403


def test_the_dialog_offers_any_batch_if_others_were_tuned(operator: Client, enqueued: list[int]) -> None:
    run = ended()
    eight = stored("mlp", {"batch": 8}, None)
    assert operator.get(f"/runs/{run.pk}/untuned/").context["batches"] is None, "nobody of the project has tuned it"
    ended(network=eight, latencies=[(0, None)])
    shown = operator.get(f"/runs/{run.pk}/untuned/")
    assertContains(shown, 'name="batches" value="all" disabled')
    assertContains(shown, "No run of the project has tuned other batches")
    other = ended(network=eight)
    shown = operator.get(f"/runs/{run.pk}/untuned/")
    assertContains(shown, f"It has functions for 1 and 8, with records of #{run.pk} and #{other.pk}.")
    operator.post(f"/runs/{run.pk}/compile/", {"source": "run", "batches": "all"})
    assert [one["batch"] for one in Compilation.objects.get().batches] == [1, 8]


def test_a_library_for_any_batch_shows_each(viewer: Client) -> None:
    run = ended()
    batches: list[dict[str, Any]] = [
        {"batch": batch, "run": run.pk if batch == 1 else 99, "estimate_s": batch * 1e-3, "used": [{}], "untuned": []}
        for batch in (1, 8)
    ]
    compilation = make_compilation(run, batches=batches)
    sides = {"tuned": [16e-3], "untuned": [99e-3], "onnxruntime": [24e-3]}
    proven = {"max_abs_error": 1e-6, "max_rel_error": 2e-7, "without_onnxruntime": None}
    compilation.benchmarks.update(batches=[{"batch": 8, "rounds": sides} | proven])
    publish(compilation)
    shown = page(viewer, compilation)
    one, eight = shown.context["batches"]
    assert (one.tuned_s, one.each_s, one.over_onnxruntime) == (None, None, None)
    assert (eight.each_s, eight.over_onnxruntime) == (pytest.approx(2e-3), pytest.approx(1.5))
    assertContains(shown, "Benchmark of batch 1")
    assertContains(shown, "# Any batch will do: the first axis may be of any size.")
    assertContains(page(viewer, make_compilation(run)), 'id="batches" hidden')


def test_a_runs_page_lists_its_compilations(viewer: Client) -> None:
    run = ended()
    first, second = make_compilation(run), make_compilation(run, **UNBUILT, status="failed", error="No compiler.\nLog")
    shown = viewer.get(f"/runs/{run.pk}/")
    assert [one for one, _ in shown.context["compilations"]] == [second, first]
    for text in ("1 of 2", "same outputs", "9.000\u00a0ms", "10.0×", "No compiler."):
        assertContains(shown, text)
    another = viewer.get(f"/runs/{make_run().pk}/")
    assert another.context["compilations"] == []
    assertContains(another, 'id="compilations" data-waiting="no" hidden')


def test_a_finished_compilation_shows_verification_benchmark_and_downloads(viewer: Client) -> None:
    compilation = make_compilation()
    publish(compilation)
    shown = page(viewer, compilation)
    for text in (
        "1 of 2 functions use a tuned record",
        "fused_matmul1",
        "no record: built untuned",
        "Verified: outputs match the untuned library&#x27;s. They differ by at most 3e-07",
        "3.0e-07",
        "8.165",
        "measured is 1.29× the estimate",
        "Records that were confirmed at the end of their run count with their confirmed latency",
        "ONNX Runtime isn&#x27;t installed.",
        f"/api/v1/compilations/{compilation.pk}/manifest",
        "VirtualMachine",
    ):
        assertContains(shown, text)
    assertContains(shown, 'id="history" hidden')


def test_accuracy_stands_beside_speed_in_a_smaller_type(viewer: Client) -> None:
    """The untuned library is the network's own, in float32."""
    run = ended(options={"precision": "bfloat16"})
    off = {"max_abs_error": 0.02, "max_rel_error": 0.0031, "tolerance": {"dtype": "bfloat16", "relative": 0.1}}
    compilation = make_compilation(run, **off)
    publish(compilation)
    shown = page(viewer, compilation)
    for text in (
        '<span data-role="accuracy">0.3\u00a0% off the largest output in float32</span>',
        "Verified: outputs match those of the untuned library in float32. They differ by at most 0.02, 0.0031 of the largest",
        "(0.1 is allowed for bfloat16).",
    ):
        assertContains(shown, text)
    assertContains(viewer.get(f"/runs/{run.pk}/"), "0.3\u00a0% off float32")
    assert compilation.to_dict()["precision"] == "bfloat16"
    assert make_compilation(ended()).to_dict()["precision"] == "network", "as of a run from before there was a choice"


def test_a_library_of_integers_is_judged_in_quantization_steps(operator: Client) -> None:
    tolerance = {"dtype": "float32", "relative": 2 / 127, "steps": 2}
    made = make_compilation(max_abs_error=0.05, max_rel_error=0.007, tolerance=tolerance)
    shown = operator.get(f"/compilations/{made.pk}/")
    assertContains(shown, "(0.0157 is allowed for float32: 2 quantization steps, as it computes in integers).")
    assertContains(shown, "of the largest output: 2 quantization steps</dd>")


@pytest.mark.parametrize(
    ("verified", "primary"), [(True, "download-library"), (None, "benchmark"), (False, "benchmark")]
)
def test_its_main_button_is_what_comes_next(operator: Client, verified: bool | None, primary: str) -> None:
    compilation = make_compilation(verified=verified)
    publish(compilation)
    buttons = re.findall(
        r'class="button primary"[^>]*data-role="([\w-]+)"', page(operator, compilation).content.decode()
    )
    assert buttons == [primary]


def test_a_functions_record_links_to_its_schedule_while_it_is_kept(viewer: Client) -> None:
    compilation = make_compilation()
    link = f"/runs/{compilation.run_id}/tasks/0/?record=3#record"
    assertContains(page(viewer, compilation), link)
    compilation.run.tasks.get(index=0).records.all().delete()
    assertNotContains(page(viewer, compilation), link)


def tried(*trials: int) -> list[dict[str, Any]]:
    """Records that take 1 ms alone, and inside as many ms as their trial's number says."""
    return [{"run": 1, "trial": trial, "latency_s": 1e-3, "inside_s": trial * 1e-3} for trial in trials]


def chosen_inside(*, kept: bool, chosen: int = 1) -> Compilation:
    run = ended()
    function = {"function": "fused_matmul0", "calls": 2, "tried": tried(5, 3), "chosen": chosen}
    rounds = {"best": [0.020, 0.022, 0.021], "chosen": [0.016, 0.017, 0.018]} if chosen else {}
    return make_compilation(run, chosen={"functions": [function], "rounds": rounds, "kept": kept})


@pytest.mark.parametrize(
    ("kept", "chosen", "said", "inside"),
    [
        (
            True,
            1,
            "1 of 1 functions is faster with another record. So they were kept: one inference took 17.00\u00a0ms with them and 21.00\u00a0ms",
            "3.000\u00a0ms",
        ),
        (False, 1, "Together they don’t gain clearly (one inference took 17.00\u00a0ms", "5.000\u00a0ms"),
        (
            False,
            0,
            "than the best one. The best records take 2.000\u00a0ms alone, and 10.00\u00a0ms inside, ",
            "5.000\u00a0ms",
        ),
    ],
    ids=["kept", "not-kept", "none"],
)
def test_it_says_what_was_chosen_inside_the_network(
    viewer: Client, *, kept: bool, chosen: int, said: str, inside: str
) -> None:
    shown = page(viewer, chosen_inside(kept=kept, chosen=chosen))
    assertContains(shown, said)
    assertContains(shown, f'title="Tried inside: trial 5 5.000\u00a0ms, trial 3 3.000\u00a0ms">{inside}</td>')
    instead = "instead of trial 5: 5.000\u00a0ms inside"
    (assertContains if kept else assertNotContains)(shown, instead)


def profiled(*parts: tuple[str, int, float]) -> Compilation:
    """Its latest benchmark has these parts: function, calls, and seconds of a call inside."""
    compilation = make_compilation()
    functions = [{"function": name, "calls": calls, "inside_s": inside_s} for name, calls, inside_s in parts]
    profile = {"functions": functions, "machine_s": 21e-6, "machine_calls": 1142}
    compilation.benchmarks.update(profile=profile)
    return compilation


def test_it_says_where_the_time_of_an_inference_goes(viewer: Client) -> None:
    used = make_compilation().used[0]
    compilation = profiled((used["function"], 2, 1.5 * used["latency_s"]))
    shown = page(viewer, compilation)
    took = f"take {3 * used['latency_s'] * 1e3:.2f}".rstrip("0")
    assertContains(shown, f"In the network, the functions {took}")
    assertContains(shown, "1.50× what their records take alone; 1,142 calls of the virtual machine itself")
    assertContains(shown, "take 21.00\u00a0µs.")
    assertContains(shown, '<td class="r num">100.0\u00a0%</td>')


def test_what_has_no_record_is_not_compared_with_it(viewer: Client) -> None:
    used = make_compilation().used[0]["function"]
    shown = page(viewer, profiled((used, 1, 1e-3), ("fused_matmul1", 3, 1e-3)))
    assertContains(shown, "In the network, the functions take 4.000\u00a0ms; 1,142 calls")
    assertContains(shown, '<td class="r num">75.0\u00a0%</td>')


def test_without_it_there_is_no_word_of_it(viewer: Client) -> None:
    assertNotContains(page(viewer, make_compilation()), "nside")


@pytest.mark.parametrize(("number", "said"), [(4, "4 CUDA graphs,"), (1, "one CUDA graph,"), (0, "No kernel could be")])
def test_it_says_how_kernels_are_launched(viewer: Client, number: int, said: str) -> None:
    assertContains(page(viewer, make_compilation(cuda_graphs=number)), said)


def test_kernels_can_be_launched_one_by_one(operator: Client, enqueued: list[int]) -> None:
    assertNotContains(operator.get(f"/runs/{ended().pk}/"), "cuda_graphs")
    run = tuned_for_cuda(versions={"apache-tvm": tvm()})
    assertContains(operator.get(f"/runs/{run.pk}/"), 'name="cuda_graphs" value="off"')
    operator.post(f"/runs/{run.pk}/compile/", {"source": "run", "cuda_graphs": "off"})
    made = Compilation.objects.get()
    assert made.cuda_graphs is None
    assertNotContains(page(operator, made), "CUDA graph")


def test_a_run_is_compiled_with_records_chosen_inside(operator: Client, enqueued: list[int]) -> None:
    run = ended()
    assertNotContains(operator.get(f"/runs/{run.pk}/"), 'value="inside" disabled')
    operator.post(f"/runs/{run.pk}/compile/", {"source": "run", "choose": "inside"})
    assert Compilation.objects.get().stage == "choose"
    assertContains(page(operator, Compilation.objects.get()), "queued: waiting for cpu")


def test_unknown_figures_are_shown_as_such(viewer: Client) -> None:
    running = make_compilation(**UNBUILT, status="running", phase="building")
    shown = page(viewer, running)
    assertContains(shown, "building the tuned and untuned libraries")
    assertContains(shown, "Not verified yet.")
    assertNotContains(shown, "ms</span>")
    assertNotContains(shown, 'data-role="download-library"')


def test_a_waiting_verification_says_what_it_waits_for(viewer: Client) -> None:
    waiting = make_compilation(**UNPROVEN, status="queued")
    assertContains(page(viewer, waiting), "queued: waiting for cpu")


def test_a_failed_compilation_says_why_and_shows_the_end_of_its_log(operator: Client) -> None:
    failed = make_compilation(
        **UNBUILT, status="failed", error="It ran out of memory.\nThe log's last lines:\nLLVM ERROR"
    )
    shown = page(operator, failed)
    for text in ("It ran out of memory.", "No library was published, and the run hasn’t changed.", "LLVM ERROR"):
        assertContains(shown, text)
    assert shown.context["nothing_made"]


def test_the_whole_log_can_be_downloaded(viewer: Client) -> None:
    compilation = make_compilation()
    path = f"/api/v1/compilations/{compilation.pk}/console.log"
    assert viewer.get(path).status_code == 409
    assertNotContains(page(viewer, compilation), path)
    compilation.folder.mkdir(parents=True)
    compilation.console_log.write_text("Linked.\n")
    assertContains(page(viewer, compilation), path)
    answer = viewer.get(path)
    assert answer.getvalue() == b"Linked.\n"
    assert f"compilation-{compilation.pk}_console.log" in answer.headers["Content-Disposition"]


def test_a_missing_library_is_reported(viewer: Client) -> None:
    shown = page(viewer, make_compilation())
    assertContains(shown, "files are missing")
    assertNotContains(shown, "/artifact")


def test_differing_outputs_are_shown_as_an_error(viewer: Client) -> None:
    wrong = make_compilation(verified=False, max_abs_error=None, max_rel_error=None, error="Not finite: don't use it.")
    shown = page(viewer, wrong)
    assertContains(shown, 'data-verified="no"')
    assertContains(shown, "an output isn’t finite")


def test_it_is_cancelled_and_benchmarked_again(operator: Client, enqueued: list[int]) -> None:
    compilation = make_compilation()
    publish(compilation)
    operator.post(f"/compilations/{compilation.pk}/benchmark/")
    compilation.refresh_from_db()
    assert (compilation.status, compilation.stage, enqueued) == ("queued", "prove", [compilation.pk])
    assertContains(
        operator.post(f"/compilations/{compilation.pk}/benchmark/", follow=True), "wait until that has ended"
    )
    operator.post(f"/compilations/{compilation.pk}/cancel/")
    compilation.refresh_from_db()
    assert compilation.status == "finished"
    assertContains(
        operator.post(f"/compilations/{compilation.pk}/cancel/", follow=True), "only a queued or running one"
    )


@pytest.mark.parametrize(
    ("onnxruntime_s", "headline"),
    [
        (5e-3, "10.0\u00a0ms: 9.00× as fast as the untuned library, 2.00× the time of ONNX Runtime 1.22.0."),
        (30e-3, "10.0\u00a0ms: 9.00× as fast as the untuned library, 3.00× as fast as ONNX Runtime 1.22.0."),
        (10.01e-3, "10.0\u00a0ms: 9.00× as fast as the untuned library, as fast as ONNX Runtime 1.22.0."),
    ],
    ids=["slower", "faster", "same"],
)
def test_the_headline_sets_it_beside_onnx_runtime(viewer: Client, onnxruntime_s: float, headline: str) -> None:
    compilation = make_compilation()
    publish(compilation)
    rounds = {"tuned": [10e-3, 10e-3], "untuned": [90e-3, 90e-3], "onnxruntime": [onnxruntime_s] * 2}
    Benchmark.objects.create(compilation=compilation, rounds=rounds, onnxruntime="1.22.0")
    shown = page(viewer, compilation)
    assert shown.context["headline"] == headline.replace("10.0\u00a0ms", "10.00\u00a0ms")
    assertContains(shown, 'data-role="headline"')
    assertNotContains(shown, 'data-role="restless"')
    told = viewer.get(f"/api/v1/compilations/{compilation.pk}").json()
    assert told["speedup_over_onnxruntime"] == pytest.approx(onnxruntime_s / 10e-3)


def test_the_headline_says_what_it_was_not_compared_with(viewer: Client) -> None:
    shown = page(viewer, make_compilation())
    assert shown.context["headline"].endswith("not compared with ONNX Runtime (ONNX Runtime isn't installed).")
    assert page(viewer, make_compilation(**UNBUILT, status="running")).context["headline"] == ""


@pytest.mark.parametrize(
    ("untuned", "said"),
    [
        (5, "5 alternating rounds"),
        (3, "5 rounds, the first 3 alternating"),
        (1, "5 alternating rounds; Untuned ran once"),
    ],
)
def test_it_says_in_how_many_rounds_the_sides_took_turns(viewer: Client, untuned: int, said: str) -> None:
    compilation = make_compilation()
    Benchmark.objects.create(compilation=compilation, rounds={"tuned": [2.0] * 5, "untuned": [60.0] * untuned})
    shown = page(viewer, compilation)
    assertContains(shown, f"ms per inference, {said}</p>")
    deviates = {one["key"]: one["latency"]["std_s"] for one in shown.context["sides"] if one["latency"]}
    assert deviates == {"tuned": 0.0, "untuned": 0.0 if untuned > 1 else None}


def test_it_warns_of_rounds_that_differ_much(viewer: Client) -> None:
    compilation = make_compilation()
    rounds = {"tuned": [8e-3, 9e-3, 14e-3], "untuned": [90e-3, 91e-3, 92e-3]}
    Benchmark.objects.create(compilation=compilation, rounds=rounds)
    shown = page(viewer, compilation)
    assert "standard deviation of Tuned (29.2\u00a0%) is above 10\u00a0%" in shown.context["restless"]
    assertContains(shown, "8.000 to 14.00\u00a0ms")


def test_the_dialog_tells_which_tasks_have_no_record(viewer: Client) -> None:
    elsewhere = ended(latencies=[(1, 2e-3)])
    run = ended(latencies=[(0, 1e-3), (1, None)])
    shown = viewer.get(f"/runs/{run.pk}/untuned/")
    assertContains(
        shown, "The best of this run: 1 of 2 tasks has no record and would be built untuned: fused_matmul1 (×2)."
    )
    assertContains(shown, "all 1 trials failed")
    assertContains(shown, "The best over all runs: Each of the 2 tasks has a record.")
    elsewhere.tasks.get(index=1).records.all().delete()
    assertContains(viewer.get(f"/runs/{run.pk}/untuned/"), "no run has a record of it for this target and TVM")


def test_repeated_benchmarks_have_a_history_and_a_chart(viewer: Client) -> None:
    compilation = make_compilation()
    publish(compilation)
    rounds = {"tuned": [7e-3], "untuned": [70e-3, 72e-3], "onnxruntime": [5e-3]}
    latest = Benchmark.objects.create(compilation=compilation, rounds=rounds, onnxruntime="1.22.0")
    shown = page(viewer, compilation)
    assertNotContains(shown, 'id="history" hidden')
    assert shown.context["benchmarks"][0]["id"] == latest.pk
    figure = viewer.get(f"/compilations/{compilation.pk}/figures/").json()["history"]
    medians = [trace["y"] for trace in figure["data"]]
    assert medians == [pytest.approx([9e-3, 7e-3]), pytest.approx([90e-3, 71e-3]), [5e-3]]
    assert figure["data"][1]["error_y"]["arrayminus"] == pytest.approx([10e-3, 1e-3])


@pytest.mark.parametrize(
    ("more", "names"),
    [({}, ["Tuned", "Untuned"]), ({"float_model": [18e-3]}, ["Tuned", "Untuned", "Float model"])],
    ids=["two sides", "a quantized model"],
)
def test_the_chart_has_the_sides_that_were_measured(
    viewer: Client, more: dict[str, list[float]], names: list[str]
) -> None:
    compilation = make_compilation()
    publish(compilation)
    compilation.benchmarks.update(rounds={"tuned": [7e-3], "untuned": [70e-3]} | more)
    figure = viewer.get(f"/compilations/{compilation.pk}/figures/").json()["history"]
    assert [trace["name"] for trace in figure["data"]] == names


def test_unknown_compilations_are_not_found(operator: Client) -> None:
    assert operator.get("/compilations/9/").status_code == 404
    assert operator.post("/runs/9/compile/").status_code == 404


def test_names_are_escaped(viewer: Client) -> None:
    evil = make_compilation(untuned=["<script>alert(1)</script>"], error="<script>alert(2)</script>")
    publish(evil)
    assertNotContains(page(viewer, evil), "<script>alert")


def test_the_number_of_queries_is_constant(viewer: Client, django_assert_max_num_queries: Any) -> None:
    run = ended()
    compilation = [make_compilation(run) for _ in range(8)][-1]
    publish(compilation)
    with django_assert_max_num_queries(9):
        page(viewer, compilation)


def test_a_library_of_a_quantized_model_is_shown_beside_the_float_model(viewer: Client) -> None:
    compilation = make_compilation(ended())
    found = {"network": 3, "name": "floats", "samples": 8, "rms_error": 0.021, "max_error": 0.074, "rows": 8}
    found |= {"same_largest": 7, "without": None}
    rounds = {"tuned": [8e-3, 9e-3, 10e-3], "untuned": [80e-3] * 3, "float_model": [18e-3] * 3}
    compilation.benchmarks.update(accuracy=found, rounds=rounds)
    shown = page(viewer, compilation)
    assertContains(shown, "Outputs differ from those of the float model floats by 2.1\u00a0% (root mean square)")
    assertContains(shown, "at most 7.4\u00a0% of the largest, over 8 random inputs. In 7 of 8 rows")
    assertContains(shown, "2.00× as fast as the float model in ONNX Runtime")
    assertContains(
        shown, '<tr data-side="float_model"><td>Float model <small class="muted">in ONNX Runtime</small></td>'
    )
    compilation.benchmarks.update(accuracy=found | {"without": "ONNX Runtime isn't installed."})
    assertContains(
        page(viewer, compilation), "Not compared with the float model floats: ONNX Runtime isn&#x27;t installed."
    )
    compilation.benchmarks.update(accuracy=found | {"rms_error": None, "max_error": None})
    assertContains(page(viewer, compilation), "isn’t finite")
    compilation.benchmarks.update(accuracy=None)
    assertNotContains(page(viewer, compilation), 'data-role="float-model"')
