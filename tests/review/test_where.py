"""Where the organisation's files are found."""

import re
from pathlib import Path

import pytest

from provision.errors import PolicyInvalidError, UsageError
from provision.review import policy as policies
from provision.review import where
from provision.review.where import Organisation


def test_the_files_are_found_by_option_then_environment_then_etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("said", "env"):
        (tmp_path / name).touch()
    assert Organisation.find() == Organisation(None, None, None)
    where.FOLDER.mkdir()
    for name in ("policy.yml", "allowed_signers", "revoked_keys"):
        (where.FOLDER / name).touch()
    assert Organisation.find() == Organisation(*(where.FOLDER / n for n in ("policy.yml", "allowed_signers", "revoked_keys")))
    monkeypatch.setenv("GPUPROV_POLICY", str(tmp_path / "env"))
    monkeypatch.setenv("GPUPROV_SIGNERS", "")
    assert Organisation.find() == Organisation(tmp_path / "env", where.FOLDER / "allowed_signers", where.FOLDER / "revoked_keys")
    assert Organisation.find(policy=str(tmp_path / "said")).policy == tmp_path / "said"
    with pytest.raises(UsageError, match=re.escape(str(tmp_path / "no"))):
        Organisation.find(policy=str(tmp_path / "no"))


def test_rules_that_lie_in_etc_and_are_a_dangling_link_are_not_passed_by(tmp_path: Path) -> None:
    where.FOLDER.mkdir()
    (where.FOLDER / "policy.yml").symlink_to(tmp_path / "gone")
    found = Organisation.find().policy
    assert found is not None
    with pytest.raises(PolicyInvalidError, match="cannot read"):
        policies.load(found)
