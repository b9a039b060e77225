"""A bundle of the shipped T4 profile, keys made by ssh-keygen, and the files of an organisation."""

import datetime as dt
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provision import paths
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.review import bundle, sign

POLICY = b"schema: 1\nname: isa-rules\ncontact: isa@example.com\nmax_deadline_h: 24\n"


def files(policy: bytes | None = POLICY, old: str = "", new: str = "") -> dict[str, bytes]:
    """What `gpuprov review` would write, with pages of one line; `old` and `new` change the profile, which is then locked again."""
    path = paths.profiles_dir() / "t4-train.yml"
    raw = path.read_bytes().replace(old.encode(), new.encode())
    profile = load.parse(raw, path)
    lock = lockfile.read(lockfile.path_for(path))
    lock = lock.model_copy(update={"profile": lock.profile.model_copy(update={"sha256": load.digest(profile)})})
    made = {
        "profile.yml": raw,
        "lock.yml": lockfile.dump(lock).encode(),
        "review.html": b"<!doctype html><title>review</title>\n",
        "review.md": b"# review\n",
        "review.json": b"{}\n",
        "render/ansible/site.yml": b"---\n",
        **({"policy.yml": policy} if policy is not None else {}),
    }
    return {**made, bundle.STATEMENT: bundle.statement(profile, lock, policy, made)}


WAIVED = """\
  waivers:
    - {check: gcc, reason: "an <b>old</b> | one `will` do", owner: isa@example.com, expires: 2999-01-01}
"""


def small(policy: bytes | None, more: str = "") -> dict[str, bytes]:
    """A bundle of the shipped T4 profile with more lines under `verify`, locked as it would be today."""
    raw = (paths.profiles_dir() / "t4-train.yml").read_text().replace("  min_free_gb: 5\n", f"  min_free_gb: 5\n{more}").encode()
    profile = load.parse(raw, Path("profile.yml"))
    lock = build(profile, dt.datetime.now(dt.UTC).date())
    made = {**files(policy), "profile.yml": raw, "lock.yml": lockfile.dump(lock).encode()}
    del made[bundle.STATEMENT]
    return {**made, bundle.STATEMENT: bundle.statement(profile, lock, policy, made)}


def restated(made: Mapping[str, bytes], **changed: bytes) -> dict[str, bytes]:
    """The files with others in their place, and the digests of files in the statement made to agree: what a careful forger does."""
    import hashlib
    import json

    new = {**made, **{name.replace("__", "/").replace("_", "."): data for name, data in changed.items()}}
    stated = json.loads(new[bundle.STATEMENT])
    stated["files"] = {n: hashlib.sha256(d).hexdigest() for n, d in new.items() if n != bundle.STATEMENT}
    return {**new, bundle.STATEMENT: bundle.canonical(stated)}


def key(folder: Path, name: str, kind: str = "ed25519") -> Path:
    """A key pair without a passphrase."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", str(path)], check=True)
    return path


def public(path: Path) -> str:
    """Type and key, as allowed_signers takes them."""
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


@dataclass(frozen=True)
class People:
    """Three who may sign, one who may not."""

    folder: Path
    alice: Path
    bob: Path
    carol: Path
    mallory: Path

    @classmethod
    def make(cls, folder: Path) -> "People":
        folder.mkdir(parents=True, exist_ok=True)
        people = cls(folder, *(key(folder, name) for name in ("alice", "bob", "carol", "mallory")))
        people.allow()
        return people

    @property
    def signers(self) -> Path:
        return self.folder / "allowed_signers"

    def allow(self, *more: str) -> Path:
        """Write allowed_signers: the three, and further lines."""
        three = [f'{k.name}@example.com namespaces="gpuprov-review@v1" {public(k)}' for k in (self.alice, self.bob, self.carol)]
        self.signers.write_text("\n".join([*three, *more]) + "\n")
        return self.signers


def signed_bundle(path: Path, people: People, *signers: str, policy: bytes | None, now: dt.datetime) -> Path:
    """A bundle that these people have signed for a month."""
    bundle.write(path, files(policy))
    for name in signers:
        sign.sign(bundle.read(path), key=people.folder / name, principal=f"{name}@example.com", days=30, now=now)
    return path
