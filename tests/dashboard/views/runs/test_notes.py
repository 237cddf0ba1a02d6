"""Notes are rendered from Markdown, and can't do harm."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pytest
from django.conf import settings
from django.test import Client
from django.utils.html import escape
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.presentation import notes
from dashboard.presentation.notes import html
from tests.world import make_run, make_user
from tuning.actions.editing import NOTES_BYTES, edit

TAGS = {
    *("a", "p", "br", "hr", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "span", "blockquote", "div"),
    *("ul", "ol", "li", "input", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"href", "title", "rel", "class", "start", "type", "checked", "disabled", "aria-label"}


class Elements(HTMLParser):
    """Every element of an HTML text, as a browser parses it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_harmless(text: str) -> None:
    for tag, attributes in Elements(text).found:
        assert tag in TAGS, text
        assert attributes.keys() <= ATTRIBUTES, text
        if tag == "a":
            scheme = re.match(r"[\s\x00-\x20]*([a-z][a-z0-9+.-]*):", attributes.get("href") or "", re.IGNORECASE)
            assert scheme is None or scheme[1].lower() in ("http", "https", "mailto"), text
            assert attributes["rel"] == "noopener nofollow"
        if tag == "input":
            assert attributes["type"] == "checkbox"


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "<iframe src=javascript:alert(1)></iframe>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt&#58;alert(1))",
        "[x](&#x6A;avascript:alert(1))",
        "[x](java\tscript:alert(1))",
        "[x](<java\u0000script:alert(1)>)",
        "[x](vbscript:x)",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](file:///etc/passwd)",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        "![x](javascript:alert(1))",
        "![x](https://evil.example/pixel.png)",
        '[x](https://a.example "\\" onmouseover=alert(1) \\"")',
        '![" onerror="alert(1)](x)',
        '```"><script>alert(1)</script>\nx\n```',
        "```python\n</code></pre><script>alert(1)</script>\n```",
        "<a href='#' style='position:fixed'>x</a>",
        "<form action=//evil.example><input name=q>",
        "<style>*{display:none}</style>",
        "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
        "| a |\n|:-:|\n| <b onclick=x>y</b> |",
        "[x](//evil.example)",
    ],
)
def test_attacks_are_harmless(attack: str) -> None:
    shown = html(attack)
    assert_harmless(shown)
    assert "<script" not in shown
    assert "<img" not in shown


@profile(max_examples=150)
@given(st.text(st.sampled_from("<>\"'&;:()[]!`*_~|#-=+/\\ \n\tajvscriptonerr=xX01."), max_size=200))
def test_arbitrary_input_yields_safe_html(text: str) -> None:
    assert_harmless(html(text))


def test_html_is_shown_as_text() -> None:
    assert html("a <b>bold</b> claim") == "<p>a &lt;b&gt;bold&lt;/b&gt; claim</p>\n"


def test_it_shows_tables_with_their_alignment() -> None:
    shown = html("| task | ms |\n| :-: | --: |\n| conv2d | 1.5 |")
    assert '<th class="mid">task</th>' in shown
    assert '<td class="r">1.5</td>' in shown
    assert "style" not in shown


def test_it_shows_task_lists() -> None:
    boxes = [attributes for tag, attributes in Elements(html("- [ ] tune\n- [x] launch")).found if tag == "input"]
    assert [("checked" in box, "disabled" in box) for box in boxes] == [(False, True), (True, True)]
    assert all(box["aria-label"] for box in boxes)


def test_it_highlights_code_of_known_languages() -> None:
    assert '<span class="k">def</span>' in html("```python\ndef f(): pass\n```")
    assert "<span" not in html("```brainfuck\n+++\n```")
    assert html("    a < b") == "<pre><code>a &lt; b\n</code></pre>\n"


def test_code_that_takes_quadratic_time_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pygments' C lexer takes 15 seconds for it."""
    monkeypatch.setattr(notes, "HIGHLIGHTING_S", 0.01)
    shown = html("```c\n" + " \n" * 9000 + "int x;\n```")
    assert "<span" not in shown
    assert shown.count("\n") > 9000


def test_highlighting_has_a_limit_for_all_code_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "HIGHLIGHTING_S", -1.0)
    assert "<span" not in html("```python\ndef g(): pass\n```\n\n```python\ndef h(): pass\n```")


def test_waiting_for_a_lexer_takes_nothing_from_highlighting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language's first lexer is imported, which a busy machine takes long for."""

    def slowly(language: str) -> Lexer:
        time.sleep(0.1)
        started = time.thread_time()
        while time.thread_time() - started < 0.1:
            pass
        return get_lexer_by_name(language)

    monkeypatch.setattr(notes, "HIGHLIGHTING_S", 0.05)
    monkeypatch.setattr(notes, "get_lexer_by_name", slowly)
    assert '<span class="k">def</span>' in html("```python\ndef waiting(): pass\n```")


def test_headings_are_below_those_of_the_page() -> None:
    assert [tag for tag, _ in Elements(html("# a\n\n## b\n\n###### c\n\nd\n===")).found] == ["h3", "h4", "h6", "h3"]


def test_pictures_become_links() -> None:
    shown = html("![a plot](https://a.example/plot.png)")
    assert shown == '<p><a href="https://a.example/plot.png" rel="noopener nofollow">a plot</a></p>\n'


