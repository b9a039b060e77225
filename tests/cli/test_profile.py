"""`gpuprov profile`."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from provision import paths
from provision.cli import tables
from provision.profile import load
from tests.cli.conftest import Call


def test_profiles_are_listed_shown_checked_and_described(call: Call) -> None:
    _, out, _ = call("profile", "list", "--json")
    assert {p["name"] for p in json.loads(out)} >= {"t4-train", "v100-train"}
    _, out, _ = call("profile", "show", "t4-train", "--json")
    digest = json.loads(out)["sha256"]
    _, out, _ = call("profile", "check", "t4-train")
    assert digest in out
    _, out, _ = call("profile", "schema")
    assert json.loads(out)["title"] == "Profile"


def test_the_list_fits_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "width_of", lambda _: 80)
    lines = call("profile", "list")[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if not line.startswith(" ")} >= {"t4-train", "t4-debian"}


def test_ones_own_profiles_are_told_from_the_shipped_ones(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (paths.profiles_dir() / "t4-train.yml").read_text()
    (tmp_path / "profiles").mkdir()
    for name in ("t4-train", "ours"):
        (tmp_path / "profiles" / f"{name}.yml").write_text(text)
    (tmp_path / "profiles" / "broken.yml").write_text("schema: 1\n")
    monkeypatch.chdir(tmp_path)
    rows = {line.split()[0]: line for line in call("profile", "list")[1].splitlines()}
    assert rows["t4-train"].endswith("  (profiles/t4-train.yml, instead of the shipped one)")
    assert rows["ours"].endswith("near Hong Kong.  (profiles/ours.yml)")
    assert "  not valid: " in rows["broken"]
    assert rows["l4-infer"] == "l4-infer      Run inference on one L4."
    assert "profile: t4-train, profiles/t4-train.yml (sha256:" in call("plan", "t4-train")[1]


def edited(folder: Path, *changes: tuple[str, str], profile: str = "t4-train") -> str:
    """A shipped profile with other text in it, as a file."""
    text = (paths.profiles_dir() / f"{profile}.yml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "p.yml"
    path.write_text(text)
    return str(path)


EXPIRED = ("\nverify:", "\nverify:\n  waivers: [{check: root-room, reason: r, owner: a@example.org, expires: 2020-01-01}]")


def test_a_warning_is_shown_once_and_refuses_nothing_unless_it_is_told_to(call: Call, tmp_path: Path) -> None:
    path = edited(tmp_path, EXPIRED)
    code, out, err = call("profile", "check", path)
    assert (code, err) == (0, "")
    assert out.startswith(f"{path}: valid (sha256:")
    assert out.count("the waiver of root-room expired on 2020-01-01") == 1
    assert f"warning: {path}:" in out
    assert call("profile", "check", path, "--strict")[0] == 2
    assert call("profile", "check", "t4-train", "--strict")[0] == 0
    code, out, err = call("plan", "--profile", path)
    assert code == 0
    assert "expired" not in out + err


def test_findings_are_data_with_a_kind_and_a_severity(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("profile", "check", edited(tmp_path, EXPIRED), "--json")
    data = json.loads(out)["profiles"][0]
    assert code == 0
    assert (data["errors"], data["warnings"], data["name"]) == (0, 1, "t4-train")
    (finding,) = data["findings"]
    assert (finding["severity"], finding["kind"], finding["key"]) == ("warning", "expired-waiver", "verify.waivers.0.expires")
    assert "error" not in data

    code, out, err = call("profile", "check", edited(tmp_path, ("g4dn.xlarge", "g4nd.xlarge")), "--json")
    data = json.loads(out)["profiles"][0]
    assert code == 2
    assert (data["errors"], data["name"], data["sha256"]) == (1, None, None)
    assert [(f["severity"], f["kind"], f["key"]) for f in data["findings"]] == [("error", "misspelt", "places.0.instance_type")]
    assert data["error"]["code"] == "profile-invalid"
    assert err.startswith("error[profile-invalid]: ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("g4dn.xlarge", "g4nd.xlarge")], "places.0.instance_type: 'g4nd.xlarge' is not a machine type"),
        ([("model: t4", "model: k80")], "gpu.model: 'k80' is not supported: it is a Kepler card: R470 is the last driver"),
        (
            [EXPIRED, ("check: root-room", "check: root-rom")],
            "verify.waivers.0.check: 'root-rom' is not a check; the nearest are root-room",
        ),
    ],
)
@pytest.mark.parametrize(
    "command",
    [("profile", "check"), ("up", "--profile"), ("lock", "-o", "-"), ("plan", "--profile"), ("review",), ("explain",)],
    ids=" ".join,
)
def test_every_command_refuses_what_check_refuses(
    call: Call, tmp_path: Path, command: tuple[str, ...], changes: list[tuple[str, str]], said: str
) -> None:
    code, _, err = call(*command, edited(tmp_path, *changes))
    assert code == 2
    assert said in err


def test_check_asks_the_resolver_as_lock_does(call: Call, tmp_path: Path) -> None:
    """The clocks of a T4 on an A10G, and a driver that its GPU does not know: both are refused with the line of the key."""
    path = edited(tmp_path, ("model: t4", "model: a10g"), ("g4dn.xlarge", "g5.xlarge"))
    lines = Path(path).read_text().splitlines()
    code, _, err = call("profile", "check", path)
    assert code == 2
    at = next(number for number, line in enumerate(lines, 1) if "application_clocks" in line)
    assert f"{path}:{at}: gpu.application_clocks: " in err
    assert "A10G has no clocks 5001,1590 MHz: the catalog lists 6250,1710 MHz" in err
    code, _, err = call("lock", path, "-o", "-")
    assert code == 2
    assert "the catalog lists 6250,1710 MHz" in err


def test_advice_that_a_stack_goes_against_is_a_warning_at_its_key(call: Call) -> None:
    data = json.loads(call("profile", "check", "t4-debian", "--json")[1])["profiles"][0]
    assert {(finding["kind"], finding["key"]) for finding in data["findings"]} == {
        ("advice", "stack.driver"),
        ("advice", "stack.profilers"),
    }


def test_a_profile_that_does_not_hold_names_line_and_key(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_text("schema: 1\ngpuu: 1\n")
    code, _, err = call("up", "--profile", str(path))
    assert code == 2
    assert f"{path}:2: gpuu: is not a key of a profile; did you mean 'gpu'?" in err


# --- a first profile -------------------------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is where a new user stands."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_new_profile_and_its_lock_are_found_by_name_and_hold(call: Call, empty: Path) -> None:
    code, out, err = call(
        "profile", "new", "--gpu", "a10g", "--region", "us-east-1", "--purpose", "infer", "--owner", "Me <me@example.com>"
    )
    assert (code, err) == (0, "")
    assert "profiles/a10g-infer.yml: g5.xlarge in us-east-1; up to 1.10 USD an hour" in out
    assert sorted(path.name for path in (empty / "profiles").iterdir()) == ["a10g-infer.lock.yml", "a10g-infer.yml"]
    for words in (("profile", "check"), ("lock", "--check"), ("plan", "--profile")):
        assert call(*words, "a10g-infer")[0] == 0


@pytest.mark.usefixtures("empty")
def test_the_options_decide_what_is_written_and_where(call: Call) -> None:
    words = ("--gpu", "h100", "--gpus", "8", "--region", "us-east-1", "--cloud", "aws", "--max-price", "60", "-o", "other/big.yml")
    code, out, err = call("profile", "new", *words, "--json")
    assert code == 0
    made = json.loads(out)
    assert made["path"] == "other/big.yml"
    assert made["lock"]["path"] == "other/big.lock.yml"
    shown = json.loads(call("profile", "show", "other/big.yml", "--json")[1])
    assert shown["sha256"] == made["sha256"]
    profile = shown["profile"]
    assert (profile["name"], profile["gpu"]["count"], profile["limits"]["price_per_hour_usd"]) == ("h100x8-train-us-east-1", 8, 60.0)
    assert profile["owner"]["email"] == "owner@example.com"
    assert "owner is a placeholder" in err


def test_a_new_profile_has_no_shipped_profiles_name_and_says_the_one_that_it_has(call: Call, empty: Path) -> None:
    words = ("profile", "new", "--gpu", "t4", "--region", "us-east-1", "--owner", "Me <me@example.com>")
    code, out, err = call(*words)
    assert (code, err) == (0, "  name t4-train-us-east-1: t4-train ships with gpuprov\n")
    assert out.endswith("\nnext: `gpuprov plan t4-train-us-east-1`\n")
    assert load.load(empty / "profiles" / "t4-train-us-east-1.yml").name == "t4-train-us-east-1"
    code, _, err = call(*words, "--name", "t4-train")
    assert code == 2
    assert "a profile called 't4-train' ships with gpuprov\nhint: choose another --name, such as t4-train-us-east-1" in err
    assert "next: `gpuprov plan mine.yml`" in call(*words, "-o", "mine.yml")[1]


@pytest.mark.parametrize(
    ("gpu", "variables", "file", "found"),
    [
        ("t4", {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-west-2"}, "", ("eu-west-1", "AWS_REGION")),
        ("t4", {"AWS_DEFAULT_REGION": "us-west-2"}, "", ("us-west-2", "AWS_DEFAULT_REGION")),
        ("t4", {}, "aws: [default]\nregion = eu-west-1\n", ("eu-west-1", "aws")),
        ("t4", {"AWS_PROFILE": "work"}, "aws: [default]\nregion = eu-west-1\n[profile work]\nregion = us-east-2\n", ("us-east-2", "aws")),
        ("t4", {}, "configurations/config_default: [compute]\nregion = us-east4\n", ("us-east4", "configurations/config_default")),
        ("t4", {}, "configurations/config_default: [compute]\nzone = us-east4-a\n", ("us-east4", "configurations/config_default")),
        ("t4", {"CLOUDSDK_COMPUTE_ZONE": "us-east4-a"}, "", ("us-east4", "CLOUDSDK_COMPUTE_ZONE")),
        ("t4", {"CLOUDSDK_ACTIVE_CONFIG_NAME": "x"}, "configurations/config_x: [compute]\nregion = us-east4\n", ("us-east4", "config_x")),
        ("t4", {"AWS_REGION": "us-east-9", "CLOUDSDK_COMPUTE_REGION": "us-east4"}, "", ("us-east4", "CLOUDSDK_COMPUTE_REGION")),
        ("v100", {"AWS_REGION": "us-west-1"}, "", ("", "")),  # not offered there
        ("t4", {}, "aws: region = eu-west-1\n", ("", "")),  # no INI
        ("t4", {}, "configurations/config_default: \0", ("", "")),
        ("t4", {}, "", ("", "")),
    ],
)
def test_without_a_region_the_accounts_own_is_taken_where_it_offers_the_gpu(
    *, call: Call, empty: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, variables: dict[str, str], file: str, found: tuple[str, str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    settings = {"CLOUDSDK_CONFIG": str(empty / "cloud"), **({"AWS_CONFIG_FILE": str(empty / "cloud/aws")} if file else {}), **variables}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    path, _, text = file.partition(": ")
    (empty / "cloud" / path).parent.mkdir(parents=True, exist_ok=True)
    if path:
        (empty / "cloud" / path).write_text(text)
    code, out, err = call("profile", "new", "--gpu", gpu, "--name", "mine")
    region, where = found
    if not region:
        assert (code, "needs --region" in err) == (2, True)
        return
    assert code == 0
    said = next(line for line in err.splitlines() if line.startswith(f"  region {region}, from "))
    assert said.endswith(where)
    assert f" in {region}" in out


@pytest.mark.parametrize("there", ["mine.yml", "mine.lock.yml"])
def test_a_file_that_exists_is_replaced_by_force_alone(call: Call, empty: Path, there: str) -> None:
    words = ("profile", "new", "--gpu", "t4", "--region", "us-east-1", "-o", "mine.yml")
    (empty / there).write_text("mine")
    code, _, err = call(*words)
    assert code == 2
    assert f"{there} would be replaced" in err
    assert (empty / there).read_text() == "mine"
    assert [path.name for path in empty.iterdir()] == [there]
    assert call(*words, "--force")[0] == 0
    assert call("lock", "mine.yml", "--check")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "needs --gpu and --region, and there is no terminal to ask on"),
        ("--gpu t4", "needs --region, and there is no terminal"),
        ("--region us-east-1", "needs --gpu, and there is no terminal"),
        ("--gpu a10 --region us-east-1", "no GPU called 'a10'; did you mean a10g?"),
        ("--gpu a100 --region us-east-1", "no GPU called 'a100'; did you mean a100-40gb or a100-80gb?"),
        ("--gpu t4 --region us-eats-1", "did you mean us-east-1?"),
        ("--gpu v100 --region us-west-1", "AWS: ap-northeast-1, eu-west-1, us-east-1, us-west-2"),
        ("--gpu t4g --region us-east-1", "T4g comes with arm64 processors only"),
        ("--gpu t4 --region us-east-1 --name Big_One", "'Big_One' cannot be the name"),
        ("--gpu t4 --region us-east-1 --owner me", "'me' is not an owner"),
        ("--gpu t4 --region us-east-1 -o x.lock.yml", "x.lock.yml is not a name for a profile"),
        ("--gpu t4 --region us-east-1 -o x.txt", "x.txt is not a name for a profile"),
    ],
)
def test_what_cannot_become_a_profile_is_refused_and_nothing_is_written(
    call: Call, empty: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, _, err = call("profile", "new", *words.split())
    assert code == 2
    assert said in err
    assert "hint: " in err
    assert list(empty.iterdir()) == []


def conversation(answers: list[tuple[str, str]], **environment: str) -> tuple[int, str]:
    """`profile new` on a terminal: each answer is typed when its question is there. The exit code, and all that was on the screen."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "provision", "profile", "new"]
    variables = {**os.environ, **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=variables) as process:
        os.close(theirs)
        screen, answered = "", 0
        while True:
            try:
                screen += os.read(ours, 4096).decode()
            except OSError:  # Linux's word for a terminal that nobody has open any more
                break
            while answers and answers[0][0] in screen[answered:]:
                question, answer = answers.pop(0)
                answered = screen.index(question, answered) + len(question)
                os.write(ours, f"{answer}\n".encode())
    os.close(ours)
    return process.returncode, screen


