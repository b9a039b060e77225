"""What works on a GPU, release by release."""

from __future__ import annotations

import datetime as dt

import pytest

from provision.catalog.stacks import survey
from provision.errors import StackConflictError

DAY = dt.date(2026, 11, 21)


def test_each_release_resolves_or_says_why_not() -> None:
    lines = survey("v100", "ubuntu 24.04", DAY)
    assert {line["part"] for line in lines} >= {"cuda", "cudnn", "pytorch"}
    assert all(line["driver"] or line["why"] for line in lines)
    refused = [line for line in lines if line["driver"] is None]
    assert any("V100" in line["why"] for line in refused)
    assert any(line["driver"] for line in lines)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(StackConflictError):
        survey("v100", "plan9 4", DAY)
