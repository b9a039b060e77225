"""The first boot of a machine from a baked image: kernel and driver are looked at again, and what changed since the bake is said.

The clouds are the embedded ones without hosts, and the facts of the machines are played. They are judged, and roles are chosen by them, as
on any host. Images of real hosts, which have no GPU, are in tests/test_bake.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from provision.converge.progress import ConvergeResult
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.rehearsal import rootfs
from provision.verify import fleet
from provision.verify.facts import Facts, parse
from provision.workflow import setup
from provision.workflow.converging import Converging
from provision.workflow.session import today
from tests.cli.conftest import Call, call
from tests.verify.good import GOOD
from tests.workflow.test_bake import cloud, written
from tests.workflow.test_bake_gcp import on_gcp

pytestmark = pytest.mark.matrix

__all__ = ["call", "cloud"]

OLD, NEW, THIRD = "6.8.0-1030-aws", "6.8.0-1031-aws", "570.86.15"
SET_UP = setup.set_up  # before the stand-ins of `cloud` replace it


def facts_of(lock: Lock) -> dict[str, Any]:
    """The facts of a good host with the versions of a lock."""
    driver, torch = f"{lock.driver.branch}.71.05", lock.frameworks["pytorch"]
    facts = copy.deepcopy(GOOD)
    facts["driver"] |= dict.fromkeys(("loaded", "installed", "nvidia_smi"), driver)
    facts["nvml"]["driver"] = {"value": driver}
    facts["gsp"]["modules"] = lock.driver.flavour
    facts["nvcc"]["found"] |= {"version": lock.cuda.version, "link": f"/usr/local/cuda-{lock.cuda.version}"}
    major, minor, patch = (int(part) for part in lock.cudnn.version.split(".")[:3])
    number = major * 10000 + minor * 100 + patch
    facts["cudnn"] = {"header": f"{major}.{minor}.{patch}", "library": number}
    facts["pytorch"]["found"] |= {"version": torch.version, "cuda": lock.cuda.version, "cudnn": number}
    return facts


class Played:
    """The machines, of which one is observed at a time.

    Attributes:
        good: the facts of one that holds its profile.
        shown: those of the one that is observed now.
        mends: whether the roles make it a good one.
        ran: the roles of each run.
    """

    def __init__(self, good: dict[str, Any]) -> None:
        self.good, self.shown, self.mends = good, good, True
        self.ran: list[tuple[str, ...]] = []

    async def observe(self, *_: object, **__: object) -> Facts:
        raw = {key: {"value": value} for key, value in self.shown.items()}
        return parse({"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}, "played")

    def converge(self, _session: object, asked: Converging, **_: object) -> ConvergeResult:
        self.ran.append(asked.roles)
        self.shown = self.good if self.mends else self.shown
        return ConvergeResult(asked.roles, 0, 1, 0, (), 0.1, asked.folder)

    def differs(self, changes: dict[str, dict[str, Any]]) -> None:
        """Let the next machine differ from a good one in these fields of its facts."""
        self.shown = {key: {**value, **changes[key]} if key in changes else value for key, value in self.good.items()}


@pytest.fixture(params=["aws", "gcp"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def given(tmp_path: Path, where: str) -> str:
    path = tmp_path / "bk.yml"
    return written(path, "required") if where == "aws" else on_gcp(path, "required")


@pytest.fixture
def machine(given: str, request: pytest.FixtureRequest) -> Iterator[Played]:
    request.getfixturevalue("cloud")  # its stand-ins come before these, and go after them
    played = Played(facts_of(build(load.load(Path(given)), today(), system=rootfs.system())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "set_up", SET_UP)
        patch.setattr(fleet, "observe", played.observe)
        patch.setattr(setup, "converge_host", played.converge)
        yield played


def up(call: Call, given: str, where: str) -> tuple[int, dict[str, Any], str]:
    """`up` of one machine from the image, with its GPU."""
    code, out, err = call("up", given, "--name", "one", "--rehearse", where, "--json")
    return code, json.loads(out), err


def bake(call: Call, given: str, where: str) -> str:
    code, out, err = call("bake", "make", given, "--rehearse", where, "--json")
    assert code == 0, err
    return str(json.loads(out)["image"]["id"])


def kernels(*without: str) -> list[dict[str, Any]]:
    """Both kernels, of which these have no driver."""
    return [{"kernel": kernel, "built": kernel not in without} for kernel in (OLD, NEW)]


BOOTED: dict[str, dict[str, Any]] = {"kernel": {"release": NEW}, "initramfs": {"option": None, "image": None}}
CHANGES: dict[str, tuple[dict[str, dict[str, Any]], Sequence[str], str]] = {
    "a newer kernel runs, and the driver was not built for it": (
        {
            **BOOTED,
            "modules": {"kernels": kernels(NEW), "installed": kernels(NEW)},
            "gpu": {"module": False, "nodes": []},
            "driver": {"loaded": None},
        },
        ("gpu", "driver", "driver-on-disk", "every-kernel"),
        f"{NEW} NOT built",
    ),
    "the next boot takes a newer kernel, which has headers and no driver": (
        {"modules": {"kernels": kernels(NEW), "installed": kernels(NEW)}},
        ("driver-on-disk", "every-kernel"),
        f"{NEW} has NOT",
    ),
    "the driver was upgraded under the one that is loaded": (
        {"driver": {"installed": THIRD}},
        ("driver",),
        f"installed {THIRD}",
    ),
    "another branch of the driver is loaded and installed": (
        {"driver": dict.fromkeys(("loaded", "installed", "nvidia_smi"), THIRD), "nvml": {"driver": {"value": THIRD}}},
        ("driver",),
        f"loaded {THIRD}",
    ),
    "the libraries are those of another driver": ({"nvml": {"driver": {"value": THIRD}}}, ("driver",), f"NVML {THIRD}"),
}


def test_a_machine_as_it_was_proven_is_left_alone(machine: Played, call: Call, given: str, where: str) -> None:
    image = bake(call, given, where)
    code, data, err = up(call, given, where)
    assert (code, f"starting from {image}" in err, machine.ran) == (0, True, []), data["report"]["findings"]


@pytest.mark.matrix(of=4)
@pytest.mark.parametrize("change", CHANGES)
def test_a_kernel_or_driver_that_changed_after_the_bake_is_said(
    machine: Played, call: Call, given: str, where: str, *, change: str
) -> None:
    changes, checks, words = CHANGES[change]
    image = bake(call, given, where)
    machine.differs(changes)
    machine.mends = False
    code, data, err = up(call, given, where)
    failed = {each["check"]: each["observed"] for each in data["report"]["findings"] if each["outcome"] == "fail"}
    assert (code, f"starting from {image}" in err) == (1, True), failed
    assert set(checks) <= set(failed), failed
    assert any(words in observed for observed in failed.values()), failed
    assert all("nvidia_driver" in roles for roles in machine.ran)
    assert len(machine.ran) == 1


def test_what_changed_is_set_up_again_by_the_roles(machine: Played, call: Call, given: str, where: str) -> None:
    bake(call, given, where)
    machine.differs(CHANGES["a newer kernel runs, and the driver was not built for it"][0])
    code, data, _ = up(call, given, where)
    assert (code, ["nvidia_driver" in roles for roles in machine.ran]) == (0, [True]), data["report"]["findings"]


def test_a_newer_kernel_that_has_the_driver_holds_and_is_named(machine: Played, call: Call, given: str, where: str) -> None:
    bake(call, given, where)
    machine.differs({**BOOTED, "modules": {"kernels": kernels(), "installed": kernels()}})
    code, data, _ = up(call, given, where)
    observed = " ".join(each["observed"] for each in data["report"]["findings"])
    assert (code, machine.ran, f"kernel {NEW}" in observed) == (0, [], True), data["report"]["findings"]


def test_no_image_is_made_of_a_machine_whose_driver_does_not_hold(machine: Played, call: Call, given: str, where: str) -> None:
    machine.differs(CHANGES["the driver was upgraded under the one that is loaded"][0])
    machine.mends = False
    code, _, err = call("bake", "make", given, "--rehearse", where)
    assert (code, "error[image-failed]" in err, "driver" in err) == (4, True, True), err
    assert json.loads(call("bake", "list", "--rehearse", "--json")[1])["images"] == []
