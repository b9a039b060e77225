"""The Ray cluster that a profile asks for: the unit that joins it lives, and its connection to the head does."""

import contextlib
from typing import Final

from provision.profile.model import Profile
from provision.profile.stack import RayCluster
from provision.verify.checks.base import Check, Verdict, apply, fails, not_applicable, passes, unknown, unless
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.cluster import RayFacts

_UNIT: Final = "gpuprov-ray.service"
_ENVIRONMENTS: Final = "/opt/gpuprov/venvs/"
_LOG: Final = f"see `journalctl -u {_UNIT}` on the host"
_NO_CLUSTER: Final = "the profile asks for no Ray cluster"


def _ray(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.stack.ray
    if asked is None:
        return _not_asked(facts)
    where = f"the head on port {asked.port}" if asked.is_head else f"connected to {asked.head}:{asked.port}"
    expected = f"{_UNIT} enabled and active, its raylet alive, {where}"
    seen = facts.read(RayFacts)
    if not seen.unit.exists:
        return fails(expected, f"there is no {_UNIT}", apply("ray", "joins the cluster"))
    if not _starts(seen.unit.command, asked):
        return fails(expected, f"it starts: {seen.unit.command or 'nothing'}", apply("ray", "joins the cluster of the profile"))
    if not seen.unit.enabled or not seen.unit.active:
        state = " and ".join(f"not {word}" for word, holds in (("enabled", seen.unit.enabled), ("active", seen.unit.active)) if not holds)
        return fails(expected, state, f"{apply('ray', 'starts it')}; {_LOG}")
    if not seen.raylet:
        return fails(expected, "the unit is active, and no raylet runs", f"{_LOG}: it tries again every ten seconds")
    return _as_head(expected, seen, asked) if asked.is_head else _as_worker(expected, seen, asked)


def _starts(command: str, asked: RayCluster) -> bool:
    """Whether a unit's command starts the Ray of one of our environments as the profile asks."""
    program, *arguments = command.split() or [""]
    return program.startswith(_ENVIRONMENTS) and program.endswith("/bin/ray") and tuple(arguments) == asked.arguments


def _as_head(expected: str, seen: RayFacts, asked: RayCluster) -> Verdict:
    if not seen.listens:
        return fails(expected, f"a raylet runs, and none of its programs listens on port {asked.port}", _LOG)
    return passes(expected, f"a raylet runs, and the head listens on port {asked.port}")


def _as_worker(expected: str, seen: RayFacts, asked: RayCluster) -> Verdict:
    if not seen.connected:
        hint = f"see whether the head runs, and whether this host reaches its port {asked.port}; {_LOG}"
        return fails(expected, f"a raylet runs without a connection to any port {asked.port}", hint)
    there = " and ".join(seen.connected)
    if seen.head is None:
        return unknown(expected, f"connected to {there}, and the host does not resolve {asked.head}", "see `getent hosts` on the host")
    if not set(seen.head) & set(seen.connected):
        observed = f"connected to {there}, and {asked.head} is {' and '.join(seen.head) or 'no address'}"
        return fails(expected, observed, f"the name leads elsewhere now: restart {_UNIT} on the host")
    return passes(expected, f"a raylet runs, connected to {there} at port {asked.port}")


def _not_asked(facts: Facts) -> Verdict:
    """Who reaches the head can run programs here: a host must not stay in a cluster that its profile does not name."""
    with contextlib.suppress(NotObservedError):
        unit = facts.read(RayFacts).unit
        if unit.enabled or unit.active:
            return fails("in no Ray cluster", f"{_UNIT} starts: {unit.command}", apply("ray", "takes the host out of the cluster"))
    return not_applicable(_NO_CLUSTER)


CHECKS = (
    Check(
        "ray",
        "the host is in the profile's Ray cluster",
        _ray,
        role="ray",
        needs_gpu=True,
        unasked=unless(lambda p: p.stack.ray, _NO_CLUSTER),
        finds_unasked=True,
    ),
)
