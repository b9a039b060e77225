"""Every doubt has its words."""

from __future__ import annotations

import pytest

from provision.watch.trace.doubts import Doubt, DoubtKind


@pytest.mark.parametrize("kind", DoubtKind)
def test_a_kind_has_words_with_its_figures(kind: DoubtKind) -> None:
    text = str(Doubt(kind, 0.37, 200, ("a", "b")))
    assert text
    assert str(kind) not in text
    figures = {DoubtKind.UNEXPLAINED: "37%", DoubtKind.UNCORRELATED: "37%", DoubtKind.OVERHEAD: "37%", DoubtKind.TOO_FEW: "200"}
    assert figures.get(kind, "") in text
    assert ("a, b" in text) == (kind in {DoubtKind.PART_MISSING, DoubtKind.HALVES_DIFFER})
