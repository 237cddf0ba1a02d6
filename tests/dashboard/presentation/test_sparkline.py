from __future__ import annotations

import re

from dashboard.presentation.sparkline import HEIGHT, MARGIN, WIDTH, sparkline


def test_it_has_steps_up_to_the_right_edge() -> None:
    svg = sparkline([[0, 4e-3], [50, 3e-3], [100, 2e-3]], 100)
    (path,) = re.findall(r' d="([^"]+)"', svg)
    middle = HEIGHT // 2
    assert path == f"M2 2H48V{middle}H{WIDTH - MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}"


def test_it_has_a_text_alternative() -> None:
    svg = sparkline([[10, 4e-3], [20, 1.5e-3]], 40)
    assert 'role="img"' in svg
    assert "Estimate from 4.000\u00a0ms at trial 10 to 1.500\u00a0ms" in svg


def test_a_single_point_is_not_drawn() -> None:
    assert sparkline([], 0) == sparkline([[3, 1e-3]], 10) == ""


def test_an_estimate_that_never_changed_is_level() -> None:
    assert "V2" in sparkline([[1, 1e-3], [2, 1e-3]], 2)