def test_on_a_terminal_it_asks_five_questions_and_asks_again_where_an_answer_does_not_hold(empty: Path) -> None:
    code, screen = conversation(
        [
            ("GPU (", "a10g"),
            ("What for (", ""),
            ("Cloud (", ""),
            ("Regions, the preferred first", "us-eats-1"),
            ("did you mean us-east-1?", ""),
            ("Who answers for the machine", "Me <me@example.com>"),
        ]
    )
    assert code == 0, screen
    profile = load.load(empty / "profiles" / "a10g-train-us-east-1.yml")
    assert "name a10g-train-us-east-1: a10g-train ships with gpuprov" in screen
    assert profile.places[0].locations == ("us-east-1",)
    assert profile.owner.email == "me@example.com"
    assert screen.count("]:") == 6  # click 8.2.0 writes no space behind it
    assert "a10g, " in screen
    assert "t4g" not in screen  # nothing works on it


def test_on_a_terminal_the_accounts_own_region_is_what_enter_takes(empty: Path) -> None:
    questions = ("GPU (", "What for (", "Cloud (", "Regions, the preferred first", "Who answers for the machine")
    code, screen = conversation([(question, "") for question in questions], CLOUDSDK_COMPUTE_REGION="us-east4")
    assert code == 0, screen
    assert "Regions, the preferred first (CLOUDSDK_COMPUTE_REGION) [us-east4]:" in screen
    (written,) = [path for path in (empty / "profiles").iterdir() if not path.stem.endswith(".lock")]
    assert load.load(written).places[0].cloud == "gcp"


# --- a profile for hosts that exist ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["plan --profile", "up --profile", "up --rehearse --profile", "render --as runbook"])
def test_nothing_is_launched_from_a_profile_without_places(call: Call, words: str) -> None:
    code, out, err = call(*words.split(), "workstation")
    assert (code, out) == (2, "")
    assert "profile workstation has no places, so nothing can be launched from it" in err
    assert "`gpuprov apply HOST --profile workstation`" in err


@pytest.mark.usefixtures("empty")
def test_a_profile_without_places_is_locked_reviewed_and_held_to_the_rules(call: Call, tmp_path: Path) -> None:
    assert call("lock", "workstation", "--check")[0] == 0
    policy = tmp_path / "policy.yml"
    policy.write_text("schema: 1\nname: isa\npublic_address: forbidden\nclouds: [aws]\nmax_price_per_hour_usd: 2\n")
    assert call("policy", "check", "workstation", "--policy", str(policy))[0] == 0
    code, out, _ = call("review", "workstation", "-o", str(tmp_path / "x.bundle"))
    assert code == 0
    assert "workstation: hosts with 1 x RTX PRO 6000 Server that exist; no machine is launched" in out
    assert "opens: nothing" in out
    assert "public address" not in out
