"""Facts with any part gone, of another type or absurd: no traceback, and no pass for a check that has read what is no longer there."""

import copy
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.profile.model import Profile
from provision.verify.checks import CHECKS
from provision.verify.facts import Fact, Facts, NotObservedError, load
from provision.verify.facts.base import UnitFacts
from provision.verify.facts.stack import FrameworkFacts
from provision.verify.judge import judge

from . import good

F = TypeVar("F", bound=Fact)
RECORDED = good.RECORDED
H200 = good.profile(gpu__model="h200", gpu__application_clocks={"memory_mhz": 3201, "graphics_mhz": 1980})
BASES: dict[str, tuple[dict[str, Any], Profile]] = {"good": (good.facts().raw, good.PROFILE)} | {
    path.stem: (load(path).raw, H200) for path in sorted(RECORDED.glob("*.json"))
}
# What such a check can do without: a lost NVML must not hide the XID that says why, and nvidia-smi is another witness of user space.
OPTIONAL = {("xid", "nvml"), ("driver", "nvml")}
# A host without a GPU, which becomes an image, shows no user space; where one is seen, modules on disk must be of its version.
OPTIONAL |= {("driver-on-disk", "upgrades")} | {
    (check, fact) for check in ("driver-on-disk", "every-kernel") for fact in ("driver", "nvml", "fabric_on_disk")
}
ABSURD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["\x00", "١٢", "9" * 5000, "-1", "0x1", "nan", "../..", "580.", "."]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


class Watched(Facts):
    """Facts that remember which of them were asked for."""

    def read(self, kind: type[F], name: str = "") -> F:
        seen.add(name or kind.name)
        return super().read(kind, name)


seen: set[str] = set()


def asked_for(raw: dict[str, Any], profile: Profile) -> dict[str, tuple[str, set[str]]]:
    """Check → how it ends, and which facts it asked for."""
    answer = {}
    for check in CHECKS:
        seen.clear()
        try:
            outcome: str = check.judge(Watched("", 0.0, raw), profile).outcome
        except NotObservedError:
            outcome = "unknown"
        answer[check.id] = (outcome, set(seen))
    return answer


ASKED = {name: asked_for(*base) for name, base in BASES.items()}


def outcomes(raw: dict[str, Any], profile: Profile) -> dict[str, str]:
    return {finding.check: finding.outcome for finding in judge(Facts("", 0.0, raw), profile).findings}


def dependants(base: str, fact: str) -> list[str]:
    return [check for check, (_, facts) in ASKED[base].items() if fact in facts and (check, fact) not in OPTIONAL]


@pytest.mark.matrix
@pytest.mark.parametrize(("base", "fact"), [(base, fact) for base, (raw, _) in BASES.items() for fact in raw])
def test_a_fact_that_is_gone_or_unknown_leaves_no_pass_that_needed_it(base: str, fact: str) -> None:
    raw, profile = BASES[base]
    for changed in ({k: v for k, v in raw.items() if k != fact}, raw | {fact: {"unknown": "not seen"}}, raw | {fact: None}):
        after = outcomes(changed, profile)
        assert [check for check in dependants(base, fact) if after[check] == "pass"] == []


@pytest.mark.matrix
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_fact_of_another_type_leaves_no_pass_that_needed_it(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(sorted(BASES)))
    raw, profile = BASES[base]
    fact = data.draw(st.sampled_from(sorted(raw)))
    after = outcomes(raw | {fact: {"value": data.draw(ABSURD)}}, profile)
    # A list of people is a value of the fact users; whatever else was drawn is of no fact's shape, or holds none of its parts.
    assert [check for check in dependants(base, fact) if after[check] == "pass"] == [] or fact == "users"


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [leaf for key, value in parts for leaf in ((*path, key), *leaves(value, (*path, key)))]


def replaced(raw: dict[str, Any], path: tuple[Any, ...], value: Any, *, remove: bool = False) -> dict[str, Any]:
    changed = copy.deepcopy(raw)
    node: Any = changed
    for part in path[:-1]:
        node = node[part]
    if remove:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return changed


@pytest.mark.matrix
@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_any_part_gone_mistyped_or_absurd_is_judged_and_a_fact_that_no_longer_holds_its_shape_passes_nowhere(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(sorted(BASES)))
    raw, profile = BASES[base]
    path = data.draw(st.sampled_from(leaves(raw)))
    changed = replaced(raw, path, data.draw(ABSURD), remove=data.draw(st.booleans()))
    after = outcomes(changed, profile)
    assert set(after) == {check.id for check in CHECKS}
    malformed = Facts("", 0.0, changed)
    for check in CHECKS:
        outcome, facts = ASKED[base][check.id]
        if path[0] in facts and (check.id, path[0]) not in OPTIONAL and outcome == "pass" and after[check.id] == "pass":
            # It passed before and does now: then what it read still holds its shape.
            malformed.read(_kind_of(path[0]), path[0])


def _kind_of(name: str) -> type[Fact]:
    """The model of a fact; some models are those of several facts."""
    if name in {"pytorch", "tensorflow", "jax"}:
        return FrameworkFacts
    if name.endswith("_unit"):
        return UnitFacts
    kinds = {kind.name: kind for kind in _kinds(Fact) if hasattr(kind, "name")}
    return kinds["tool_"] if name.startswith("tool_") else kinds[name]


def _kinds(kind: type[Fact]) -> list[type[Fact]]:
    return [found for sub in kind.__subclasses__() for found in (sub, *_kinds(sub))]


READINGS = {
    "gpu-health": (
        "capability ecc ecc_pending uncorrected uncorrected_ever retired_single retired_double retired_pending recovery_action inforom"
    ),
    "gsp": "gsp",
    "throttling": "event_reasons hw_thermal hw_power_brake",
    "pcie": "pcie_generation pcie_generation_max pcie_width pcie_width_max",
    "persistence": "persistence",
    "application-clocks": "app_memory_mhz app_graphics_mhz",
    "gpu": "name",
}


@pytest.mark.matrix
@pytest.mark.parametrize(("check", "reading"), [(check, name) for check, names in READINGS.items() for name in names.split()])
@pytest.mark.parametrize("said", [{"value": "much"}, {"value": -1}, {"value": 1.5}, {"unknown": "GPU is lost"}, {"unknown": ""}, {}, None])
def test_a_reading_that_is_gone_or_absurd_is_no_pass(check: str, reading: str, said: Any) -> None:
    raw = replaced(good.facts().raw, ("nvml", "value", "devices", 0, reading), said, remove=said is None)
    assert outcomes(raw, good.PROFILE)[check] in {"unknown", "fail"}
