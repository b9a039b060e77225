"""Make the review of a profile and its lock. The same input gives the same bytes: nothing here contacts a network or reads a clock."""

from collections.abc import Mapping, Sequence

from provision import __version__
from provision.catalog.read import gpu
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review import exposure, software
from provision.review.controls import controls
from provision.review.fleets import FLEET_QUESTION, fleet
from provision.review.identities import ReadIdentities
from provision.review.risks import RulesVerdict, gains, risks
from provision.review.tree import SCHEMA, Question, Review, WaiverItem

_QUESTIONS = (
    Question("purpose", "The purpose justifies this machine, and the owner is responsible for it."),
    Question("risks", "Each risk above is acceptable, or the profile will be changed."),
    Question("places", "These regions, machine types and public addresses are allowed for this purpose."),
    Question("price", "The price, the price limit and the deadline are acceptable."),
    Question("exposure", "It is acceptable who can reach the machine, and from where."),
    Question("software", "The packages and wheels may be installed from these repositories."),
    Question("host", "The changes on the host are acceptable."),
    Question("permissions", "The people who run `gpuprov up` may have these permissions."),
    Question("proof", "The checks of `gpuprov verify` are sufficient, and the waivers are justified."),
)


def content(
    profile: Profile,
    lock: Lock,
    source: bytes,
    *,
    differs: Sequence[str] = (),
    verdict: RulesVerdict | None = None,
    read: ReadIdentities | None = None,
) -> Review:
    """Everything that a reviewer needs.

    Args:
        profile: the profile under review.
        lock: its lock.
        source: the bytes of the profile's file, for line numbers.
        differs: where the lock differs from what the profile resolves to now, as `lockfile.stale` returns it.
        verdict: the organisation's rules and what breaks them; None without rules.
        read: what the clouds said of the machines' identities; None where nobody asked.
    """
    lines = load.lines(source)
    planned = plan(profile, lock)
    packages, environments, changed = software.packages(profile, lock), software.environments(lock), software.host_changes(profile, lock)
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
        gpu=f"{profile.gpu.count} x {gpu(profile.gpu.model).name}",
        risks=risks(planned, lines, packages=packages, environments=environments, differs=differs, verdict=verdict, read=read),
        gains=gains(planned, verdict),
        rules=verdict.name if verdict else "",
        rules_sha256=verdict.sha256 if verdict else "",
        places=exposure.places(planned),
        disks=exposure.disks(planned),
        addresses=exposure.addresses(planned),
        tags=exposure.tags(planned),
        money=exposure.money(planned),
        doors=exposure.doors(planned),
        logins=_logins(profile),
        stack=software.stack(lock),
        repositories=software.repositories(lock),
        packages=packages,
        environments=environments,
        changes=changed,
        reboots=sum(change.kind == "reboot" for change in changed),
        undo=software.undo(changed),
        controls=controls(profile, lines, changed),
        tier=profile.verify.tier,
        waivers=_waivers(profile, lines),
        fleet=fleet(planned),
        permissions=tuple(planned.permissions),
        calls=exposure.calls(planned),
        questions=_questions(profile),
        text=tuple(source.decode(errors="replace").splitlines()),
    )


def _questions(profile: Profile) -> tuple[Question, ...]:
    """What the reviewer answers."""
    return (*_QUESTIONS, *((FLEET_QUESTION,) if profile.fleet else ()))


def _logins(profile: Profile) -> tuple[str, ...]:
    """Who can log in, and what they may do."""
    return (
        "the image's login user: logs in with the launch key that gpuprov creates, and has sudo without a password",
        *(
            f"{user.name}: logs in with the SSH keys of the profile ({len(user.ssh_keys)}), and has no password and no sudo"
            for user in profile.users
        ),
    )


def _waivers(profile: Profile, lines: Mapping[str, int]) -> tuple[WaiverItem, ...]:
    """The checks that are not demanded, each at its line."""
    return tuple(
        WaiverItem(w.check, w.reason, w.owner, w.expires.isoformat(), load.line_of(f"verify.waivers.{number}", lines)[0])
        for number, w in enumerate(profile.verify.waivers)
    )
