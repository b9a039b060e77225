"""The command line as a whole: help, exit codes, errors with a hint, data on standard output and everything else beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from provision import paths
from provision.cli import COMMANDS, main, unknown
from provision.errors import EXIT_CUT, CloudInvalidError
from provision.profile import described
from tests.cli.conftest import Call
from tests.fuzz.run import lay


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps(call: Call, name: str) -> None:
    code, out, _ = call(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: gpuprov {name}")


def test_the_help_is_one_screen_with_every_command_those_of_every_day_first(call: Call) -> None:
    code, out, _ = call("--help")
    assert (code, len(out.splitlines()) <= 23, max(map(len, out.splitlines())) <= 80) == (0, True, True)
    assert call()[2] == out  # without a word
    daily, _, others = out.partition("Every day:\n")[2].partition("\n\n")
    names = re.findall(r"(?m)^  ([a-z]+)  ", daily)
    names += re.findall(r"(?<=[:,\s])[a-z][a-z-]+(?=,|$)", others.partition("\n\n")[0], re.MULTILINE)
    assert names == list(COMMANDS)


def test_the_whole_help_gives_each_command_a_line(call: Call) -> None:
    code, out, _ = call("help")
    headings = re.findall(r"(?m)^(\S[^:\n]*):$", out)
    rows = re.findall(r"(?m)^  ([a-z][a-z-]*)  +([A-Z].*[.?])$", out)
    assert (code, headings[:2], dict(rows), len(rows)) == (0, ["Options", "Every day"], COMMANDS, len(COMMANDS))
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("words", [("up",), ("catalog",), ("catalog", "gpus")])
def test_help_is_a_word_too(call: Call, words: tuple[str, ...]) -> None:
    assert call("help", *words) == call(*words, "--help")


def test_help_of_what_does_not_exist_suggests_what_is_meant(call: Call) -> None:
    code, _, err = call("help", "upp")
    assert (code, "did you mean `gpuprov up`?" in err) == (2, True)


@pytest.mark.parametrize("words", [("-v", "plan", "x"), ("plan", "-v", "x"), ("plan", "x", "--verbose")])
def test_the_whole_answer_is_asked_for_before_the_command_or_after(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def refused(_name: str) -> None:
        msg = "no such thing"
        raise CloudInvalidError(msg, hint="look again", detail="the whole answer")

    monkeypatch.setattr("provision.profile.load.find", refused)
    assert "detail: the whole answer" in call(*words)[2]
    assert "detail: " not in call("plan", "x")[2]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["up", "--profile", "t4-trian"], "profile-not-found", "did you mean 't4-train'?"),
        (["up", "--profile", "t4-train", "--name", "$(id)"], "name-invalid", "lower-case"),
        (["up"], "usage", "--profile"),
        (["upp"], "usage", "gpuprov --help"),
        (["plan", "-p", "t4-train", "--jsno"], "usage", "gpuprov plan --help"),
        (["verify", "-p", "t4-train"], "usage", "gpuprov verify --help"),
        (["verify", "nowhere"], "instance-not-found", "--profile"),
        (["apply", "nowhere", "-p", "t4-train", "--role", "bse"], "role-unknown", "the roles are "),
        (["ssh", "nowhere"], "instance-not-found", "gpuprov ls"),
        (["down", "../x"], "name-invalid", "lower-case"),
        (["profile", "check", "/nonexistent.yml"], "profile-not-found", "gpuprov profile list"),
        (["completion", "tcsh"], "usage", "gpuprov completion --help"),
        (["verify", "--facts", "/nonexistent.json", "-p", "t4-train"], "facts-invalid", ""),
    ],
)
def test_wrong_usage_is_one_error_with_a_hint_and_exit_code_2(call: Call, words: list[str], code: str, said: str) -> None:
    exit_code, out, err = call(*words)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"error[{code}]: ")
    assert "\nhint: " in err
    assert said in err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["destroy", "x"], "`gpuprov down`"),
        (["terminate"], "`gpuprov down`"),
        (["rm", "x"], "`gpuprov down`"),
        (["list"], "`gpuprov ls`"),
        (["status"], "`gpuprov ls`"),
        (["ps"], "`gpuprov ls`"),
        (["init"], "`gpuprov profile new`"),
        (["launch"], "`gpuprov up`"),
        (["check", "x.yml"], "`gpuprov profile check` or `gpuprov verify`"),
        (["vrify"], "`gpuprov verify`"),
        (["profile", "validate"], "`gpuprov profile check`"),
        (["catalog", "udpate"], "`gpuprov catalog refresh`"),
    ],
)
def test_a_word_of_another_tool_and_a_misspelt_one_get_the_command_that_is_meant(call: Call, words: list[str], meant: str) -> None:
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error[usage]: no command called ")
    assert f"hint: did you mean {meant}? " in err


def test_every_command_that_is_suggested_exists() -> None:
    for group, synonyms in unknown._SYNONYMS.items():
        for word, meant in synonyms.items():
            assert all(command.split()[0] in COMMANDS for command in meant)
            assert group or word not in COMMANDS


@pytest.mark.parametrize(
    ("option", "key"),
    [("--spot", "places.0.market"), ("--gpus=2", "gpu.count"), ("--region=x", "places.0.regions"), ("--disk-size=9", "disks.root.size_gb")],
)
def test_an_option_of_another_tool_gets_the_key_of_the_profile(call: Call, option: str, key: str) -> None:
    code, out, err = call("up", "t4-train", option)
    assert (code, out) == (2, "")
    assert err.startswith(f"error[usage]: gpuprov up has no option {option.partition('=')[0]}\nhint: the profile says it, in {key}: ")


def keys_of(node: dict[str, Any], definitions: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every key of a JSON Schema, dotted, with 0 for the items of a list."""
    target = definitions[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    for name, child in target.get("properties", {}).items():
        yield f"{path}{name}"
        yield from keys_of(child, definitions, f"{path}{name}.")
    for each in (*target.get("anyOf", ()), *target.get("oneOf", ())):
        yield from keys_of(each, definitions, path)
    if "items" in target:
        yield from keys_of(target["items"], definitions, f"{path}0.")


def test_every_key_that_is_named_instead_of_an_option_exists() -> None:
    schema = described.schema()
    assert set(unknown._KEYS.values()) - set(keys_of(schema, schema["$defs"])) == set()


@pytest.mark.parametrize("group", [[], ["profile"], ["catalog"], ["policy"], ["rehearse"]])
def test_a_group_alone_shows_its_help_and_no_error(call: Call, group: list[str]) -> None:
    code, out, err = call(*group)
    assert (code, out) == (2, "")
    assert err.startswith(f"Usage: {' '.join(['gpuprov', *group])} ")
    assert ("\nCommands:\n" if group else "\nEvery day:\n") in err
    assert "error" not in err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["plan", "t4-trian", "--json"], "profile-not-found"),
        (["plan", "--json", "--nonsense"], "usage"),
        (["--json"], "usage"),
        (["destroy", "--json"], "usage"),
        (["stop", "../x", "--json"], "name-invalid"),
        (["catalog", "instances", "--sort", "prize", "--json"], "usage"),
    ],
)
def test_an_error_is_one_json_object_of_the_published_schema_and_its_text_stays(call: Call, words: list[str], code: str) -> None:
    exit_code, out, err = call(*words)
    said = json.loads(out)
    jsonschema.validate(said, json.loads(call("verify", "--schema")[1]))
    assert (exit_code, set(said), said["error"]["code"]) == (2, {"error"}, code)
    assert err == f"error[{code}]: {said['error']['message']}\nhint: {said['error']['hint']}\nsee: gpuprov explain-error {code}\n"
    assert said["error"]["see"] == f"gpuprov explain-error {code}"


