"""The way out: what the profile asks for, and nothing that it no longer asks for."""

import hashlib

from provision.profile import egress
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, apply, fails, not_applicable, passes, unless
from provision.verify.facts import Facts
from provision.verify.facts.egress import EgressFacts

_NEITHER = "the profile names neither a proxy nor an authority"


def _egress(facts: Facts, profile: Profile) -> Verdict:
    asked, found = profile.sources, facts.read(EgressFacts)
    manager: egress.Manager = "apt" if profile.os.name in {"debian", "ubuntu"} else "dnf"
    wanted = {path: _sha256(text) for path, text in egress.files(asked, manager).items() if text}
    authority = _sha256(asked.ca) if asked.ca else None
    parts = [f"downloads through {asked.proxy}"] * bool(asked.proxy)
    parts += [f"trust in {' and '.join(egress.subjects(asked.ca))}"] if asked.ca else []
    expected = ", ".join(parts) or "no proxy and no authority of gpuprov's"
    problems = [f"{path} is missing" for path in wanted if path not in found.files]
    problems += [f"{path} has another content" for path, digest in wanted.items() if found.files.get(path, digest) != digest]
    problems += [f"{path} is left over" for path in found.files if path not in wanted]
    if manager == "apt" and asked.proxy and not problems and found.apt_proxy != asked.proxy:
        problems.append(f"apt goes through {found.apt_proxy or 'no proxy'}")
    if found.authority != authority:
        problems.append(
            "the authority is missing" if not found.authority else "another authority" if authority else "an authority is left over"
        )
    elif authority and not found.trusted:
        problems.append("the authority is not in the system's store")
    if problems:
        return fails(expected, "; ".join(problems), apply("sources", "puts it right"))
    return passes(expected, "as it should be") if parts else not_applicable(_NEITHER)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


CHECKS = (
    Check(
        "egress",
        "downloads take the profile's way out",
        _egress,
        role="sources",
        unasked=unless(lambda p: p.sources.proxy or p.sources.ca, _NEITHER),
        finds_unasked=True,
    ),
)
