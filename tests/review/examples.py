"""Reviews to show: the shipped profiles, one with everything that can be asked for, and one whose every text is hostile."""

import datetime as dt
from pathlib import Path
from typing import Any

from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review.content import content
from provision.review.tree import Review

TODAY = dt.date(2026, 11, 21)
SHIPPED = ("t4-train", "v100-train", "t4-debian")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43

# What a text may try on a page, in Markdown, on a terminal, in a template, in a shell, and on the eye.
HOSTILE = {
    "html": "<script>document.title='it ran'</script><img src=x onerror=\"document.title='it ran'\"></bdi></section>",
    "attribute": "\" onmouseover=\"document.title='it ran'\" x=\"' autofocus onfocus='alert(1)",
    "markdown": "](javascript:alert(1)) ![x](http://127.0.0.1:9/x.png) `` ` `` | a | b | @someone #12 <b>b</b> https://example.com **x**",
    "jinja": "{{ 7 * 6 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}{# gone #}",
    "shell": "$(touch it-ran); `touch it-ran` && rm -rf ~ | sh > /dev/null",
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J",
    "right-to-left": "safe \u202egnp.exe\u202c \u2066hidden\u2069",
    "hebrew": "\u05e9\u05dc\u05d5\u05dd (1) abc",
    "control": "a\x00b\rc\x7f\x9b31m",
    "lines": "first\n\n# second\n- third\n\u2028fourth",
    "long": "x" * 10_000,
}


def shipped(name: str) -> tuple[Profile, Lock, bytes]:
    path = load.find(name)
    profile = load.load(path)
    lock = lockfile.find(path, profile)
    assert lock
    return profile, lock, path.read_bytes()


def review(name: str = "t4-train", *, differs: tuple[str, ...] = ()) -> Review:
    return content(*shipped(name), differs=differs)


def changed(folder: Path, *swaps: tuple[str, str], name: str = "t4-train") -> tuple[Profile, Lock, bytes]:
    """A shipped profile with words of its text replaced, and its lock."""
    text = load.find(name).read_text()
    for before, after in swaps:
        assert before in text, before
        text = text.replace(before, after)
    path = folder / f"{name}.yml"
    path.write_text(text)
    profile = load.load(path)
    return profile, build(profile, TODAY), path.read_bytes()


EVERYTHING = (
    ("ssh_from: [caller]", "ssh_from: [8.0.0.0/8, 10.0.0.0/8, 192.0.2.0/24, 198.51.100.7/32]"),
    ("users: [] #", f"users: [{{name: ada, ssh_keys: [{KEY}]}}] #"),
    ("opencv: wheel", "opencv: cuda"),
    ("pytorch: auto", "pytorch: auto\n    tensorflow: auto\n    jax: auto"),
    ("market: on-demand # spot", "identity: {instance_profile: gpu-node}\n    market: spot # spot"),
    ("deadline_h: 12", "deadline_h: 400\n  machines: 40"),
    ("\nstack:", "\nfleet: {store: s3://a-store/fleets}\nstack:"),
    (
        "  min_free_gb: 5",
        "  min_free_gb: 5\n  waivers:\n    - {check: pcie, reason: a riser card, owner: ada@example.com, expires: 2027-01-31}",
    ),
)


def hostile(text: str) -> tuple[Profile, Lock, bytes]:
    """A profile and a lock that were not validated: every free text in them is hostile, and so is the file."""
    profile, lock, _ = shipped("t4-train")
    waiver: Any = {"check": "pcie", "reason": text, "owner": text, "expires": TODAY}
    profile = profile.model_copy(
        update={
            "purpose": text,
            "owner": profile.owner.model_copy(update={"name": text, "email": text}),
            "verify": profile.verify.model_copy(update={"waivers": (_Waiver(**waiver),)}),
        }
    )
    environment = lock.frameworks["pytorch"].model_copy(update={"version": text, "wheels": (*lock.frameworks["pytorch"].wheels, text)})
    lock = lock.model_copy(
        update={
            "catalogue": text,
            "warnings": (text,),
            "unresolved": (text,),
            "hold": (text,),
            "wheel_index": text,
            "packages": {**lock.packages, "base": (text, f"{text}=1")},
            "repositories": (lock.repositories[0].model_copy(update={"name": text, "url": text, "key": text, "fingerprint": text}),),
            "places": tuple(place.model_copy(update={"image": text, "image_id": text}) for place in lock.places),
            "frameworks": {"pytorch": environment},
            "driver": lock.driver.model_copy(update={"packages": (text,)}),
        }
    )
    return profile, lock, f"schema: 1 # {text}\nname: t4-train\n".encode()


class _Waiver:
    """A waiver that nobody validated."""

    def __init__(self, check: str, reason: str, owner: str, expires: dt.date) -> None:
        self.check, self.reason, self.owner, self.expires = check, reason, owner, expires


# The place on GCP, of whose price the catalogue knows a part.
GCP = (
    """  - cloud: gcp
    instance_type: n1-standard-8
    gpu: t4
    gpu_count: 1
    zones: [asia-east2-a, asia-east2-c] # the two zones of Hong Kong with T4
    market: on-demand
""",
    "",
)


def risk_ids(found: Review) -> dict[str, str]:
    # Of several of one kind the worst, which stands first.
    return {risk.id: risk.severity for risk in reversed(found.risks)}
