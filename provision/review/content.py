"""From a profile and its lock to a review: pure, so that the same input gives the same bytes. Nothing is asked of the network."""

from __future__ import annotations

from collections.abc import Sequence

from provision import __version__
from provision.catalog import read
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review import exposure, software
from provision.review.controls import controls, line_of
from provision.review.risks import Judged, gains, risks
from provision.review.tree import SCHEMA, Question, Review, WaiverItem

__all__ = ["Judged", "content"]

_QUESTIONS = (
    Question("purpose", "The purpose needs this machine, and the owner answers for it."),
    Question("risks", "Each risk above is accepted, or the profile will be changed."),
    Question("places", "These regions, machine types and public addresses are allowed for this purpose."),
    Question("price", "The price, the limit and the deadline are accepted."),
    Question("exposure", "Who can reach the machine, and from where, is accepted."),
    Question("software", "The repositories, packages and wheels may be installed."),
    Question("host", "The changes on the host are accepted."),
    Question("permissions", "The permissions may be given to whoever runs `gpuprov up`."),
    Question("proof", "What `gpuprov verify` proves is enough, and the waivers hold."),
)


def content(profile: Profile, lock: Lock, source: bytes, *, differs: Sequence[str] = (), judged: Judged | None = None) -> Review:
    """Everything that a reviewer needs.

    Args:
        profile: what is asked.
        lock: what that was resolved to; of this very profile.
        source: the bytes of the profile's file, for the lines that cause things.
        differs: what the lock holds otherwise than it would be resolved now, as `lockfile.stale` says it.
        judged: the organisation's rules and what breaks them; None where there are none.
    """
    lines = load.lines(source)
    planned = plan(profile, lock)
    packages, environments = software.packages(profile, lock), software.environments(lock)
    changed = software.host_changes(profile, lock)
    return Review(
        schema=SCHEMA,
        profile=profile.name,
        profile_sha256=planned.profile_sha256,
        lock_sha256=lock.digest,
        catalogue=lock.catalogue,
        made_by=f"gpuprov {__version__}",
        purpose=profile.purpose,
        owner=profile.owner.name,
        owner_email=profile.owner.email,
        system=f"{profile.os.name} {profile.os.version}",
        gpu=f"{profile.gpu.count} x {read.gpu(profile.gpu.model).name}",
        risks=risks(planned, lines, packages=packages, environments=environments, differs=differs, judged=judged),
        gains=gains(planned, judged),
        rules=judged.name if judged else "",
        rules_sha256=judged.sha256 if judged else "",
        places=exposure.places(planned),
        disks=exposure.disks(planned),
        addresses=exposure.addresses(planned),
        tags=exposure.tags(planned),
        money=exposure.money(planned),
        doors=exposure.doors(planned),
        logins=(
            "the image's login user: the launch key that gpuprov makes, sudo without a password",
            *(f"{user.name}: {len(user.ssh_keys)} keys of the profile, no password, no sudo" for user in profile.users),
        ),
        stack=software.stack(lock),
        repositories=software.repositories(lock),
        packages=packages,
        environments=environments,
        changes=changed,
        reboots=sum(change.kind == "reboot" for change in changed),
        undo=software.undo(changed),
        controls=controls(profile, lines, changed),
        tier=profile.verify.tier,
        waivers=tuple(
            WaiverItem(w.check, w.reason, w.owner, w.expires.isoformat(), line_of(f"verify.waivers.{number}", lines)[0])
            for number, w in enumerate(profile.verify.waivers)
        ),
        permissions=exposure.permissions(planned),
        calls=exposure.calls(planned),
        questions=_QUESTIONS,
        text=tuple(source.decode(errors="replace").splitlines()),
    )