def test_it_links_addresses_but_not_files() -> None:
    assert '<a href="https://a.example/x?y=1" ' in html("see https://a.example/x?y=1.")
    assert '<a href="/runs/7/" ' in html("[run 7](/runs/7/)")
    for plain in ("conv2d.py", "resnet.cc", "tvm.s_tir", "www.a.example", "// a.example"):
        assert "<a " not in html(plain)


def test_it_shows_alerts() -> None:
    assert '<div class="markdown-alert markdown-alert-warning">' in html("> [!WARNING]\n> noisy machine")


def test_pathological_input_yields_safe_html() -> None:
    for piece in ("[", "![", "*a_ ", "> ", "`", "<", "a\n\n", "| a ", "[a](", "- ", "&#", "https://a."):
        assert_harmless(html((piece * NOTES_BYTES)[:NOTES_BYTES]))


@pytest.mark.parametrize(
    "text",
    [
        "![" * 32_000,
        "[a](b" * 13_000,
        "|a" * 600 + "|\n" + "|-" * 600 + "|\n" + "|\n" * 100,
        "|a|\n|-|\n" + "|\n" * 30_000,
        "- [ ] a\n" * 8_000,
        "```c\nint a;\n```\n" * 4_000,
        "http://a.b " * 5_000,
        "**a *b_ ~~c " * 5_000,
    ],
    ids=["images", "links", "wide table", "long table", "tasks", "code", "addresses", "emphasis"],
)
def test_a_text_that_takes_too_long_is_shown_as_it_is(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "RENDERING_S", 0.02)
    text += "\n<b>&"
    assert html(text) == f"<pre>{escape(text)}</pre>"


def test_a_text_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    entered, go_on = threading.Event(), threading.Event()

    def lexer(language: str) -> Lexer:
        rendered.append(language)
        entered.set()
        assert go_on.wait(60)
        return get_lexer_by_name(language)

    monkeypatch.setattr(notes, "get_lexer_by_name", lexer)
    monkeypatch.setattr(notes, "_load", lambda _: None)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(html, "```python\nonce = 1\n```") for _ in range(3)]
        assert entered.wait(60)
        # Meanwhile other texts are rendered.
        assert pool.submit(html, "*meanwhile*").result(60) == "<p><em>meanwhile</em></p>\n"
        go_on.set()
        shown = {each.result(60) for each in asked}
    assert shown == {html("```python\nonce = 1\n```")}
    assert rendered == ["python"]


def test_a_text_that_is_too_slow_costs_its_budget_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "RENDERING_S", -1.0)
    shown = html("*twice*" * 100)
    assert shown.startswith("<pre>")
    monkeypatch.undo()
    assert html("*twice*" * 100) is shown


def test_the_latest_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "KEPT", 2)
    first, second = html("1st"), html("2nd")
    assert html("1st") is first
    html("3rd")
    assert html("1st") is first
    assert html("2nd") is not second


def test_a_failed_rendering_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(notes, "_load", fail)
    text = "```python\nagain = 1\n```"
    with pytest.raises(MemoryError):
        html(text)
    monkeypatch.undo()
    assert '<span class="n">again</span>' in html(text)


@pytest.mark.django_db
def test_the_run_page_shows_notes(client: Client) -> None:
    operator = make_user("operator", "ada")
    client.force_login(operator)
    run = edit(make_run(), {"revision": 1, "notes": "**slower** <script>"}, operator)
    page = client.get(f"/runs/{run.pk}/")
    assertContains(page, "<strong>slower</strong> &lt;script&gt;")
    assertContains(page, "edited by ada")
    assertContains(page, 'data-role="notes-edit"')
    part = client.get(f"/runs/{run.pk}/notes/")
    assertContains(part, "<strong>slower</strong>")
    assertContains(part, f'data-revision="{run.revision}"')
    assertNotContains(part, "<html")


@pytest.mark.django_db
def test_viewers_can_read_but_not_edit_notes(client: Client) -> None:
    client.force_login(make_user("viewer"))
    run = edit(make_run(), {"revision": 1, "notes": "read me"}, None)
    for path in (f"/runs/{run.pk}/", f"/runs/{run.pk}/notes/"):
        page = client.get(path)
        assertContains(page, "<p>read me</p>")
        for tool in ("notes-edit", "notes-editor", "rename"):
            assertNotContains(page, f'data-role="{tool}"')


@pytest.mark.django_db
def test_the_preview_stores_nothing(client: Client) -> None:
    client.force_login(make_user("operator"))
    run = make_run()
    shown = client.post("/runs/notes/preview/", {"notes": "*a*\r\nb"})
    assert shown.content.decode() == "<p><em>a</em>\nb</p>\n"
    run.refresh_from_db()
    assert run.notes == ""


@pytest.mark.django_db
@pytest.mark.parametrize(("size", "status"), [(NOTES_BYTES + 1, 422), (settings.DATA_UPLOAD_MAX_MEMORY_SIZE, 413)])
def test_the_preview_refuses_what_is_too_long(client: Client, size: int, status: int) -> None:
    client.force_login(make_user("operator"))
    refused = client.post("/runs/notes/preview/", {"notes": "x" * size})
    assert refused.status_code == status
    assert "64 KiB (65,536 bytes)" in refused.content.decode()
    assert refused.headers["Content-Type"].startswith("text/plain")
