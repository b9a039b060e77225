"""What `up` and `apply` may run: what the organisation's rules allow and, where they require it, enough people have signed.

Rules and signatures are enforced only here; `review` and `plan` only show what `violations` returns.
"""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Self

from provision.errors import BundleStaleError, PolicyViolatedError, SignatureMissingError, counted
from provision.profile import load, lockfile
from provision.profile.differences import Difference, compare
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review import rules, sign
from provision.review.bundle import Bundle
from provision.review.bundle import read as read_bundle
from provision.review.policy import PolicyFile
from provision.review.policy import load as load_policy
from provision.review.policy import parse as parse_policy
from provision.review.rules import Violation
from provision.review.where import Organisation
from provision.structs import Struct, asdict
from provision.verify.reviewed import Approved, Reviewed


class Submission(Struct):
    """A profile that somebody wants to run.

    Attributes:
        path: its file; None where it came from elsewhere, such as the journal.
        lock: returns its lock, and builds it where there is none; called only when it is needed.
    """

    profile: Profile
    lock: Callable[[], Lock]
    path: Path | None = None

    @classmethod
    def read(cls, path: Path, today: dt.date) -> Self:
        """The profile of a file, with the lock beside it or what would be locked today."""
        profile = load.load(path)
        return cls(profile, lambda: lockfile.find_or_build(path, profile, today), path)


class Admission(Struct):
    """What may run.

    Attributes:
        lock: the signed lock; None where nothing was signed, so that the caller's own lock counts.
        bundle: the digest of the bundle's statement; None where there is no bundle.
        signatures: those of the bundle, whether they hold or not.
    """

    profile: Profile
    lock: Lock | None = None
    bundle: str | None = None
    signatures: tuple[sign.Signature, ...] = ()

    @property
    def approvals(self) -> tuple[tuple[str, str], ...]:
        """Who signed, and what the signature is worth here."""
        return tuple((signature.principal, signature.outcome) for signature in self.signatures)


def admit(submission: Submission | None, bundle: Path | None, organisation: Organisation, now: dt.datetime) -> Admission:
    """Decide whether a profile or a bundle may run. The profile and lock of a bundle are what runs.

    Without rules of the organisation those in the bundle count.

    Raises:
        SignatureMissingError: the rules require signatures, and there is no bundle.
        ValueError: there is neither a profile nor a bundle.
    """
    if bundle is not None:
        return _admit_bundle(submission, read_bundle(bundle), organisation, now)
    if submission is None:
        msg = "nothing to admit: neither a profile nor a bundle"
        raise ValueError(msg)
    policy_file = rules_for(organisation)
    if policy_file is not None:
        raw = load.raw_of(submission.path) if submission.path else None
        _enforce(policy_file, submission.profile, submission.lock(), raw, now)
        if (rule := policy_file.policy.signatures) is not None:
            name = submission.profile.name
            msg = f"the rules {policy_file.policy.name} require {counted(rule.required, 'signature')}, and {name} comes without a bundle"
            hint = f"`gpuprov review {submission.path or name}` writes a bundle; once it is signed, name it with --bundle"
            raise SignatureMissingError(msg, hint=hint)
    return Admission(submission.profile)


def admit_program(bundle: Path | None, organisation: Organisation) -> None:
    """See that a program of the user's may run as root beside what was signed: its digest is in no statement.

    Raises:
        PolicyViolatedError: the rules demand signatures.
    """
    policy_file = rules_for(organisation, read_bundle(bundle) if bundle is not None else None)
    if policy_file is not None and policy_file.policy.signatures is not None:
        msg = f"the rules {policy_file.policy.name} require signatures, and nobody has signed the program"
        raise PolicyViolatedError(msg, hint="leave --program out: the members then set themselves up by the signed bundle")


def _admit_bundle(submission: Submission | None, bundle: Bundle, organisation: Organisation, now: dt.datetime) -> Admission:
    if submission is not None:
        _check_unchanged(submission, bundle)
    policy_file = rules_for(organisation, bundle)
    signatures = sign.require(bundle, organisation, now, policy_file.policy.signatures if policy_file else None)
    if policy_file is not None:
        _enforce(policy_file, bundle.profile, bundle.lock, bundle.files["profile.yml"], now)
    return Admission(bundle.profile, bundle.lock, bundle.digest, signatures)


