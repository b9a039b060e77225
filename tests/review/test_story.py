"""Two parties, two homes, two keys, one real host: from the engineer's profile to the certificate in her hands, and what moves after it.

The order of the tests in the class is the order of the story; they share one machine, so the file runs in one worker (tests/conftest.py).
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision import paths
from tests import forked

from .samples import key, public

pytestmark = pytest.mark.rehearsal

ISA = "isa@example.com"
RULES = f"""\
schema: 1
name: isa-rules
contact: {ISA}
clouds: [aws]
counters: [group, admin-only]
max_deadline_h: 12
owner_domains: [example.com]
signatures: {{required: 1, principals: [{ISA}]}}
"""


@dataclass(frozen=True)
class Party:
    """One of the two: a folder with her key, her gpuprov home and her ssh configuration."""

    folder: Path
    environment: dict[str, str]

    @classmethod
    def make(cls, folder: Path, **extra: str) -> "Party":
        folder.mkdir()
        key(folder, "key")
        (folder / "ssh_config").touch()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "GPUPROV_")) or k == "AWS_CA_BUNDLE"}
        own = {"GPUPROV_HOME": str(folder / "state"), "GPUPROV_SSH_CONFIG": str(folder / "ssh_config")}
        none = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true"}
        return cls(folder, {**kept, **own, **none, **extra})

    def gpuprov(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return forked.gpuprov(*map(str, words), env=self.environment, cwd=self.folder)


@dataclass(frozen=True)
class Cast:
    engineer: Party
    isa: Party
    bundle: Path
    profile: Path

    def reached_by_ssh(self) -> None:
        """What the engineer writes into her ~/.ssh/config when ISA tells her the address and the host key.

        OpenSSH finds that file by the user database and not by HOME, so here an ssh of her own names it.
        """
        folder = self.engineer.folder
        told = (self.isa.folder / "state" / "ssh" / "hosts.conf").read_text()
        address = next(line.split()[1] for line in told.splitlines() if line.strip().startswith("HostName"))
        keys = (self.isa.folder / "state" / "ssh" / "known_hosts").read_text()
        (folder / "known_hosts").write_text(re.sub(r"(?m)^\S+", "training", keys))
        (folder / "ssh_config").write_text(
            f"Host training\n  HostName {address}\n  HostKeyAlias training\n  User ada\n  IdentityFile {folder}/key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n"
        )
        program = folder / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/ssh_config "$@"\n')
        program.chmod(0o755)
        self.engineer.environment["PATH"] = f"{program.parent}:{self.engineer.environment['PATH']}"

    def verify(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.engineer.gpuprov("verify", "training", "--bundle", self.bundle, "--without-gpu", *words)


def written(engineer: Path) -> Path:
    """What the engineer writes: the shipped T4 profile made small, on AWS alone, with her own login."""
    text = (paths.profiles_dir() / "t4-train.yml").read_text()
    start, end = text.index("  - cloud: gcp"), text.index("os:\n")
    text = text[:start] + text[end:]
    start, end = text.index("  data:\n"), text.index("network:\n")
    text = text[:start] + text[end:]
    for before, after in (
        ("name: t4-train", "name: training"),
        ("  frameworks:\n    pytorch: auto\n", ""),
        ("opencv: wheel", "opencv: none"),
        ("ffmpeg: true", "ffmpeg: false"),
        ("users: [] #", f"users: [{{name: ada, ssh_keys: [{public(engineer / 'key')}]}}] #"),
    ):
        assert before in text, before
        text = text.replace(before, after)
    path = engineer / "training.yml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cast]:
    folder = tmp_path_factory.mktemp("two-parties")
    isa = Party.make(folder / "isa")
    (isa.folder / "policy.yml").write_text(RULES)
    (isa.folder / "allowed_signers").write_text(f'{ISA} namespaces="gpuprov-review@v1" {public(isa.folder / "key")}\n')
    files = {"GPUPROV_POLICY": str(isa.folder / "policy.yml"), "GPUPROV_SIGNERS": str(isa.folder / "allowed_signers")}
    isa.environment.update(files)
    engineer = Party.make(folder / "engineer", **files)
    yield Cast(engineer, isa, engineer.folder / "training.bundle.zip", written(engineer.folder))
    isa.gpuprov("rehearse", "stop")
    left = "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in (["mount"], ["ps", "-eo", "args"]))
    assert [line for line in left.splitlines() if str(folder) in line] == []


class TestTwoParties:
    def test_the_engineer_writes_too_much_is_told_and_narrows(self, cast: Cast) -> None:
        refused = cast.engineer.gpuprov("policy", "check", cast.profile)
        assert (refused.returncode, "(rule counters)" in refused.stdout) == (2, True), refused.stderr
        cast.profile.write_text(cast.profile.read_text().replace("counters: all-users", "counters: group"))
        done = cast.engineer.gpuprov("review", cast.profile, "-o", cast.bundle)
        assert (done.returncode, "ada gets a login" in done.stdout) == (0, True), done.stderr

    def test_nobody_runs_what_nobody_signed(self, cast: Cast) -> None:
        done = cast.isa.gpuprov("up", "--bundle", cast.bundle, "--rehearse", "--without-gpu")
        assert (done.returncode, "error[signature-missing]" in done.stderr) == (2, True), done.stderr

    def test_isa_checks_signs_and_launches(self, cast: Cast) -> None:
        assert cast.isa.gpuprov("policy", "check", cast.profile).returncode == 0
        signed = cast.isa.gpuprov("sign", cast.bundle, "--key", cast.isa.folder / "key", "--as", ISA)
        assert signed.returncode == 0, signed.stderr
        done = cast.isa.gpuprov("up", "--bundle", cast.bundle, "--rehearse", "--without-gpu", "--json")
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout)["bundle"] in signed.stdout

    def test_the_engineer_verifies_by_her_own_key_and_has_evidence(self, cast: Cast) -> None:
        cast.reached_by_ssh()
        done = cast.verify("--evidence", "e.json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"valid: {ISA}: signed " in done.stderr
        review = json.loads((cast.engineer.folder / "e.json").read_text())["review"]
        assert [(a["principal"], a["outcome"]) for a in review["approvals"]] == [(ISA, "valid")]

    def test_she_gets_the_certificate(self, cast: Cast) -> None:
        done = cast.engineer.gpuprov("accept", "e.json", "--bundle", cast.bundle, "-o", "certificate.html")
        assert (done.returncode, done.stdout.startswith("matches: training matches the profile training: ")) == (0, True), done.stderr
        page = (cast.engineer.folder / "certificate.html").read_text()
        assert ISA in page
        assert "are excused" in page
        assert "judged again for this certificate, with the same findings" in page

    def test_nothing_moved(self, cast: Cast) -> None:
        done = cast.verify("--against", "e.json", "--json")
        assert (done.returncode, json.loads(done.stdout)["drift"]) == (0, []), done.stderr

    def test_one_line_changed_is_refused_and_named(self, cast: Cast) -> None:
        good = cast.profile.read_text()
        cast.profile.write_text(good.replace("deadline_h: 12", "deadline_h: 11"))
        for party in (cast.engineer, cast.isa):
            done = party.gpuprov("up", "--profile", cast.profile, "--bundle", cast.bundle, "--rehearse", "--without-gpu")
            assert (done.returncode, "error[bundle-stale]" in done.stderr) == (2, True), done.stderr
            assert "\n  limits.deadline_h: 12 → 11\n" in done.stderr
        shown = cast.engineer.gpuprov("review", cast.profile, "--against", cast.bundle)
        assert (shown.returncode, "11" in shown.stdout, "(+ wider, - narrower, ~ neutral) since" in shown.stdout) == (0, True, True), (
            shown.stderr
        )
        cast.profile.write_text(good)

    @pytest.mark.parametrize(
        ("part", "name"), [("  deadline_h: 12", "profile.yml"), ('"principal":"isa', "approvals/isa@example.com.json")]
    )
    def test_one_bit_flipped_is_refused_and_named(self, cast: Cast, part: str, name: str) -> None:
        raw = bytearray(cast.bundle.read_bytes())
        raw[raw.index(part.encode()) + len(part) - 1] ^= 1
        flipped = cast.engineer.folder / "flipped.bundle.zip"
        flipped.write_bytes(raw)
        for words in (["up", "--rehearse", "--without-gpu"], ["verify", "training"], ["accept", "e.json"]):
            done = (cast.isa if words[0] == "up" else cast.engineer).gpuprov(*words, "--bundle", flipped)
            assert (done.returncode, "error[bundle-invalid]" in done.stderr, name in done.stderr) == (2, True, True), done.stderr

    def test_what_moves_on_the_host_is_said(self, cast: Cast) -> None:
        assert cast.isa.gpuprov("ssh", "training", "sudo rm /etc/profile.d/gpuprov-cuda.sh").returncode == 0
        done = cast.verify("--against", "e.json", "--evidence", "later.json")
        assert done.returncode == 1, done.stderr
        assert done.stdout.endswith(
            "\nsince the evidence:\n  training: cuda-environment broke: warn: in all others; sudo asks this user for a password, "
            "so what it finds was not seen → fail: missing in login shells\n"
        )
        later = cast.engineer.gpuprov("accept", "later.json", "--bundle", cast.bundle, "-o", "certificate.html")
        assert (
            later.returncode,
            later.stdout.startswith("does NOT match: training does NOT match the profile training: 1 check fails"),
        ) == (
            1,
            True,
        )

    def test_isa_puts_it_right_and_removes_it(self, cast: Cast) -> None:
        done = cast.isa.gpuprov("apply", "training", "--bundle", cast.bundle, "--without-gpu", "--json")
        assert (done.returncode, json.loads(done.stdout)["hosts"][0]["roles"]) == (0, ["cupti"]), done.stderr
        assert cast.verify("--against", "e.json").returncode == 0
        assert cast.isa.gpuprov("down", "training", "--yes").returncode == 0
