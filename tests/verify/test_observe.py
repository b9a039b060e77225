"""The probe's one round trip, run on this machine: what comes back, and hosts that lie, break or hang."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision.errors import HostUnreachableError, ProbeFailedError
from provision.host.ssh import LOCALHOST
from provision.profile import load
from provision.verify.facts import Facts
from provision.verify.facts.disk import RootDiskFacts
from provision.verify.facts.system import IdentityFacts, KernelFacts, Python3Facts, ReleaseFacts
from provision.verify.judge import judge
from provision.verify.observe import Asked, observe


def look(timeout_s: float = 60) -> Facts:
    return asyncio.run(observe(LOCALHOST, timeout_s=timeout_s, asked=Asked("quick")))


@pytest.fixture
def fake_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `python3` first on PATH, whose text a test writes; the real one is in $REAL."""
    path = tmp_path / "bin" / "python3"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("REAL", sys.executable)
    return path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_facts_of_this_machine_are_what_this_machine_says() -> None:
    facts = look()
    assert facts.read(KernelFacts).release == os.uname().release
    assert facts.read(IdentityFacts).uid == os.geteuid()
    assert facts.read(Python3Facts).version.startswith("3.")
    assert facts.read(ReleaseFacts).id in Path("/etc/os-release").read_text()
    assert all(set(fact) in ({"value"}, {"unknown"}) for fact in facts.raw.values())


@pytest.mark.parametrize(
    "text",
    [
        'echo "Welcome! <<gpuprov fake 4>>AAAA<<end>>"; exec "$REAL" "$@"',
        'printf "no newline at the end"; exec "$REAL" "$@"',
        'echo noise >&2; "$REAL" "$@"; printf "bye, no newline"',
    ],
)
def test_noise_around_the_answer_does_not_matter(fake_python: Path, text: str) -> None:
    script(fake_python, text)
    assert look().read(KernelFacts).release == os.uname().release


def test_a_host_without_python3_is_a_finding_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    report = judge(look(), load.load(load.find("t4-train")))
    findings = {f.check: f for f in report.findings}
    assert (findings["python3"].outcome, findings["python3"].observed) == ("fail", "no python3 on this host")
    assert findings["gcc"].outcome == "unknown"


@pytest.mark.parametrize("text", ["exit 1", "echo hello", 'echo "Traceback: boom" >&2; exit 3', "head -c 40000000 /dev/zero"])
def test_no_facts_is_said_so_with_what_came_instead(fake_python: Path, text: str) -> None:
    script(fake_python, text)
    with pytest.raises(ProbeFailedError) as caught:
        look()
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_a_python_that_hangs_is_bounded(fake_python: Path) -> None:
    script(fake_python, "exec sleep 60")
    with pytest.raises(HostUnreachableError):
        look(timeout_s=1)


def test_a_tool_that_hangs_costs_its_own_fact_and_no_other(fake_python: Path) -> None:
    script(fake_python, 'exec "$REAL" "$@"')
    script(fake_python.parent / "gcc", "exec sleep 60")
    facts = look(timeout_s=6)
    assert "unknown" in facts.raw["tool_gcc"]
    assert facts.read(KernelFacts).release == os.uname().release


def test_the_probe_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that an ordinary user could be left is below her home, the temporary folder and the working folder: empty ones here."""
    for name, variable in (("home", "HOME"), ("temporary", "TMPDIR"), ("runtime", "XDG_RUNTIME_DIR"), ("cache", "XDG_CACHE_HOME")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    before = set(tmp_path.rglob("*"))
    assert look().read(KernelFacts).release == os.uname().release
    assert set(tmp_path.rglob("*")) == before


def test_the_probes_source_is_python_3_8() -> None:
    import ast

    import provision.verify.observe as module

    for path in sorted((Path(module.__file__).parent / "probe").glob("*.py")):
        ast.parse(path.read_text(), feature_version=(3, 8))


def test_a_root_that_lies_on_a_disk_is_measured_and_any_other_is_told_apart() -> None:
    here = look().read(RootDiskFacts)
    kind = subprocess.run(["findmnt", "-rno", "FSTYPE", "/"], check=True, capture_output=True, text=True).stdout.strip()
    assert here.type == kind
    if here.partition is not None:
        assert here.partition.size_bytes + here.partition.behind_bytes <= here.partition.disk_bytes
        assert here.partition.file_system_bytes <= here.partition.size_bytes
