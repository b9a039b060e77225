"""Wheel sets: each that a resolution can name is shipped, whole and hashed; an index that is down breaks nothing."""

import re

import pytest

from provision.catalog import wheels
from provision.errors import IndexUnreachableError

SETS = {made.name: made for made in wheels.all_sets()}


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_shipped_with_exact_versions_and_hashes(name: str) -> None:
    text = SETS[name].text()
    assert text is not None
    if SETS[name].within and text.startswith(wheels.NONE_FIT):
        return
    found = wheels.parse(text)
    pinned = {w.name: w.version for w in found}
    for requirement in SETS[name].requirements:
        asked, _, version = requirement.partition("==")
        assert pinned[re.sub(r"\[.*", "", asked)] == version
    assert len(pinned) == len(found)
    assert all(w.sha256 and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in w.sha256) for w in found)


def test_an_index_that_is_down_is_one_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "2")
    for name in ("UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(IndexUnreachableError) as caught:
        wheels.resolve_with_uv(SETS["torch-2.10.0-cp312"])
    assert "shipped wheel sets stay in use" in caught.value.hint
    assert SETS["torch-2.10.0-cp312"].text()
