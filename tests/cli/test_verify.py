"""`gpuprov verify` of several hosts, of files, with formats, evidence, selections; and `gpuprov diff` of two hosts."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.report import FORMATS
from provision.verify import evidence as proof
from provision.verify.checks import CHECKS
from tests.cli.conftest import Call, facts_file
from tests.verify.good import GOOD


@dataclass
class Done:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


Run = Callable[..., Done]


@pytest.fixture
def run(call: Callable[..., tuple[int, str, str]]) -> Run:
    return lambda *words: Done(*call(*words))


def test_several_files_are_one_report_with_the_worst_verdict(tmp_path: Path, run: Run) -> None:
    good, bad = facts_file(tmp_path, "good"), facts_file(tmp_path, "bad", python3={"version": "2.7.5"})
    done = run("verify", "--profile", "t4-train", "--facts", str(good), "--facts", str(bad), "--format", "junit")
    assert '<testsuite name="good"' in done.output or 'name="good' in done.output
    assert "bad" in done.output
    both = json.loads(run("verify", "-p", "t4-train", "--facts", str(good), "--facts", str(bad), "--json").output)
    assert [report["host"] for report in both["hosts"]] == ["good", "bad"]
    one = json.loads(run("verify", "-p", "t4-train", "--facts", str(good), "--json").output)
    assert one.keys() == both.keys(), "a script reads one host as it reads two"
    assert [report["schema"] for report in one["hosts"]] == ["gpuprov-report/1"]


def test_files_of_one_name_are_hosts_of_two_and_hide_nothing(tmp_path: Path, run: Run) -> None:
    for folder, changes in (("a", {}), ("b", {"python3": {"version": "2.7.5"}})):
        (tmp_path / folder).mkdir()
        facts_file(tmp_path / folder, "facts", **changes)
    a, b = (str(tmp_path / folder / "facts.json") for folder in "ab")
    out = tmp_path / "evidence.json"
    words = ("verify", "-p", "t4-train", "--facts", a, "--facts", b, "--only", "python3", "--json")
    both = json.loads(run(*words, "--evidence", str(out)).output)
    assert [report["host"] for report in both["hosts"]] == ["a/facts", "b/facts"]
    assert json.loads(run(*words, "--against", str(out)).output)["drift"] == []
    twice = run("verify", "-p", "t4-train", "--facts", a, "--facts", a)
    assert (twice.exit_code, "given twice" in twice.output) == (2, True)
    doubled = json.loads(out.read_text())
    doubled["hosts"][1]["host"] = "a/facts"
    out.write_text(json.dumps(doubled))
    against = run(*words, "--against", str(out))
    assert (against.exit_code, "have one name" in against.output) == (2, True), against.output


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_one_name_are_two_hosts_in_every_format(tmp_path: Path, form: str, run: Run) -> None:
    """In either order both are there, and the worse one decides."""
    for folder, changes in (("a", {}), ("b", {"python3": {"version": "2.7.5"}})):
        (tmp_path / folder).mkdir()
        facts_file(tmp_path / folder, "facts", **changes)
    for order in ("ab", "ba"):
        files = [word for folder in order for word in ("--facts", str(tmp_path / folder / "facts.json"))]
        done = run("verify", "-p", "t4-train", *files, "--only", "python3", "--format", form)
        assert done.exit_code == 3
        assert "b/facts" in done.stdout
        assert "a/facts" in done.stdout or "1 pass, 1 unknown on 2 hosts" in done.stdout  # nagios names those alone that do not pass


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_printed(tmp_path: Path, form: str, run: Run) -> None:
    path = facts_file(tmp_path, "one")
    done = run("verify", "-p", "t4-train", "--facts", str(path), "--format", form)
    assert done.exit_code in {0, 1, 3}
    assert done.output.strip()


def test_strict_is_the_same_on_the_terminal_in_json_and_on_the_page(tmp_path: Path, run: Run) -> None:
    path, page = facts_file(tmp_path, "one", modules={"held": []}), tmp_path / "report.html"
    words = ("verify", "-p", "t4-train", "--facts", str(path), "--only", "driver-on-disk", "--html", str(page))
    for flags, code, word in (((), 0, "verdict pass"), (("--strict",), 1, "verdict fail")):
        text, data = run(*words, *flags), run(*words, *flags, "--json")
        assert (text.exit_code, data.exit_code, json.loads(data.stdout)["exit_code"]) == (code, code, code)
        assert ("warnings count as failures (--strict)" in text.stdout) == bool(flags)
        assert f'class="{word}"' in page.read_text()
        assert ("does NOT match" in page.read_text()) == bool(flags)
        assert run(*words, *flags, "--format", "html").stdout == page.read_text()


@pytest.mark.parametrize("form", ["json", "junit", "nagios"])
def test_strict_makes_the_report_say_what_the_exit_code_says(tmp_path: Path, form: str, run: Run) -> None:
    path, proof_of = facts_file(tmp_path, "one", modules={"held": []}), tmp_path / "evidence.json"
    words = ("verify", "-p", "t4-train", "--facts", str(path), "--only", "driver-on-disk", "--format", form)
    lax = run(*words, "--evidence", str(proof_of))
    lax_digest = json.loads(proof_of.read_text())["hosts"][0]["findings_sha256"]
    done = run(*words, "--strict", "--evidence", str(proof_of))
    assert (lax.exit_code, done.exit_code) == (0, 1)
    failed = {"json": '"exit_code": 1', "junit": 'failures="1"', "nagios": "CRITICAL"}[form]
    assert failed not in lax.stdout
    assert failed in done.stdout
    [bound] = json.loads(proof_of.read_text())["hosts"]
    assert (bound["report"]["exit_code"], bound["findings_sha256"]) == (1, lax_digest)


def test_the_page_shows_what_was_measured(tmp_path: Path, run: Run) -> None:
    recorded = Path(__file__).parents[1] / "data" / "facts" / "h200-perf.json"
    page = tmp_path / "report.html"
    done = run("verify", "-p", "t4-train", "--facts", str(recorded), "--format", "html", "--html", str(page))
    assert page.read_text().count('class="point"') == 4
    assert page.read_text() == done.stdout
    assert 'class="point"' not in run("verify", "-p", "t4-train", "--facts", str(facts_file(tmp_path, "one")), "--format", "html").stdout


def test_what_is_left_out_is_named_and_proves_nothing(tmp_path: Path, run: Run) -> None:
    path = facts_file(tmp_path, "one")
    done = run("verify", "-p", "t4-train", "--facts", str(path), "--only", "gcc", "--only", "tmux")
    left = len(CHECKS) - 2
    assert f"\nnot checked, by --only or --skip: the {left} others than gcc, tmux\n" in done.output
    assert "in every check that was made: 2 pass" in done.output
    assert "\nnot checked, by --only or --skip: gcc\n" in run("verify", "-p", "t4-train", "--facts", str(path), "--skip", "gcc").output
    skipped = run("verify", "-p", "t4-train", "--facts", str(path), "--skip", "gcc", "--json")
    assert "gcc" not in [finding["check"] for finding in json.loads(skipped.output)["hosts"][0]["findings"]]
    wrong = run("verify", "-p", "t4-train", "--facts", str(path), "--skip", "gccc")
    assert (wrong.exit_code, "did you mean gcc?" in wrong.output) == (2, True)


def test_evidence_binds_what_was_judged(tmp_path: Path, run: Run) -> None:
    path, out = facts_file(tmp_path, "one"), tmp_path / "evidence.json"
    done = run("verify", "-p", "t4-train", "--facts", str(path), "--evidence", str(out), "--json")
    data = json.loads(out.read_text())
    proof.check(data)
    assert data["hosts"][0]["findings_sha256"] == proof.findings_digest(json.loads(done.output)["hosts"][0])
    assert data["hosts"][0]["lock"]["profile"]["name"] == "t4-train"
    for part in ("report", "facts", "profile", "lock"):
        changed = json.loads(out.read_text())
        changed["hosts"][0][part]["x"] = 1
        with pytest.raises(Exception, match=f"the {part} of"):
            proof.check(changed)
    fewer = json.loads(out.read_text())
    fewer["hosts"] = []
    with pytest.raises(Exception, match="taken from it"):
        proof.check(fewer)


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path, run: Run) -> None:
    path, page = facts_file(tmp_path, "one"), tmp_path / "report.html"
    run("verify", "-p", "t4-train", "--facts", str(path), "--html", str(page))
    assert page.read_text().startswith("<!doctype html>")
    gone = run("verify", "-p", "t4-train", "--facts", str(path), "--html", str(tmp_path / "no" / "report.html"))
    assert (gone.exit_code, "cannot write" in gone.output) == (2, True)
    assert list(tmp_path.glob(".*")) == []


class TestHosts:
    """Hosts over a stand-in for ssh on PATH: localhost's own probe under other names, and one that does not answer."""

    @pytest.fixture
    def _ssh(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "ssh"
        program.write_text(
            '#!/bin/sh\nfor last; do :; done\ncase " $* " in *" down "*) echo "ssh: connect to host down port 22: Connection refused" >&2; '
            'exit 255;; esac\nexec /bin/sh -c "$last"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / "home"))

    @pytest.mark.usefixtures("_ssh")
    def test_a_host_that_cannot_be_reached_is_apart_from_one_that_fails(self, run: Run) -> None:
        done = run("verify", "up", "down", "-p", "t4-train", "--json")
        reports = {report["host"]: report for report in json.loads(done.stdout)["hosts"]}
        assert [f["check"] for f in reports["down"]["findings"]] == ["reachable"]
        assert reports["down"]["exit_code"] == 3
        assert "Connection refused" in reports["down"]["findings"][0]["observed"]
        assert len(reports["up"]["findings"]) > 20
        assert "down: unreachable" in done.stderr
        alone = run("verify", "down", "-p", "t4-train")
        assert (alone.exit_code, "error[" in alone.output) == (3, True)

    @pytest.mark.usefixtures("_ssh")
    def test_the_hosts_of_an_inventory_are_meant_too(self, tmp_path: Path, run: Run) -> None:
        inventory = tmp_path / "hosts.yml"
        inventory.write_text("gpus:\n  hosts:\n    a: {ansible_host: 127.0.0.9, ansible_port: 2222}\n    b: {}\n")
        done = run("verify", "--inventory", str(inventory), "-p", "t4-train", "--only", "tmux", "--format", "tap")
        assert "a" in done.stdout
        empty = run("verify", "--inventory", str(tmp_path / "none.yml"), "-p", "t4-train")
        assert (empty.exit_code, "Ansible finds no host" in empty.output) == (2, True)

    @pytest.mark.usefixtures("_ssh")
    def test_a_host_that_an_inventory_describes_oddly_is_unknown_and_the_others_are_verified(self, tmp_path: Path, run: Run) -> None:
        inventory = tmp_path / "hosts.yml"
        odd = f'a: {{ansible_host: "x\\n  ProxyCommand touch {tmp_path}/owned"}}'
        inventory.write_text(f"gpus:\n  hosts:\n    {odd}\n    b: {{}}\n    c: {{ansible_port: '{{{{ 22 }}}}'}}\n")
        done = run("verify", "--inventory", str(inventory), "-p", "t4-train", "--only", "python3", "--json")
        a, b, c = json.loads(done.stdout)["hosts"]
        assert [report["exit_code"] for report in (a, b, c)] == [3, 0, 3]
        assert a["findings"][0]["observed"] == "host-unreachable: a: ansible_host: no line of text"
        assert c["findings"][0]["observed"].endswith("c: ansible_port: a template, which ansible-inventory does not render")
        assert "under `Host c` in ~/.ssh/config" in c["findings"][0]["hint"]
        inventory.write_text(f"gpus:\n  hosts:\n    {odd}\n")
        alone = run("verify", "--inventory", str(inventory), "-p", "t4-train")
        assert (alone.exit_code, "error[host-unreachable]: a: ansible_host" in alone.output) == (3, True)
        assert not (tmp_path / "owned").exists()

    @pytest.mark.usefixtures("_ssh")
    def test_waiting_ends_when_its_time_is_over(self, run: Run) -> None:
        done = run("verify", "down", "-p", "t4-train", "--wait", "1s", "--json")
        assert (done.exit_code, json.loads(done.stdout)["hosts"][0]["findings"][0]["check"]) == (3, "reachable")
        wrong = run("verify", "down", "-p", "t4-train", "--wait", "soon")
        assert (wrong.exit_code, "write it as 90s, 10m, 2h or 1d" in wrong.output) == (2, True)


class TestAfterReboot:
    def test_what_was_lost_is_said(self, tmp_path: Path, run: Run) -> None:
        identity = GOOD["identity"]
        before = facts_file(tmp_path, "before")
        after = facts_file(tmp_path, "after", identity={**identity, "boot_id": "2"}, persistence_unit={"enabled": False})
        done = run("verify", "-p", "t4-train", "--facts", str(after), "--after-reboot", str(before))
        assert "persistence-at-boot did not survive the reboot" in done.output
        assert done.exit_code == 1

    def test_without_a_reboot_nothing_is_proven(self, tmp_path: Path, run: Run) -> None:
        before = facts_file(tmp_path, "before")
        done = run("verify", "-p", "t4-train", "--facts", str(before), "--after-reboot", str(before))
        assert "nothing is proven about the reboot" in done.output
        assert done.exit_code in {1, 3}


def test_a_folder_that_cannot_be_made_is_an_error_with_a_way_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_HOME", "/dev/null/gpuprov")
    done = run("verify", "localhost", "-p", "t4-train")
    assert (done.exit_code, "error[" in done.stderr, "hint: GPUPROV_HOME names another folder" in done.stderr) == (2, True, True)


def test_judging_needs_no_cache(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUPROV_CACHE", "/dev/null/gpuprov")
    assert run("verify", "-p", "t4-train", "--facts", str(facts_file(tmp_path, "one"))).exit_code in {0, 1, 3}


def test_a_group_is_several_running_hosts(call: Call, tmp_path: Path) -> None:
    for words in (("--facts", str(facts_file(tmp_path, "a")), "--facts", str(facts_file(tmp_path, "b"))), ("one",), ("one", "one")):
        code, _, err = call("verify", *words, "--profile", "t4-train", "--together")
        assert (code, "--together is about several running hosts" in err) == (2, True), err
