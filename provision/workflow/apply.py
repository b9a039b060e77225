"""`apply`: what should hold on a host that exists."""

import datetime as dt
from pathlib import Path

from provision.profile import load
from provision.profile.exact import refuse_vanished
from provision.profile.lock import build
from provision.review.approval import Submission, admit
from provision.review.where import Organisation
from provision.workflow.session import Session, today
from provision.workflow.setup import SetupRequest


def request_for(session: Session, host: str, name: str | None, bundle: Path | None, organisation: Organisation) -> SetupRequest:
    """What should hold on a host, after the organisation's rules have allowed it.

    It is the profile that `name` names and its lock, or those of the signed bundle, or the ones that the host was launched with.
    """
    subject = None
    if bundle is None or name is not None:
        profile, path = session.profile_for(host, name), load.find(name) if name is not None else None
        subject = Submission(profile, lambda: session.lock_for(host, name, profile) or build(profile, today()), path)
    admitted = admit(subject, bundle, organisation, dt.datetime.now(dt.UTC))
    # Versions are exact even where there is no lock: what is set up is what would be locked today.
    lock = session.lock_for(host, name, admitted.profile, signed=admitted.lock) or build(admitted.profile, today())
    refuse_vanished(lock)
    return SetupRequest(session.target(host), admitted.profile, lock, bundle=admitted.bundle, approvals=admitted.approvals)
