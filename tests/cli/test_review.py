"""`gpuprov review`: what is printed and written; what the pages say: tests/review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.review import bundle
from tests.cli.conftest import Call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_bundle_lies_where_it_is_said_to_and_has_the_digest_that_is_printed(call: Call, folder: Path) -> None:
    code, out, err = call("review", "t4-train")
    assert code == 0, err
    said, following = out.splitlines()[-2:]
    assert said == f"t4-train.bundle: sha256:{bundle.read(folder / 't4-train.bundle').digest}"
    assert following == "next: read review.html in it, then `gpuprov sign t4-train.bundle --key FILE --as NAME`"


def test_asking_the_embedded_cloud_needs_the_question(call: Call, folder: Path) -> None:
    code, _, err = call("review", "t4-train", "--rehearse")
    assert (code, "--rehearse goes with --ask" in err) == (2, True)
    assert list(folder.iterdir()) == []


def test_a_comparison_writes_nothing_unless_asked_to(call: Call, folder: Path) -> None:
    code, out, _ = call("review", "t4-train", "--against", "t4-train")
    assert (code, out) == (0, "nothing changed since t4-train\n")
    assert list(folder.iterdir()) == []
    code, out, _ = call("review", "t4-train", "--against", "v100-train", "-o", "x.zip", "--json")
    data = json.loads(out)
    assert (code, data["bundle"], data["sha256"]) == (0, "x.zip", bundle.read(folder / "x.zip").digest)
    assert data["changes"]