class Agreement(Struct):
    """A bundle with its signatures.

    Attributes:
        signatures: all of them. Where none is required they are for information, and where nobody knows who may sign they are unchecked.
        required: how many are required; 0 where no rules require any.
    """

    bundle: Bundle
    signatures: tuple[sign.Signature, ...]
    required: int

    @property
    def reviewed(self) -> Reviewed:
        """What evidence records of it."""
        statement = self.bundle.statement
        return Reviewed(
            statement=self.bundle.digest,
            profile=statement.profile.sha256,
            lock=statement.lock.sha256,
            required=self.required,
            counted=sign.counted(self.signatures),
            approvals=tuple(Approved(**asdict(signature)) for signature in self.signatures),
        )


def agreement(path: Path, organisation: Organisation, now: dt.datetime) -> Agreement:
    """What should hold on existing hosts by a bundle, and who signed that; nothing is launched or changed.

    Signatures are required where the organisation's rules or those in the bundle require them. A forged one is refused even elsewhere.
    """
    bundle = read_bundle(path)
    for policy_file in (rules_for(organisation, bundle), rules_for(Organisation(), bundle)):
        if policy_file is not None and (rule := policy_file.policy.signatures) is not None:
            return Agreement(bundle, sign.require(bundle, organisation, now, rule), rule.required)
    if organisation.signers is None:
        return Agreement(bundle, sign.unchecked(bundle), 0)
    signatures = sign.judge(bundle, organisation, now)
    sign.refuse(bundle, signatures)
    return Agreement(bundle, signatures, 0)


def rules_for(organisation: Organisation, bundle: Bundle | None = None) -> PolicyFile | None:
    """The organisation's current rules, else those that the bundle was reviewed under, else None."""
    if organisation.policy is not None:
        return load_policy(organisation.policy)
    if bundle is not None and "policy.yml" in bundle.files:
        return parse_policy(bundle.files["policy.yml"], bundle.path / "policy.yml")
    return None


def violations(policy_file: PolicyFile, profile: Profile, lock: Lock, raw: bytes | None, now: dt.datetime) -> list[Violation]:
    """What breaks the rules, or cannot be shown to keep them. `raw` has the bytes of the profile's file, for line numbers."""
    return rules.judge(policy_file, profile, lock, raw, now.astimezone(dt.UTC).date())


def _enforce(policy_file: PolicyFile, profile: Profile, lock: Lock, raw: bytes | None, now: dt.datetime) -> None:
    breaches = violations(policy_file, profile, lock, raw, now)
    if breaches:
        policy = policy_file.policy
        head = f"{profile.name} violates the rules {policy.name} ({counted(len(breaches), 'violation')})"
        contact = f", or ask {policy.contact}" if policy.contact else ""
        hint = f"change the profile{contact}; the rules are {policy_file.path}"
        raise PolicyViolatedError("\n".join([head, *(f"  {violation}" for violation in breaches)]), hint=hint)


def _check_unchanged(submission: Submission, bundle: Bundle) -> None:
    """Check that the profile, and the lock beside it if there is one, are those of the bundle."""
    profile = submission.profile
    hint = "review and sign it again, or leave --profile out to run what was signed"
    if load.digest(profile) != bundle.statement.profile.sha256:
        lines = _inert(compare(bundle.profile.dump(), profile.dump()))
        raise BundleStaleError("\n".join([f"{profile.name} was changed since {bundle.path} was reviewed", *lines]), hint=hint)
    lock = lockfile.find(submission.path, profile) if submission.path else None
    if lock is not None and lock.digest != bundle.lock.digest:
        lines = _inert(compare(bundle.lock.as_dict(), lock.as_dict()))
        raise BundleStaleError("\n".join([f"the lock of {profile.name} was changed since {bundle.path} was reviewed", *lines]), hint=hint)


def _inert(differences: list[Difference]) -> list[str]:
    """Each on a line of its own, without characters that a terminal would obey."""
    return [f"  {''.join(c if c.isprintable() else ' ' for c in str(each))[:300]}" for each in differences]
