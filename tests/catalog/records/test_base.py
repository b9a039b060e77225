"""Versions that compare, spans of compute capability, and records that refuse what they do not know."""

import msgspec
import pytest

from provision.catalog.records.base import Capabilities, Source, version


def test_versions_compare_by_number_and_without_their_local_part() -> None:
    assert version("2.10.0") > version("2.9.1")
    assert version("2.14.1+cu126") == version("2.14.1")


@pytest.mark.parametrize(("capability", "covered"), [("7.0", False), ("7.5", True), ("8.9", True), ("12.1", True), ("12.2", False)])
def test_a_span_includes_both_ends_and_compares_by_number(capability: str, *, covered: bool) -> None:
    assert Capabilities("7.5", "12.1").cover(capability) is covered


def test_a_record_refuses_a_field_that_it_does_not_have_and_a_grade_that_does_not_exist() -> None:
    plain = {"title": "a page", "url": "https://example.com", "date": "2026-11-21", "grade": "documented"}
    assert msgspec.convert(plain, Source).as_dict() == plain
    for wrong in ({"pages": 1}, {"grade": "rumour"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**plain, **wrong}, Source)