@pytest.mark.parametrize("words", [["plan", "--", "--json"], ["ssh", "nowhere", "nvidia-smi", "--json"]])
def test_json_that_is_no_option_of_ours_asks_for_nothing(call: Call, words: list[str]) -> None:
    code, out, _ = call(*words)
    assert (code, out) == (2, "")


RED = "\x1b[31m"


@pytest.mark.parametrize("words", [["destroy"], ["plan", "--nonsense"], ["plan", "t4-trian"]])
def test_an_error_has_the_colours_that_were_chosen(call: Call, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    def is_red(*choice: str) -> bool:
        before, after = (RED in call(*line)[2] for line in ([*choice, *words], [*words, *choice]))
        assert before == after
        return after

    assert not is_red()
    assert is_red("--color=always")
    assert is_red("--color", "always")
    assert not is_red("--color=always", "--color", "never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert is_red("--color=always")


def test_an_error_that_quotes_a_stranger_says_nothing_that_a_terminal_obeys(call: Call, tmp_path: Path) -> None:
    lay(tmp_path, {name: (paths.profiles_dir() / f"t4-train{name[1:]}").read_bytes() for name in ("p.yml", "p.lock.yml")})
    with (tmp_path / "p.lock.yml").open("a") as file:
        file.write('"\\e[2J\\x9b31m\\u202e\\xe9": 1\n')
    code, _, err = call("lock", "--check", str(tmp_path / "p.yml"))
    assert code == 2
    assert r"\u001b[2J\u009b31m\u202eé: is not a key of a lock" in err
    assert all(c.isprintable() or c == "\n" for c in err)


@pytest.mark.parametrize(
    "words", ["profile schema", "plan t4-train", "explain t4-train", "catalog precision", "probe --script", "up --help"]
)
def test_an_output_that_was_cut_is_neither_a_pass_nor_a_failed_check(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as cut, open(os.devnull, "w") as errors:  # noqa: PTH123 - a descriptor has no path
        monkeypatch.setattr(sys, "stdout", cut)
        monkeypatch.setattr(sys, "stderr", errors)
        with pytest.raises(SystemExit) as ended:
            main(words.split())
    assert ended.value.code == EXIT_CUT == 141


def test_a_reader_of_errors_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m provision verify nowhere --only nosuch 2>&1 >/dev/null | true; echo ${{PIPESTATUS[@]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("141 0\n", "")


def test_every_command_is_there_without_what_only_an_embedded_cloud_needs() -> None:
    """`pip install gpuprov` has no psutil: of the extra `rehearse`."""
    names = ", ".join(repr(name.replace("-", "_")) for name in COMMANDS)
    code = f"import importlib, sys; sys.modules['psutil'] = None\nfor name in ({names}): importlib.import_module('provision.cli.' + name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
