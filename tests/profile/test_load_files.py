"""The files of profiles: what a name or path finds, what is listed, and how much is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, Field

from provision import paths
from provision.errors import ProfileInvalidError, ProfileNotFoundError
from provision.profile import described, load
from provision.profile.model import Profile

GOOD: dict[str, Any] = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())


@pytest.mark.parametrize("name", ["own.yaml", "own.yml", "./own", "sub/own"])
def test_what_has_a_slash_or_a_suffix_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProfileNotFoundError, match="no profile file") as caught:
        load.find(name)
    assert name in caught.value.message
    assert "`gpuprov profile list`" in caught.value.hint
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("")
    assert load.find(name) == Path(name)


def test_a_path_to_nothing_is_answered_with_the_profile_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("profiles").mkdir()
    Path("profiles/own.yml").write_text("")
    with pytest.raises(ProfileNotFoundError) as caught:
        load.find("./own.yml")
    assert "did you mean 'own', which is profiles/own.yml?" in caught.value.hint
    with pytest.raises(ProfileNotFoundError) as caught:
        load.find("./unlike-all.yml")
    assert caught.value.hint.startswith("use the path of a YAML file")


def test_an_empty_file_is_answered_with_the_command_that_prints_its_schema() -> None:
    _, _, (complaint,) = load.typed(b"", Profile, "policy")
    assert complaint.instead == "start from `gpuprov policy schema`"


def test_a_name_that_is_near_to_none_is_answered_without_a_guess() -> None:
    with pytest.raises(ProfileNotFoundError, match="no profile called 'qqq'") as caught:
        load.find("qqq")
    assert "did you mean" not in caught.value.hint
    with pytest.raises(ProfileNotFoundError) as caught:
        load.find("t4-")  # half of the letters are those of the nearest
    assert "did you mean 't4-" in caught.value.hint


def test_profiles_are_listed_by_name_with_their_purpose_and_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name in ("zz.yaml", "aa.yml", "aa.lock.yml"):
        (folder / name).write_text(yaml.safe_dump({**GOOD, "name": name.partition(".")[0]}))
    (folder / "bad.yml").write_text("broken: [")
    monkeypatch.chdir(tmp_path)
    listed = load.list_profiles()
    assert [entry.name for entry in listed] == sorted(entry.name for entry in listed)
    first, bad, last = (next(entry for entry in listed if entry.name == name) for name in ("aa", "bad", "zz"))
    assert (first.name, first.path, first.purpose, first.problem) == ("aa", Path("profiles/aa.yml"), GOOD["purpose"], "")
    assert first.profile == load.load(first.path)
    assert (bad.path, bad.purpose, bad.profile) == (Path("profiles/bad.yml"), "", None)
    assert bad.problem.startswith("profiles/bad.yml is not a valid profile")
    assert last == listed[-1]
    assert load.find("zz") == Path("profiles/zz.yaml")
    assert not any(entry.name.endswith(".lock") for entry in listed)


def test_a_file_that_cannot_be_read_is_no_profile_and_one_of_64_kib_is_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileNotFoundError) as caught:
        load.load(tmp_path)
    assert caught.value.message == f"cannot read {tmp_path}: it is not a regular file"
    assert "permissions" in caught.value.hint
    path = tmp_path / "p.yml"
    path.write_bytes(b"#" * load.MAX_BYTES)
    assert len(load.raw_of(path)) == load.MAX_BYTES
    path.write_bytes(b"#" * (load.MAX_BYTES + 1))
    with pytest.raises(ProfileInvalidError, match=r"p\.yml:1: larger than 64 KiB; a profile is one purpose; split it"):
        load.raw_of(path)


def test_the_lines_of_a_file_are_named_by_key() -> None:
    text = b"a: 1\nplaces:\n- cloud: aws\n  regions:\n  - x\n  - y\n"
    lines = load.lines(text)
    assert (lines["a"], lines["places"], lines["places.0.cloud"], lines["places.0.regions.1"]) == (1, 2, 3, 6)
    assert "" not in lines
    assert load.lines(b"a: [") == {}


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("name", (1, True)),
        ("places.0.regions.1", (6, True)),
        ("places.0.regions.7", (4, False)),  # the key just above
        ("places.0.image.id", (3, False)),
        ("places.9.image.id", (2, False)),  # the first part alone is in the file
        ("verify.waivers.0", (None, False)),
        ("regions", (None, False)),  # a key is found by all of its path
        ("nam", (None, False)),
    ],
)
def test_a_key_that_is_not_in_the_file_has_the_line_of_the_nearest_above_it(key: str, found: tuple[int | None, bool]) -> None:
    lines = {"name": 1, "places": 2, "places.0": 3, "places.0.regions": 4, "places.0.regions.1": 6}
    assert load.line_of(key, lines) == found


def test_a_complaint_names_the_schema_of_its_model_and_an_error_carries_all_complaints(tmp_path: Path) -> None:
    class Small(BaseModel, extra="forbid"):
        a: int

    assert load.typed(b"a: 1\n", Small, "policy")[0] == Small(a=1)
    model, lines, (complaint,) = load.typed(b"a: 1\nb: 2\n", Small, "policy")
    assert (model, complaint.line, complaint.key) == (None, 2, "b")
    assert lines[("b",)] == 2
    assert complaint.problem == "is not a key of a policy"

    class Coded(BaseModel):
        code: str = Field(pattern="[a-z]+")

    _, _, (complaint,) = load.typed(b"code: 1:30\n", Coded, "policy")  # 90 in YAML 1.1; nothing says in words what its key takes
    assert complaint.instead == "see `gpuprov policy schema`"
    error = load.invalid(tmp_path / "p.yml", [complaint])
    assert error.complaints == (complaint,)
    assert "`gpuprov profile schema`" in error.hint
    assert described.schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_component_that_stands_as_a_key_is_sent_to_the_list_of_components(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text((paths.profiles_dir() / "t4-train.yml").read_text().replace("  opencv: wheel", "  opencl: true\n  opencv: wheel", 1))
    with pytest.raises(ProfileInvalidError) as caught:
        load.load(path)
    (complaint,) = caught.value.complaints
    assert (complaint.key, complaint.instead) == ("stack.opencl", "name it in the list of components: extras: [opencl]")


@pytest.mark.parametrize(
    ("line", "ambiguous", "instead"),
    [
        ("counters: all-users", "counters: off", "write one of: admin-only, group, all-users"),
        ("persistence: true", "persistence: yes", "write true or false, without quotes"),
        ("deadline_h: 12", "deadline_h: 1:30", "write a whole number of hours, without unit or quotes"),
        ("name: t4-train", "name: no", 'write "no"'),
    ],
)
def test_instead_of_a_value_with_two_readings_stands_what_its_key_takes(tmp_path: Path, line: str, ambiguous: str, instead: str) -> None:
    text = (paths.profiles_dir() / "t4-train.yml").read_text()
    assert line in text
    path = tmp_path / "own.yml"
    path.write_text(text.replace(line, ambiguous, 1))
    with pytest.raises(ProfileInvalidError) as caught:
        load.load(path)
    (complaint,) = caught.value.complaints
    assert (complaint.instead, "read as two values" in complaint.problem) == (instead, True)
