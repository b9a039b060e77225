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


FILES = [
    ("policy", "GPUPROV_POLICY", "policy.yml"),
    ("signers", "GPUPROV_SIGNERS", "allowed_signers"),
    ("revoked", "GPUPROV_REVOKED", "revoked_keys"),
]


@pytest.mark.parametrize(("which", "variable", "default"), FILES)
def test_each_file_is_found_by_itself_and_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, variable: str, default: str
) -> None:
    said, given = tmp_path / "said", tmp_path / "given"
    said.touch()
    given.touch()
    assert Organisation.find(**{which: str(said)}) == Organisation(**{which: said})
    where.FOLDER.mkdir()
    (where.FOLDER / default).touch()
    assert Organisation.find() == Organisation(**{which: where.FOLDER / default})
    monkeypatch.setenv(variable, str(given))
    assert Organisation.find() == Organisation(**{which: given})
    assert Organisation.find(**{which: str(said)}) == Organisation(**{which: said})
    assert Organisation.find(**{which: ""}) == Organisation(**{which: given})


@pytest.mark.parametrize(("which", "variable", "default"), FILES)
@pytest.mark.parametrize("named", ["no", "folder", "link"])
def test_a_file_that_is_named_and_is_not_there_is_not_replaced_by_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, which: str, variable: str, default: str, named: str
) -> None:
    where.FOLDER.mkdir()
    (where.FOLDER / default).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    monkeypatch.setenv(variable, str(tmp_path / named))
    for settings in ({}, {which: str(tmp_path / named)}):
        with pytest.raises(UsageError) as refused:
            Organisation.find(**settings)
        assert (str(tmp_path / named) in refused.value.message, variable in refused.value.hint) == (True, True)
