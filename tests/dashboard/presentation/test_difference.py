"""Two pieces of code side by side."""

from __future__ import annotations

import re
from html import unescape
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.presentation import code
from dashboard.presentation.code import Cell, Hunk, Row, TooLong, difference

SCHEDULE = """def apply_trace(sch):
  b0 = sch.get_sblock(name="matmul")
  v6, v7 = sch.sample_perfect_tile(loop=l3, n=2, decision=[1, 128])
  l8, l9 = sch.split(loop=l3, factors=[v6, v7])
  sch.parallel(loop=l8)
"""


def text(cell: Cell | None) -> str:
    return unescape(re.sub(r"<[^>]+>", "", cell.html)) if cell else ""


def marked(cell: Cell | None) -> list[str]:
    assert cell
    return [unescape(re.sub(r"<[^>]+>", "", found)) for found in re.findall(r"<mark>(.*?)</mark>", cell.html)]


def rows(hunks: list[Hunk]) -> list[Row]:
    return list(chain.from_iterable(hunk.rows for hunk in hunks))


def changed(before: str, after: str) -> list[tuple[str, str]]:
    return [(text(row.left), text(row.right)) for row in rows(difference(before, after)) if row.changed]


def test_equal_texts_have_no_change() -> None:
    (hunk,) = difference(SCHEDULE, SCHEDULE)
    assert not hunk.changed
    assert [(row.left, row.right) for row in hunk.rows] == [(row.left, row.left) for row in hunk.rows]


def test_an_extent_that_differs_is_marked_on_both_sides() -> None:
    hunks = difference(SCHEDULE, SCHEDULE.replace("[1, 128]", "[4, 32]"))
    (row,) = [row for row in rows(hunks) if row.changed]
    assert (marked(row.left), marked(row.right)) == (["1", "128"], ["4", "32"])


def test_renumbered_variables_are_paired() -> None:
    longer = SCHEDULE.replace('"matmul")\n', '"matmul")\n  sch.compute_inline(block=b1)\n').replace("l8", "l10")
    assert changed(SCHEDULE, longer) == [
        ("", "  sch.compute_inline(block=b1)"),
        ("  l8, l9 = sch.split(loop=l3, factors=[v6, v7])", "  l10, l9 = sch.split(loop=l3, factors=[v6, v7])"),
        ("  sch.parallel(loop=l8)", "  sch.parallel(loop=l10)"),
    ]


def test_lines_that_moved_to_another_depth_are_paired() -> None:
    before = 'for i in range(4):\n    with T.sblock("c"):\n        T.reads(a[i, 1])\n'
    after = (
        'for i in T.parallel(4):\n    for j in range(2):\n        with T.sblock("c"):\n            T.reads(a[i + j])\n'
    )
    pairs = [(one.strip(), other.strip()) for one, other in changed(before, after)]
    assert ('with T.sblock("c"):', 'with T.sblock("c"):') in pairs
    assert ("T.reads(a[i, 1])", "T.reads(a[i + j])") in pairs


def test_blocks_are_paired_by_name() -> None:
    before = 'for i in range(4):\n    with T.sblock("c"):\n        T.reads(a[i])\n'
    packing = 'for i in range(4):\n    with T.sblock("a_global"):\n        T.reads(a[i])\n'
    after = f'{packing}for i in range(2):\n    with T.sblock("c_init"):\n        T.reads()\n    with T.sblock("c_update"):\n        T.reads(b[i])\n'
    pairs = [(text(row.left).strip(), text(row.right).strip()) for row in rows(difference(before, after))]
    assert ('with T.sblock("c"):', 'with T.sblock("c_update"):') in pairs
    assert ("", 'with T.sblock("a_global"):') in pairs


def test_equal_lines_far_from_a_change_are_folded() -> None:
    lines = [f"x{'y' * nth} = 0" for nth in range(30)]
    hunks = difference("\n".join(lines), "\n".join([*lines[:15], "new()", *lines[15:]]))
    assert [(hunk.changed, hunk.folded, len(hunk.rows)) for hunk in hunks] == [
        (False, True, 12),
        (False, False, code.CONTEXT),
        (True, False, 1),
        (False, False, code.CONTEXT),
        (False, True, 12),
    ]


def test_code_is_highlighted_and_escaped() -> None:
    (row,) = rows(difference("", 'f("<script>")  # & more'))
    assert row.right
    assert '<span class="s2">' in row.right.html
    assert "<script>" not in row.right.html
    assert text(row.right) == 'f("<script>")  # & more'


def test_too_much_to_compare_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MOST_LINES", 10)
    difference("a\n" * 5, "b\n" * 5)
    with pytest.raises(TooLong, match="6 lines and 5"):
        difference("a\n" * 6, "b\n" * 5)


@given(*[st.lists(st.sampled_from(["", "for i in x:", "  f(1)", "  f(2)", "g[3]", "# <&>"]), max_size=12)] * 2)
def test_no_line_is_lost_or_reordered(before: list[str], after: list[str]) -> None:
    found = rows(difference("\n".join(before), "\n".join(after)))
    for side, given_lines in (("left", before), ("right", after)):
        cells = [cell for row in found if (cell := getattr(row, side))]
        assert [cell.number for cell in cells] == list(range(1, len(cells) + 1))
        assert "\n".join(map(text, cells)) == "\n".join(given_lines).rstrip("\n")
    assert all(row.changed == (text(row.left) != text(row.right) or not (row.left and row.right)) for row in found)
