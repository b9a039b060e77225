"""What the log of changes says of each command that changes something, at a cloud or on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision import canonical
from provision.clouds.base import NAME
from provision.launch.audit import Ending, Safe, Undertaking
from provision.launch.fleets import Fleets
from provision.profile import load

if TYPE_CHECKING:  # what they import would slow the commands that need none of it
    from contextlib import AbstractContextManager

    from provision.review.bundle import Bundle
    from provision.workflow.session import Session
    from provision.workflow.setup import SetupRequest
    from provision.workflow.up import UpRequest


def launching(session: Session, request: UpRequest) -> AbstractContextManager[Ending]:
    """`up`."""
    arguments: dict[str, Safe] = {
        "count": request.count,
        "min": request.minimum,
        "wait_capacity_s": request.wait_s,
        "without_gpu": request.without_gpu,
        "all": request.all_roles,
    }
    return session.audit.undertaken(
        Undertaking(
            "up",
            request.name,
            rehearsal=request.rehearsal is not None,
            arguments=arguments,
            profile=load.digest(request.profile),
            lock=request.lock.digest,
            statement=request.bundle or "",
            approvals=request.approvals,
        )
    )


def applying(session: Session, host: str, request: SetupRequest) -> AbstractContextManager[Ending]:
    """`apply`."""
    arguments: dict[str, Safe] = {"roles": request.roles or (), "without_gpu": request.without_gpu, "all": request.all_roles}
    return session.audit.undertaken(
        Undertaking(
            "apply",
            host,
            rehearsal=_is_rehearsed(session, host),
            arguments=arguments,
            profile=load.digest(request.profile),
            lock=request.lock.digest,
            statement=request.bundle or "",
            approvals=request.approvals,
        )
    )


def approving(session: Session, bundle: Bundle, principal: str, days: int) -> AbstractContextManager[Ending]:
    """`sign`."""
    statement = bundle.statement
    return session.audit.undertaken(
        Undertaking(
            "sign",
            statement.profile.name,
            arguments={"as": principal, "days": days},
            profile=statement.profile.sha256,
            lock=statement.lock.sha256,
            statement=bundle.digest,
        )
    )


def changing(
    session: Session, command: str, name: str, *, rehearsal: bool | None = None, by: UpRequest | None = None, **arguments: Safe
) -> AbstractContextManager[Ending]:
    """The other commands: what they change is what was launched, by the profile and the lock of its launch or fleet, or `by` new ones.

    `rehearsal` counts only where nothing is known of the launch.
    """
    # No launch and no fleet has an empty name, or one that none could have.
    record = session.journal.of(name) or (Fleets(session.state / "fleets").get(name) if NAME.fullmatch(name) else None)
    if by is not None:
        profile, lock = load.digest(by.profile), by.lock.digest
    else:
        profile = record.profile_digest if record else ""
        lock = canonical.digest(record.lock) if record and record.lock else ""
    return session.audit.undertaken(
        Undertaking(
            command,
            name,
            rehearsal=record.rehearsal if record else bool(rehearsal),
            arguments=arguments,
            profile=profile,
            lock=lock,
            statement=(by.bundle if by else None) or "",
            approvals=by.approvals if by else (),
        )
    )


def _is_rehearsed(session: Session, host: str) -> bool:
    record = session.journal.of(host)
    return record is not None and record.rehearsal
