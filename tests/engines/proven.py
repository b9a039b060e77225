"""Two machines that were proven on paper: journal, ssh entries and verdicts as the real commands leave them, without a cloud."""

import dataclasses
import datetime as dt
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provision.engines import ENGINES
from provision.engines.base import HostPool
from provision.host.sshconfig import SshHome
from provision.launch.journal import Machine, Record
from provision.profile import load
from provision.profile.model import Profile
from provision.structs import replace
from provision.verify.evidence import Conditions
from provision.verify.fleet import Expectation, HostVerification
from provision.verify.judge import Selection, judge
from provision.verify.kept import KeptVerdicts
from provision.workflow.export import pool
from provision.workflow.session import Session
from tests.verify import good

ALL = Selection()
ROOT = Path(__file__).parents[2]
KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43,)
HERE: dict[str, dict[str, Any]] = {
    "gp-1": {"machine__address": "10.0.0.11", "machine__hostname": "ip-10-0-0-11.internal"},
    "gp-2": {"machine__address": "10.0.0.12", "machine__hostname": "ip-10-0-0-12.internal"},
}


@dataclasses.dataclass
class Proven:
    """The session with the two machines, and how a test changes what is known of one."""

    session: Session

    def verified(self, name: str, *, profile: Profile = good.PROFILE, selection: Selection = ALL, **changes: Any) -> int:
        """A verdict on a machine, kept; returns its exit code."""
        without_gpu = changes.pop("without_gpu", False)
        facts = good.facts(**{**HERE[name], **changes})
        report = judge(facts, profile, host=name, selection=selection, without_gpu=without_gpu)
        how = Conditions(
            only=tuple(selection.only), skip=tuple(selection.skip), tier=selection.tier, without_gpu=without_gpu, on="2026-11-23"
        )
        record = self.session.record(name)
        machine = record.machine(name)
        assert machine
        host = HostVerification(Expectation(self.session.target(name), profile), report, facts)
        KeptVerdicts(self.session.verdicts).keep(record, machine, host, how)
        return report.exit_code()

    def pool(self, *names: str, hours: float = 24, title: str | None = None, later_s: float = 0) -> HostPool:
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=later_s)
        return pool(self.session, names or ["gp"], max_age=dt.timedelta(hours=hours), title=title, now=now)

    def with_facts(self, **changes: Any) -> HostPool:
        """The pool with other facts of its first host, such as no proof that holds could have."""
        read = self.pool()
        first, *rest = read.hosts
        return replace(read, hosts=(replace(first, facts=good.facts(**changes)), *rest))

    def files(self, engine: str, *names: str) -> dict[str, str]:
        return ENGINES[engine].render(self.pool(*names))

    def file(self, engine: str, *names: str) -> str:
        return self.files(engine, *names)[str(ENGINES[engine].file)]


def proven(home: Path, **entry: str) -> Proven:
    session = Session(home, Session.open().journal, SshHome(home / "ssh"))
    session.ssh.public_key()
    now = dt.datetime.now(dt.UTC)
    machines = tuple(Machine(name, f"i-{name}", "aws", "us-east-1", f"203.0.113.{number}") for number, name in enumerate(HERE, 1))
    data = good.PROFILE.dump()
    deadline = (now + dt.timedelta(hours=48)).isoformat()
    record = Record(
        name="gp",
        launch_id="0" * 16,
        rehearsal=False,
        profile=data,
        profile_digest=load.digest(good.PROFILE),
        created_at=now.isoformat(),
        deadline=deadline,
        count=2,
        minimum=2,
        machines=machines,
    )
    session.journal.put(record)
    for machine in machines:
        session.ssh.add(machine.name, address=machine.address, login="ubuntu", keys=KEYS, way=entry.get("way", ""))
    made = Proven(session)
    for name in HERE:
        assert made.verified(name) == 0
    return made


def engine(name: str) -> Path:
    """The python of an engine's own environment; a test that needs it is skipped without it."""
    python = Path(os.environ.get("GPUPROV_ENGINES", ROOT / "build" / "engines")) / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{name} is not installed: make test-engines")
    return python


def ask(python: Path, program: str, text: str, **environment: str) -> str:
    """What a program prints in an engine's environment."""
    done = subprocess.run(
        [str(python), "-c", program],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": "", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
