"""What `up` and `apply` may run: what the organisation's rules allow and, where they demand it, enough people have signed.

The one place where rules and signatures are enforced; `review` and `plan` only show what `violations` says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from provision.errors import BundleStaleError, PolicyViolatedError, SignatureMissingError
from provision.profile import load as profiles
from provision.profile import lockfile
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review import bundle as bundles
from provision.review import policy as policies
from provision.review import rules, sign
from provision.review.bundle import Bundle
from provision.review.policy import Loaded
from provision.review.rules import Violation
from provision.review.where import Organisation
from provision.verify.evidence import Approved, Reviewed

__all__ = ["Admitted", "Agreed", "Asked", "admit", "agreed", "rules_for", "violations"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A profile that somebody named.

    Attributes:
        path: its file; None where it came from elsewhere, such as the journal.
        lock: gives its lock, built where there is none; called when it is needed.
    """

    profile: Profile
    lock: Callable[[], Lock]
    path: Path | None = None

    @classmethod
    def read(cls, path: Path, today: dt.date) -> Asked:
        """The profile of a file, with the lock beside it or what would be locked today."""
        profile = profiles.load(path)
        return cls(profile, lambda: lockfile.find_or_build(path, profile, today), path)


@dataclass(frozen=True, slots=True)
class Admitted:
    """What may run.

    Attributes:
        lock: what was signed; None where nothing was, and the caller's own lock counts.
        bundle: the digest of the bundle's statement; None where there is no bundle.
        signatures: those of the bundle, whether they hold or not.
    """

    profile: Profile
    lock: Lock | None = None
    bundle: str | None = None
    signatures: tuple[sign.Signature, ...] = ()


def admit(asked: Asked | None, bundle: Path | None, organisation: Organisation, now: dt.datetime) -> Admitted:
    """Decide about what is about to run.

    Args:
        asked: the profile that was named; None when only a bundle was.
        bundle: what was reviewed; its profile and lock are what runs.
        organisation: rules, signers, revoked keys. Without rules of its own those in the bundle count.
        now: the time, with its zone.

    Raises:
        BundleInvalidError: a part of the bundle is not what was reviewed.
        BundleStaleError: the profile or its lock was changed since; the message says what.
        SignatureRefusedError, SignatureMissingError: as `sign.require`; or the rules demand signatures and there is no bundle.
        PolicyViolatedError: a rule is broken.
        PolicyInvalidError: the rules cannot be read.
    """
    if bundle is None:
        assert asked is not None  # noqa: S101 - the command line takes care
        loaded = rules_for(organisation)
        if loaded is not None:
            raw = asked.path.read_bytes() if asked.path else None
            _keep(loaded, asked.profile, asked.lock(), raw, now)
            _demand_no_signature(loaded, asked)
        return Admitted(asked.profile)
    reviewed = bundles.read(bundle)
    if asked is not None:
        _unchanged(asked, reviewed)
    loaded = rules_for(organisation, reviewed)
    signatures = sign.require(reviewed, organisation, now, loaded.policy.signatures if loaded else None)
    if loaded is not None:
        _keep(loaded, reviewed.profile, reviewed.lock, reviewed.files["profile.yml"], now)
    return Admitted(reviewed.profile, reviewed.lock, reviewed.digest, signatures)


@dataclass(frozen=True, slots=True)
class Agreed:
    """A bundle whose digests hold, with who agreed to it.

    Attributes:
        signatures: all of them; where none is demanded they are for information, and where nobody says who may sign they are unchecked.
        required: how many are demanded; 0 where no rules demand any.
    """

    bundle: Bundle
    signatures: tuple[sign.Signature, ...]
    required: int

    @property
    def reviewed(self) -> Reviewed:
        """What evidence has of it."""
        stated = self.bundle.statement
        return Reviewed(
            statement=self.bundle.digest,
            profile=stated.profile.sha256,
            lock=stated.lock.sha256,
            required=self.required,
            counted=sign.counted(self.signatures),
            approvals=tuple(Approved(**asdict(signature)) for signature in self.signatures),
        )


