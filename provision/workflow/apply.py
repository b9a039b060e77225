"""`apply`: what should hold on hosts that exist, and how it comes to hold."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from provision.launch.audit import Ending
from provision.profile import load
from provision.profile.exact import refuse_vanished
from provision.profile.lock import build
from provision.review.approval import Submission, admit
from provision.review.where import Organisation
from provision.workflow import audited
from provision.workflow.session import Say, Session, today
from provision.workflow.setup import SetupRequest, SetupResult, set_up
from provision.workflow.several import HostsFailedError, on_each

if TYPE_CHECKING:
    from provision.converge.progress import Progress


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


def apply(
    session: Session,
    requests: Mapping[str, SetupRequest],
    *,
    strict: bool,
    say: Say,
    on_task: Callable[[Progress], None],
    on_host: Callable[[str, str], None],
) -> list[SetupResult]:
    """Set up hosts that exist, several of them at the same time; the log of changes has each of them.

    Args:
        session: this user's.
        requests: by the HOST that the user named.
        strict: whether a warning is a failure, for the log.
        say: told the steps of one host.
        on_task: told each task of Ansible.
        on_host: told the steps of several hosts, each with its name.

    Raises:
        HostsFailedError: it failed on some of several hosts; the others went on to their ends.
    """
    stop = threading.Event()

    def one(host: str, tell: Say) -> SetupResult:
        request = requests[host]
        logged = contextlib.nullcontext(Ending()) if request.check else audited.applying(session, host, request)
        with logged as ending:
            result = set_up(session, request, say=tell, on_task=on_task, stop=stop)
            ending.code, ending.results = result.report.exit_code(strict=strict), {"roles": result.roles}
        return result

    if len(requests) == 1:
        return [one(host, say) for host in requests]
    outcomes = on_each({host: host for host in requests}, one, on_host=on_host, stop=stop)
    if outcomes.errors:
        raise HostsFailedError(
            outcomes, hint="repair what each line says, and run the same command again: machines that already match are only checked"
        )
    return outcomes.proven
