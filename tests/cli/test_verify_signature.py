"""`gpuprov verify-signature` of a bundle that nobody signed; of signed ones: test_sign.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.review import bundle
from tests.cli.conftest import Call
from tests.review.samples import People, small


@pytest.fixture
def path(tmp_path: Path) -> Path:
    bundle.write(tmp_path / "t4.bundle", small(None))
    return tmp_path / "t4.bundle"


def test_without_a_list_of_signers_nothing_can_be_said(call: Call, path: Path) -> None:
    code, out, err = call("verify-signature", str(path))
    assert (code, out, "error[signature-missing]" in err) == (2, "", True)


def test_a_changed_page_is_refused_before_any_signature_is_looked_at(call: Call, path: Path, tmp_path: Path) -> None:
    (path / "review.md").write_text("# all is well\n")
    code, _, err = call("verify-signature", str(path), "--signers", str(People.make(tmp_path / "isa").signers))
    assert (code, "error[bundle-invalid]" in err) == (2, True), err
