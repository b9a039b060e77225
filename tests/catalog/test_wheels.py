"""Wheel sets: each that a resolution can name is shipped, whole and hashed; an index that is down breaks nothing."""

import re

import pytest

from provision.catalog import wheels
from provision.errors import IndexUnreachableError

SETS = {wheel_set.name: wheel_set for wheel_set in wheels.all_sets()}


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_shipped_with_exact_versions_and_hashes(name: str) -> None:
    text = SETS[name].text()
    assert text is not None
    if SETS[name].within and text.startswith(wheels.NONE_FIT):
        return
    lines = wheels.parse(text)
    versions = {wheel.name: wheel.version for wheel in lines}
    for requirement in SETS[name].requirements:
        name, _, version = requirement.partition("==")
        locked = versions[re.split(r"[\[>=]", name)[0]]
        assert locked == version or not version  # a lower bound, or none
    assert len(versions) == len(lines)
    assert all(wheel.sha256 and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in wheel.sha256) for wheel in lines)


def test_an_index_that_is_down_is_one_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "2")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    for name in ("UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(IndexUnreachableError) as caught:
        wheels.resolve_with_uv(SETS["torch-2.10.0-cp312"])
    assert "shipped wheel sets stay in use" in caught.value.hint
    assert SETS["torch-2.10.0-cp312"].text()
