"""The table of a subject's checks, and the words in which its cases change facts."""

from typing import Any

import pytest

from provision.verify.finding import Finding

from .. import good  # noqa: TID252 - the tests have no root package

NOT_SUPPORTED = good.NOT_SUPPORTED
# check, changed facts, changed profile, outcome, words in what was observed (after "=" all of them)
Case = tuple[str, dict[str, Any], dict[str, Any], str, str]
# check, changed facts, changed profile, all of what was expected, words in the hint
Text = tuple[str, dict[str, Any], dict[str, Any], str, str]

# What NVML answered on a real H100 80GB HBM3 under driver 580.159.04, passed through to a virtual machine, idle, on 2026-11-21.
H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3",
    "capability": "9.0",
    "pci": "00000000:00:06.0",
    "virtualization": 1,
    "ecc": 1,
    "ecc_pending": 1,
    "uncorrected": 0,
    "uncorrected_ever": 0,
    "sram_threshold": 0,
    "retired_single": NOT_SUPPORTED,
    "retired_double": NOT_SUPPORTED,
    "retired_pending": NOT_SUPPORTED,
    "remapped_correctable": 0,
    "remapped_uncorrectable": 0,
    "remapped_pending": 0,
    "remapped_failure": 0,
    "unrepairable": 0,
    "recovery_action": 0,
    "inforom": 1,
    "gsp": 1,
    "event_reasons": 1,
    "hw_thermal": 0,
    "hw_power_brake": 0,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_generation_gpu": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "links": NOT_SUPPORTED,
    "links_up": NOT_SUPPORTED,
    "fabric_state": 0,
    "fabric_status": 0,
}


def table(cases: list[Case]) -> Any:
    """The test of all cases of a subject."""

    @pytest.mark.parametrize(("check", "facts", "profile", "outcome", "words"), cases, ids=lambda v: str(v)[:40])
    def test_table(check: str, facts: dict[str, Any], profile: dict[str, Any], outcome: str, words: str) -> None:
        finding = good.finding(check, good.facts(**facts), good.profile(**profile))
        assert (finding.outcome, shows(finding, words)) == (outcome, True), finding
        assert bool(finding.hint) == (outcome not in {"pass", "not-applicable"})
        assert finding.expected

    return test_table


def shows(finding: Finding, words: str) -> bool:
    """Whether the words of a case are in what was observed; after an equals sign they are all of it."""
    return words[1:] == finding.observed if words.startswith("=") else words in finding.observed


def texts(cases: list[Text]) -> Any:
    """The test of what was expected and what to do about it."""

    @pytest.mark.parametrize(("check", "facts", "profile", "expected", "hint"), cases, ids=lambda v: str(v)[:40])
    def test_texts(check: str, facts: dict[str, Any], profile: dict[str, Any], expected: str, hint: str) -> None:
        finding = good.finding(check, good.facts(**facts), good.profile(**profile))
        assert finding.expected == expected
        assert hint in finding.hint

    return test_texts


def gpu(**readings: Any) -> dict[str, Any]:
    """Changed readings of the one GPU: a plain value was read, a dictionary is put in as it is."""
    return {f"nvml__devices__0__{name}": value if isinstance(value, dict) else {"value": value} for name, value in readings.items()}


def image_has(**has: str) -> dict[str, Any]:
    """A profile whose one place starts from an image that has this driver already."""
    image = {"id": "ami-0123456789abcdef0", "has": has}
    return {"places": [{"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"], "image": image}]}


def two(facts: dict[str, Any], first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two GPUs like the one of some facts, with these readings."""
    one = facts["nvml"]["devices"][0]
    said = [
        {name: value if isinstance(value, dict) else {"value": value} for name, value in changed.items()} for changed in (first, second)
    ]
    return {"nvml__devices": [{**one, **readings} for readings in said]}
