"""A member of a fleet brings itself to what its profile asks for, and judges itself, with the engine of its bundle.

It observes, runs the roles whose checks do not pass, observes again, and prints the last facts. Its exit code is the verdict's: 0 only
where every check passed, was waived or warned. What it could not observe is unknown, and so not 0.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from provision.converge import failure, inert
from provision.converge.failed_member import told_failure
from provision.converge.onhost.loopback import over_ssh
from provision.converge.onhost.session import START, tail
from provision.converge.roles import in_order, roles_for, with_groundwork
from provision.converge.variables import variables
from provision.errors import EXIT_OK, EXIT_UNKNOWN, GpuprovError, HostUnreachableError, SshRefusedError
from provision.paths import read_bounded
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.verify.facts import Facts
from provision.verify.facts.file import dump
from provision.verify.finding import Report
from provision.verify.judge import judge
from provision.verify.observe import Asked, observe

ASKED: Final = "judged.json"
_MOST: Final = 64 << 20
_PROBE_S: Final = 120.0
_SSH_S: Final = 120.0
_MOST_BOOTS: Final = 4
_BOOT_S: Final = 600.0
_BOOTS: Final = "prove-boots"
_TOLD: Final = 20
_NAMED: Final = 5
_DETAIL_CHARS: Final = 1500  # the member posts the last 4000 bytes of what it is told here


@dataclass(frozen=True, slots=True)
class Expected:
    """What should hold on this host, and what it may do for it.

    Attributes:
        roles: those that the bundle has, with their groundwork.
        login: the image's first user, who owns the data disk.
    """

    profile: Profile
    lock: Lock
    without_gpu: bool
    roles: tuple[str, ...]
    login: str

    @classmethod
    def read(cls, path: Path) -> "Expected":
        """What the configuration of a bundle expects."""
        data = json.loads(read_bounded(path, _MOST))
        lock = Lock.model_validate(data["lock"])
        profile = pin(Profile.model_validate(data["profile"]), lock)
        return cls(profile, lock, bool(data["without_gpu"]), in_order(data["roles"]), str(data["login"]))

    def look(self, run: Path) -> tuple[Facts, Report]:
        """What holds now, as the image's first user sees it over SSH; so does a client that verifies this host."""
        asked = Asked.of(self.profile, self.profile.verify.tier)
        end = time.monotonic() + _SSH_S
        with over_ssh(self.login, run) as target:
            while True:
                try:
                    facts = asyncio.run(observe(target, timeout_s=_PROBE_S, asked=asked))
                    break
                except (HostUnreachableError, SshRefusedError):  # sshd may come a moment after this
                    if time.monotonic() > end:
                        raise
                time.sleep(1.0)
        return facts, judge(facts, self.profile, host=target.name, without_gpu=self.without_gpu)

    def needed(self, report: Report) -> tuple[str, ...]:
        """The roles of the checks that do not pass, as far as the bundle has them, and their groundwork."""
        return with_groundwork(tuple(role for role in roles_for(report.findings) if role in self.roles), self.lock)


def set_up(expected: Expected, roles: Sequence[str], place: Path, run: Path) -> dict[str, Any]:
    """Run roles; how the run ended, as `work.py` tells it."""
    values = variables(expected.profile, expected.lock, roles) | {"storage_owner": expected.login}
    (run / "variables.json").write_text(inert.document(values))
    (run / "run.json").write_text(json.dumps({"tags": list(roles), "flags": []}))
    engine, config = (str((place / name).resolve()) for name in ("engine", "config"))
    with (run / "log").open("wb") as log:
        words = [sys.executable, "-IB", "-c", START, engine, str(run), config]
        subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", check=False)
    told = read_bounded(run / "told", _MOST).splitlines() if (run / "told").exists() else []
    lines = [json.loads(line) for line in told]
    failed = [
        line["event_data"] for line in lines if line.get("event") == "runner_on_failed" and not line["event_data"].get("ignore_errors")
    ]
    end = next((line["end"] for line in reversed(lines) if "end" in line), {"code": 1, "output": tail(run / "log")})
    return {**end, "failed": failed[-1] if failed else {}}


def start_again(root: Path) -> None:
    """Restart this machine for what only a boot brings in; the member begins again then. Ends here after so many boots."""
    counted = root / _BOOTS
    boots = int(read_bounded(counted, 20) or b"0") if counted.exists() else 0
    if boots >= _MOST_BOOTS:
        return
    counted.write_text(f"{boots + 1}\n")
    os.sync()
    subprocess.run(["/bin/sh", "-c", "systemctl reboot || reboot"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    time.sleep(_BOOT_S)  # the boot ends this process


def tell_failure(end: dict[str, Any], run: Path) -> None:
    """Say at which role and task the set-up failed: at length, then in one line for programs, and in the last line for people."""
    task = dict(end.get("failed") or {})
    role, name, output = str(task.get("role") or ""), str(task.get("task") or ""), str(end.get("output") or "")
    why = ""
    if name:
        result = task.get("res") or {}
        error: GpuprovError = failure.failed_task(role, name, result, run_dir=str(run))
        why = failure.why_failed(result)
    elif end.get("reboot"):
        error = failure.not_run(f"the set-up asks for one more restart after {_MOST_BOOTS}", output, "see the console")
    else:
        error = failure.failed_play(int(end.get("code") or 0), output, run_dir=str(run))
    sys.stderr.write(f"{error.detail[-_DETAIL_CHARS:]}\n{told_failure(role, name, why or error.message)}\n{error.message}\n")


def prove(expected: Expected, place: Path, root: Path, run: Path) -> int:
    """Bring this host to its profile, print the facts, and say why it is not proven where it is not."""
    facts, report = expected.look(run)
    roles, end = expected.needed(report), dict[str, Any](code=0)
    if roles:
        end = set_up(expected, roles, place, run)
        if end.get("reboot"):
            start_again(root)
        facts, report = expected.look(run)
    sys.stdout.write(dump(facts))
    open_ones = [finding for finding in report.findings if finding.outcome in {"fail", "unknown"}]
    for finding in open_ones[:_TOLD]:
        sys.stderr.write(f"{finding.outcome}: {finding.check}: {finding.observed[:300]}\n")
    if end.get("code") != 0 or end.get("reboot"):
        tell_failure(end, run)
        return report.exit_code() or EXIT_UNKNOWN
    (root / _BOOTS).unlink(missing_ok=True)
    if report.exit_code() != EXIT_OK:
        names = ", ".join(f"{finding.check} {finding.outcome}" for finding in open_ones[:_NAMED])
        more = f" and {len(open_ones) - _NAMED} more" if len(open_ones) > _NAMED else ""
        sys.stderr.write(f"these checks do not pass: {names}{more}\n")
    return report.exit_code()


def main(place: str, root: str, run: str) -> None:
    """Prove this host by the bundle in a folder; the exit code is the verdict's."""
    try:
        expected = Expected.read(Path(place) / "config" / ASKED)
        code = prove(expected, Path(place), Path(root), Path(run))
    except GpuprovError as error:
        sys.stderr.write(f"error[{error.code}]: {error.message}\n")
        code = EXIT_UNKNOWN
    sys.stdout.flush()
    sys.exit(code)
