"""`review`: the bundle that others decide on, or what changed since an earlier one."""

from pathlib import Path

from provision.launch.ask import ask_clouds
from provision.launch.ours import Ours
from provision.launch.plan import plan
from provision.launch.regions import Connect
from provision.profile import lockfile
from provision.profile.locked import Lock
from provision.review import against, approval, bundle, identities, pages
from provision.review.against import Shift
from provision.review.content import content
from provision.review.identities import ReadIdentities
from provision.review.policy import PolicyFile
from provision.review.tree import Review
from provision.review.where import Organisation
from provision.structs import Struct, replace
from provision.workflow.session import ProfileSource, Say, today


class ReviewResult(Struct):
    """A review, and what was written.

    Attributes:
        changes: what changed since the earlier state; None where that is not the question.
        bundle: where the bundle was written; None where it was not.
        digest: SHA-256 of the bundle's statement.
    """

    review: Review
    changes: tuple[Shift, ...] | None
    bundle: Path | None
    digest: str | None


def review_profile(
    name: str, output: Path | None, earlier: str | None, organisation: Organisation, connect: Connect | None, *, say: Say
) -> ReviewResult:
    """Review a profile, and write the bundle to `output`: a folder, or a file ending in .zip.

    `earlier` is a bundle, a lock or a profile to compare with. Without `output` the bundle is NAME.bundle, or is not written where there is
    something to compare with. With `connect` the clouds are asked what the machines may do there; else none is contacted.
    """
    rules = approval.rules_for(organisation)
    say(f"reading {name}")
    subject = ProfileSource.read(name)
    read = _read(subject, Ours(connect, say)) if connect else None
    review = _review(subject, rules, read)
    changes = _changes(earlier, review, subject.lock, rules) if earlier else None
    target = output or (None if earlier else Path(f"{subject.profile.name}.bundle"))
    if target is None:
        return ReviewResult(review, changes, None, None)
    say(f"writing {target}")
    files = {"profile.yml": subject.source, "lock.yml": lockfile.dump(subject.lock).encode(), **pages.pages(review)}
    files |= {"policy.yml": rules.raw} if rules else {}
    files |= {identities.FILE: bundle.canonical(read.as_dict())} if read else {}
    files[bundle.STATEMENT] = bundle.statement(subject.profile, subject.lock, rules.raw if rules else None, files)
    bundle.write(target, files)
    return ReviewResult(review, changes, target, bundle.read(target).digest)


def _review(subject: ProfileSource, rules: PolicyFile | None, read: ReadIdentities | None = None) -> Review:
    return pages.review_of(subject.profile, subject.lock, subject.source, rules, today(), read=read)


def _read(subject: ProfileSource, ours: Ours) -> ReadIdentities | None:
    """Ask about each place whose machines act in their cloud; None where none acts."""
    planned = plan(subject.profile, subject.lock)
    acting = tuple(place for place in planned.places if identities.acts(place))
    if not acting:
        return None
    return identities.read_from(ask_clouds(replace(planned, places=acting), ours), today())


def _changes(earlier: str, review: Review, lock: Lock, rules: PolicyFile | None) -> tuple[Shift, ...]:
    """What changed since a bundle, a lock or a profile."""
    path = Path(earlier)
    if path.is_dir() or path.suffix == ".zip":
        old = bundle.read(path)
        source = old.files["profile.yml"]
        verdict = pages.rules_verdict(approval.rules_for(Organisation(), old), old.profile, old.lock, source, today())
        before = content(old.profile, old.lock, source, verdict=verdict, read=identities.of_bundle(old))
        return against.shifts(against.as_reviewed(before, old.files.get("review.json", b"")), review)
    if earlier.endswith((".lock.yml", ".lock.yaml")):
        return against.of_locks(lockfile.read(path), lock)
    return against.shifts(_review(ProfileSource.read(earlier), rules), review)
