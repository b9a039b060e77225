"""`apply` and `undo`: set up a host that exists, and put back what the roles changed on it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from provision.converge import run
from provision.converge.progress import Progress
from provision.profile import load
from provision.profile.lock import build
from provision.review.approval import Submission, admit
from provision.review.where import Organisation
from provision.workflow.session import Say, Session, today
from provision.workflow.setup import SetupRequest, artefacts_folder


def request_for(session: Session, host: str, name: str | None, bundle: Path | None, organisation: Organisation) -> SetupRequest:
    """What should hold on a host, after the organisation's rules have allowed it.

    Args:
        session: this user's.
        host: the HOST argument.
        name: the profile's name or file; None for the profile that the host was launched from, or the bundle's.
        bundle: the signed review bundle, whose profile and lock are what runs.
        organisation: where its rules and signers are.
    """
    subject = None
    if bundle is None or name is not None:
        profile, path = session.profile_for(host, name), load.find(name) if name is not None else None
        subject = Submission(profile, lambda: session.lock_for(host, name, profile) or build(profile, today()), path)
    admitted = admit(subject, bundle, organisation, dt.datetime.now(dt.UTC))
    # Versions are exact even where there is no lock: what is set up is what would be locked today.
    lock = session.lock_for(host, name, admitted.profile, signed=admitted.lock) or build(admitted.profile, today())
    return SetupRequest(session.target(host), admitted.profile, lock)


def undo(session: Session, host: str, roles: Sequence[str], *, check: bool, say: Say) -> list[str]:
    """Put back what the roles changed on a host.

    Args:
        session: this user's.
        host: the HOST argument.
        roles: whose changes.
        check: change nothing.
        say: told about each step.

    Returns:
        What was put back, or would be, a line each.
    """
    changes: list[str] = []

    def collect(progress: Progress) -> None:
        changes.extend(progress.diff.splitlines())

    say(f"putting back what {'the roles' if len(roles) > 1 else roles[0]} changed on {host}")
    run.undo(session.target(host), roles, run_dir=artefacts_folder(session, host), on_progress=collect, check=check)
    return changes