def agreed(path: Path, organisation: Organisation, now: dt.datetime) -> Agreed:
    """What a bundle asks to hold on hosts that exist, and who agreed to it; nothing is launched or changed for it.

    Args:
        path: the bundle.
        organisation: who may sign. Signatures are demanded when its rules or those in the bundle demand them.
        now: the time, with its zone.

    Raises:
        BundleInvalidError: a part of the bundle is not what was reviewed.
        SignatureRefusedError, SignatureMissingError: as `sign.require`; a forged signature is refused even where none is demanded.
        PolicyInvalidError: the rules cannot be read.
    """
    reviewed = bundles.read(path)
    demanded = None
    for loaded in (rules_for(organisation, reviewed), rules_for(Organisation(), reviewed)):
        demanded = demanded or (loaded.policy.signatures if loaded else None)
    if demanded is not None:
        return Agreed(reviewed, sign.require(reviewed, organisation, now, demanded), demanded.required)
    if organisation.signers is None:
        return Agreed(reviewed, sign.unchecked(reviewed), 0)
    signatures = sign.judge(reviewed, organisation, now)
    sign.refuse(reviewed, signatures)
    return Agreed(reviewed, signatures, 0)


def rules_for(organisation: Organisation, bundle: Bundle | None = None) -> Loaded | None:
    """The organisation's rules as they are now, else those that the bundle was reviewed under, else None.

    Raises:
        PolicyInvalidError: they cannot be read.
    """
    if organisation.policy is not None:
        return policies.load(organisation.policy)
    if bundle is not None and "policy.yml" in bundle.files:
        return policies.parse(bundle.files["policy.yml"], bundle.path / "policy.yml")
    return None


def violations(loaded: Loaded, profile: Profile, lock: Lock, raw: bytes | None, now: dt.datetime) -> list[Violation]:
    """What breaks the rules, or is not known to keep them.

    Args:
        loaded: the rules.
        profile: what is asked.
        lock: what it is resolved to.
        raw: the bytes of the profile's file, for line numbers; None where there is no file.
        now: the time, with its zone.
    """
    return rules.judge(loaded, profile, lock, raw, now.astimezone(dt.UTC).date())


def _keep(loaded: Loaded, profile: Profile, lock: Lock, raw: bytes | None, now: dt.datetime) -> None:
    broken = violations(loaded, profile, lock, raw, now)
    if broken:
        plural = "" if len(broken) == 1 else "s"
        head = f"{profile.name} breaks the rules {loaded.policy.name} ({len(broken)} violation{plural})"
        contact = f", or ask {loaded.policy.contact}" if loaded.policy.contact else ""
        raise PolicyViolatedError(
            "\n".join([head, *(f"  {violation}" for violation in broken)]), hint=f"change the profile{contact}; the rules are {loaded.path}"
        )


def _demand_no_signature(loaded: Loaded, asked: Asked) -> None:
    demanded = loaded.policy.signatures
    if demanded is not None:
        name = asked.profile.name
        msg = f"the rules {loaded.policy.name} demand {demanded.required} signatures, and no bundle of {name} is given"
        raise SignatureMissingError(msg, hint=f"`gpuprov review {asked.path or name}` writes a bundle; give the signed one with --bundle")


def _unchanged(asked: Asked, reviewed: Bundle) -> None:
    """The profile that was named, and the lock beside it if there is one, are those of the bundle."""
    hint = "review and sign it again, or leave --profile out to run what was signed"
    if profiles.digest(asked.profile) != reviewed.statement.profile.sha256:
        lines = lockfile.differences(reviewed.profile.dump(), asked.profile.dump())
        msg = "\n".join([f"{asked.profile.name} was changed since {reviewed.path} was reviewed", *_inert(lines)])
        raise BundleStaleError(msg, hint=hint)
    beside = lockfile.find(asked.path, asked.profile) if asked.path else None
    if beside is not None and beside.digest != reviewed.lock.digest:
        msg = "\n".join(
            [
                f"the lock of {asked.profile.name} was changed since {reviewed.path} was reviewed",
                *_inert(lockfile.changes(reviewed.lock, beside)),
            ]
        )
        raise BundleStaleError(msg, hint=hint)


def _inert(lines: list[str]) -> list[str]:
    """Each on a line of its own, without what a terminal would obey."""
    return [f"  {''.join(c if c.isprintable() else ' ' for c in line)[:300]}" for line in lines]
