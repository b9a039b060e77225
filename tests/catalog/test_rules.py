"""The rules of compatibility, and the two choices that are made beside them."""

import datetime as dt
from typing import Any

import pytest
from msgspec.structs import replace

from provision.catalog import read
from provision.catalog.records.base import Capabilities
from provision.catalog.records.gpus import ClocksRecord, GpuRecord
from provision.catalog.records.stack import Branch, CudnnRelease, ReleaseRecord, System, Toolkit
from provision.catalog.rules import ClockRequest, gcc_for, machine_rule, rules, wheel_cudnn
from provision.catalog.solve import Rule

TODAY = dt.date(2026, 11, 21)


def by_id() -> dict[str, Rule]:
    """The rules; made anew by each test, as a resolution makes them."""
    return {rule.id: rule for rule in rules(TODAY)}


SYSTEMS = {s.key: s for s in read.systems().systems}
TOOLKITS = {t.version: t for t in read.toolkits().toolkits}
CUDNNS = {c.version: c for c in read.cudnn().releases}
BRANCHES = {b.branch: b for b in read.driver().branches}


def test_a_rule_that_forbids_something_says_why_in_one_sentence() -> None:
    rule = by_id()["driver-drives-gpu"]
    assert rule.holds(read.gpu("v100"), BRANCHES["580"])
    assert not rule.holds(read.gpu("v100"), BRANCHES["590"])
    assert rule.says(read.gpu("v100"), BRANCHES["590"]) == "driver 590 drives compute capability 7.5 to 12.1, and V100 is 7.0"


def test_a_machine_advises_the_kernel_modules_that_are_better_on_it() -> None:
    rule = machine_rule("open", "a g7 has GSP")
    assert (rule.id, rule.over, rule.soft) == ("machine-advises-flavour", ("flavour",), True)
    assert (rule.holds("open"), rule.holds("proprietary"), rule.says("proprietary")) == (True, False, "a g7 has GSP")


def test_only_advice_is_soft() -> None:
    soft = {rule.id for rule in by_id().values() if rule.soft}
    measured = {f"{name}-is-measured" for name in read.frameworks()}
    assert soft == {
        "driver-is-supported",
        "driver-is-not-older-than-toolkit",
        "clocks-are-listed",
        "application-clocks-are-deprecated",
        *measured,
    }


def test_support_of_a_branch_ends_on_its_day() -> None:
    end = BRANCHES["580"].end_of_life
    assert end is not None
    for day, holds in ((end, True), (end + dt.timedelta(days=1), False)):
        rule = next(rule for rule in rules(day) if rule.id == "driver-is-supported")
        assert rule.holds(BRANCHES["580"]) is holds


@pytest.mark.parametrize(
    ("system", "toolkit", "gcc"), [("ubuntu 24.04", "12.5", 13), ("ubuntu 24.04", "12.2", 12), ("rocky 10", "12.6", None)]
)
def test_the_compiler_is_the_first_that_the_toolkit_accepts(system: str, toolkit: str, gcc: int | None) -> None:
    """CUDA 12.5 accepts gcc 13, which is Ubuntu 24.04's own; toolkits before it need an older one."""
    assert gcc_for(SYSTEMS[system], TOOLKITS[toolkit]) == gcc


def test_tensorflow_runs_on_volta_only_if_its_cudnn_is_held() -> None:
    """Its extra has a range that resolves to a cuDNN without Volta; on a T4 there is nothing to hold."""
    release = next(r for r in read.tensorflow().releases if r.version == "2.21.0")
    assert wheel_cudnn(read.gpu("v100"), release) == "9.10.2.21"
    assert wheel_cudnn(read.gpu("t4"), release) is None
    exact = next(r for r in read.tensorflow().releases if r.cudnn)
    assert wheel_cudnn(read.gpu("t4"), exact) == exact.cudnn


def test_clocks_read_as_a_person_writes_them() -> None:
    assert [str(ClockRequest("max")), str(ClockRequest("pair", 5001, 1590))] == ["max", "5001,1590 MHz"]


# --- every rule at its bound, and one step to each side


def gpu(capability: str, **changed: Any) -> GpuRecord:
    return replace(read.gpu("t4"), name="CARD", compute_capability=capability, **changed)


def driver(branch: str, **changed: Any) -> Branch:
    return replace(BRANCHES["580"], branch=branch, **changed)


def toolkit(number: str, **changed: Any) -> Toolkit:
    return replace(TOOLKITS["12.8"], version=number, **changed)


def system(**changed: Any) -> System:
    return replace(SYSTEMS["ubuntu 24.04"], **changed)


def python(number: str) -> System:
    return system(python=replace(SYSTEMS["ubuntu 24.04"].python, version=number))


def cudnn(**changed: Any) -> CudnnRelease:
    return replace(read.cudnn().releases[0], **changed)


def release(**changed: Any) -> ReleaseRecord:
    return replace(read.pytorch()[0], **changed)


SPAN = Capabilities("7.0", "9.0")
T4_CLOCKS = ClocksRecord(memory_mhz=5001, graphics_mhz=1590)
DEFAULT, MAX, PAIR = ClockRequest("default"), ClockRequest("max"), ClockRequest("pair", 5001, 1590)
LOW = ClockRequest("pair", 405, 1590)
# rule, values, whether it holds
BOUNDS: list[tuple[str, tuple[Any, ...], bool]] = [
    ("machine-is-x86", (gpu("7.5"),), True),
    ("machine-is-x86", (gpu("7.5", machine="arm64"),), False),
    *[("system-has-python", (python(number),), holds) for number, holds in (("3.7", False), ("3.8", True), ("3.10", True), ("2.9", False))],
    *[
        ("driver-drives-gpu", (gpu(capability), driver("580", compute_capability=SPAN)), holds)
        for capability, holds in (("6.1", False), ("7.0", True), ("9.0", True), ("9.1", False), ("10.0", False))
    ],
    ("driver-has-flavour", (driver("580", flavours=["open"]), "open"), True),
    ("driver-has-flavour", (driver("580", flavours=["open"]), "proprietary"), False),
    # The open modules need a GSP, from 7.5 on; from 10.0 on there are no others.
    *[
        ("modules-fit-gpu", (gpu(number), "open"), holds)
        for number, holds in (("7.0", False), ("7.5", True), ("8.0", True), ("12.1", True))
    ],
    *[("modules-fit-gpu", (gpu(number), "proprietary"), holds) for number, holds in (("7.0", True), ("9.0", True), ("10.0", False))],
    *[
        ("driver-is-supported", (driver("580", designation=name, end_of_life=None),), holds)
        for name, holds in (("lts", True), ("production", True), ("feature", False), ("ended", False), ("unknown", False))
    ],
    ("driver-is-supported", (driver("580", end_of_life=TODAY),), True),
    ("driver-is-supported", (driver("580", end_of_life=TODAY - dt.timedelta(days=1)),), False),
    # NVIDIA's repository has toolkits from one on; a distribution has its own alone.
    *[
        ("toolkit-in-repository", (system(toolkits_from="12.5"), toolkit(number), "nvidia"), holds)
        for number, holds in (("12.4", False), ("12.5", True), ("12.10", True), ("13.0", True))
    ],
    ("toolkit-in-repository", (system(toolkits_from="12.5"), toolkit("11.8"), "distribution"), True),
    ("toolkit-in-distribution", (SYSTEMS["debian 12"], TOOLKITS["11.8"], "distribution"), True),
    ("toolkit-in-distribution", (SYSTEMS["debian 12"], TOOLKITS["12.1"], "distribution"), False),
    ("toolkit-in-distribution", (SYSTEMS["debian 12"], TOOLKITS["12.1"], "nvidia"), True),
    ("toolkit-in-distribution", (SYSTEMS["rocky 9"], TOOLKITS["11.8"], "distribution"), False),
    ("driver-in-distribution", (SYSTEMS["debian 12"], BRANCHES["535"], "distribution"), True),
    ("driver-in-distribution", (SYSTEMS["debian 12"], BRANCHES["550"], "distribution"), False),
    ("driver-in-distribution", (SYSTEMS["debian 12"], BRANCHES["550"], "nvidia"), True),
    ("driver-in-distribution", (SYSTEMS["rocky 9"], BRANCHES["535"], "distribution"), False),
    ("driver-in-distribution", (SYSTEMS["ubuntu 24.04"], BRANCHES["595"], "distribution"), True),
    ("driver-stays-in-distribution", (SYSTEMS["ubuntu 24.04"], BRANCHES["580"], "distribution"), True),
    ("driver-stays-in-distribution", (SYSTEMS["ubuntu 24.04"], BRANCHES["595"], "distribution"), False),
    ("driver-stays-in-distribution", (SYSTEMS["ubuntu 24.04"], BRANCHES["595"], "nvidia"), True),
    ("driver-stays-in-distribution", (SYSTEMS["rocky 9"], BRANCHES["595"], "distribution"), True),
    *[
        ("driver-in-repository", (SYSTEMS[name], BRANCHES[number], packages), holds)
        for name, number, packages, holds in (
            ("ubuntu 26.04", "590", "nvidia", False),
            ("ubuntu 26.04", "595", "nvidia", True),
            ("ubuntu 26.04", "610", "nvidia", True),
            ("ubuntu 26.04", "590", "distribution", True),
            ("ubuntu 24.04", "535", "nvidia", True),
        )
    ],
    *[
        ("cudnn-in-repository", (SYSTEMS[name], CUDNNS[number], packages), holds)
        for name, number, packages, holds in (
            ("ubuntu 24.04", "8.9.7.29", "nvidia", False),
            ("ubuntu 24.04", "9.1.0.70", "nvidia", False),
            ("ubuntu 24.04", "9.3.0.75", "nvidia", True),
            ("ubuntu 24.04", "8.9.7.29", "distribution", True),
            ("ubuntu 22.04", "8.9.7.29", "nvidia", True),
            ("debian 13", "9.10.2.21", "nvidia", False),
            ("debian 13", "9.19.0.56", "nvidia", True),
        )
    ],
    ("flavour-in-distribution", (SYSTEMS["debian 12"], "proprietary", "distribution"), True),
    ("flavour-in-distribution", (SYSTEMS["rocky 9"], "proprietary", "distribution"), False),
    ("flavour-in-distribution", (SYSTEMS["rocky 9"], "proprietary", "nvidia"), True),
    *[
        ("toolkit-compiles-for-gpu", (gpu(capability), toolkit("12.8", compute_capability=SPAN)), holds)
        for capability, holds in (("6.1", False), ("7.0", True), ("9.0", True), ("9.1", False))
    ],
    # The oldest driver for each major release of CUDA.
    *[
        ("driver-runs-toolkit", (driver(branch), toolkit(number)), holds)
        for branch, number, holds in (
            *(("449", "11.8", False), ("450", "11.8", True), ("451", "11.8", True)),
            *(("524", "12.1", False), ("525", "12.1", True), ("524", "12.9", False), ("525", "12.9", True)),
            *(("579", "13.0", False), ("580", "13.0", True), ("579", "13.3", False), ("595", "13.0", True)),
        )
    ],
    *[
        ("driver-is-not-older-than-toolkit", (driver(branch), toolkit("12.8", driver="570.124.06")), holds)
        for branch, holds in (("569", False), ("570", True), ("571", True))
    ],
    *[
        ("toolkit-accepts-gcc", (system(gcc=gcc), toolkit("12.8", gcc=13)), holds)
        for gcc, holds in (([14], False), ([13], True), ([14, 12], True), ([], False))
    ],
    # Up to 2025.2 Nsight Compute profiles from 7.0 on, later from 7.5 on; a release that is not known is judged as the newest.
    *[
        ("ncu-profiles-gpu", ("yes", gpu(capability), toolkit("12.8", ncu=ncu)), holds)
        for capability, ncu, holds in (
            *(("6.1", "2024.1.1", False), ("7.0", "2024.1.1", True), ("7.0", "2025.2.9", True), ("7.0", "2025.3.0", False)),
            *(
                ("7.5", "2025.3.0", True),
                ("7.0", None, False),
                ("7.5", None, True),
                ("12.1", "2026.1.1", True),
                ("12.2", "2026.1.1", False),
            ),
        )
    ],
    ("ncu-profiles-gpu", ("no", gpu("6.1"), toolkit("12.8")), True),
    *[
        ("cudnn-runs-on-gpu", (gpu(capability), cudnn(compute_capability=SPAN)), holds)
        for capability, holds in (("6.1", False), ("7.0", True), ("9.0", True), ("9.1", False))
    ],
    *[("cudnn-built-for-cuda", (toolkit(number), cudnn(cuda_majors=[12])), holds) for number, holds in (("11.8", False), ("12.8", True))],
    ("cudnn-built-for-cuda", (toolkit("13.0"), cudnn(cuda_majors=[12])), False),
    *[
        (f"{name}-has-kernels", (gpu(capability), release(sass=[75], ptx=[])), holds)
        for name in read.frameworks()
        for capability, holds in (("7.0", False), ("7.5", True), ("8.0", False))
    ],
    *[
        (f"{name}-driver", (driver(branch), release(cuda="12.8")), holds)
        for name in read.frameworks()
        for branch, holds in (("524", False), ("525", True), ("580", True))
    ],
    *[
        (f"{name}-driver", (driver(branch), release(cuda="13.0")), holds)
        for name in read.frameworks()
        for branch, holds in (("579", False), ("580", True))
    ],
    *[
        (f"{name}-python", (python(number), release(python=Capabilities("3.9", "3.12"))), holds)
        for name in read.frameworks()
        for number, holds in (("3.8", False), ("3.9", True), ("3.12", True), ("3.13", False))
    ],
    # A pin between two releases of the catalogue serves what the older one serves; one before all, what the oldest serves.
    *[
        (f"{name}-cudnn", (gpu(capability), release(cudnn=pin)), holds)
        for name in read.frameworks()
        for capability, pin, holds in (
            *(("7.0", "9.10.2.21", True), ("7.0", "9.14.0.63", True), ("7.0", "9.14.0.64", False), ("7.0", "9.14.0.65", False)),
            *(("7.5", "9.19.0.56", True), ("12.0", "9.5.1.17", False), ("12.0", "9.10.2.21", True), ("7.0", "8.0.0.1", True)),
            *(("7.0", None, True), ("12.1", "99.0.0.0", True), ("7.0", "99.0.0.0", False)),
        )
    ],
    *[
        (f"{name}-is-measured", (release(index=index),), holds)
        for name in read.frameworks()
        for index, holds in (("default", True), ("cu126", False))
    ],
    *[
        (rule, (*values, None), True)
        for name in read.frameworks()
        for rule, values in (
            *((f"{name}-has-kernels", (gpu("3.0"),)), (f"{name}-driver", (driver("1"),)), (f"{name}-python", (python("2.7"),))),
            *((f"{name}-cudnn", (gpu("3.0"),)), (f"{name}-is-measured", ())),
        )
    ],
    # Both clocks are locked from 8.0 on; the graphics clock alone can be from 7.0 on, beside the highest memory clock; else they are
    # application clocks.
    *[
        ("clocks-mode", (gpu(capability), request, mode), holds)
        for capability, request, mode, holds in (
            *(("7.5", DEFAULT, "none", True), ("7.5", DEFAULT, "application", False), ("9.0", DEFAULT, "locked", False)),
            *(("8.0", PAIR, "locked", True), ("8.0", PAIR, "application", False), ("8.0", MAX, "locked-graphics", False)),
            *(("8.0", MAX, "locked", True), ("7.5", PAIR, "locked", False), ("7.5", PAIR, "application", True)),
            *(("7.5", PAIR, "locked-graphics", True), ("7.0", PAIR, "locked-graphics", True), ("7.5", LOW, "locked-graphics", False)),
            *(("7.5", LOW, "application", True), ("7.5", MAX, "locked-graphics", True), ("7.0", MAX, "locked-graphics", True)),
            *(("6.1", MAX, "locked-graphics", False), ("6.1", MAX, "application", True), ("7.5", MAX, "none", False)),
            *(("6.1", PAIR, "locked-graphics", False), ("8.9", MAX, "none", False)),
        )
    ],
    *[
        ("clocks-in-reach", (gpu("7.5", clocks=T4_CLOCKS), ClockRequest("pair", *pair)), holds)
        for pair, holds in (
            ((5001, 1590), True),
            ((5002, 1590), False),
            ((5001, 1591), False),
            ((5000, 1589), False),
            ((5001, 1200), True),
            ((9999, 9999), False),
        )
    ],
    ("clocks-in-reach", (gpu("7.5", clocks=None), ClockRequest("pair", 9999, 9999)), True),
    *[
        ("clocks-are-listed", (gpu("7.5", clocks=clocks), request), holds)
        for clocks, request, holds in (
            *((T4_CLOCKS, PAIR, True), (T4_CLOCKS, ClockRequest("pair", 5001, 1589), False), (None, PAIR, False)),
            *((T4_CLOCKS, MAX, True), (None, DEFAULT, True)),
        )
    ],
    ("clocks-in-reach", (gpu("7.5", clocks=T4_CLOCKS), MAX), True),
    ("clocks-in-reach", (gpu("7.5", clocks=T4_CLOCKS), ClockRequest("max", 9999, 9999)), True),
    ("clocks-mode", (gpu("7.5", clocks=None), PAIR, "locked-graphics"), False),
    *[
        ("application-clocks-are-deprecated", (gpu(capability), driver(branch), mode), holds)
        for capability, branch, mode, holds in (
            *(("7.5", "580", "application", False), ("7.5", "579", "application", True), ("7.0", "595", "application", False)),
            *(("6.1", "580", "application", True), ("7.5", "595", "locked-graphics", True)),
        )
    ],
    ("driver-has-application-clocks", (driver("615", application_clocks=False), "application"), False),
    ("driver-has-application-clocks", (driver("615", application_clocks=False), "locked"), True),
    ("driver-has-application-clocks", (driver("580"), "application"), True),
    *[
        ("group-counters", (counters, driver(branch), flavour), holds)
        for counters, branch, flavour, holds in (
            *(("group", "569", "open", False), ("group", "570", "open", True), ("group", "571", "open", True)),
            *(("group", "570", "proprietary", False), ("all-users", "450", "proprietary", True), ("admin-only", "450", "open", True)),
        )
    ],
]


@pytest.mark.parametrize(("rule", "values", "holds"), BOUNDS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_rule_holds_up_to_its_bound_and_no_step_further(rule: str, values: tuple[Any, ...], *, holds: bool) -> None:
    assert by_id()[rule].holds(*values) is holds
    if not holds:
        assert by_id()[rule].says(*values)


def test_every_rule_is_tried_where_it_holds_and_where_it_does_not() -> None:
    for holds in (True, False):
        assert {rule for rule, _, outcome in BOUNDS if outcome is holds} == set(by_id())


def test_the_variables_of_a_rule_are_the_arguments_it_takes() -> None:
    assert all(len(values) == len(by_id()[rule].over) for rule, values, _ in BOUNDS)


@pytest.mark.parametrize(
    ("rule", "values", "sentence"),
    [
        (
            "machine-is-x86",
            (gpu("7.5", machine="arm64"),),
            "CARD comes with arm64 processors only, and images and wheels here are for x86_64",
        ),
        ("system-has-python", (python("3.6"),), "Ansible needs Python 3.8 or later on the host, and ubuntu 24.04 has 3.6"),
        (
            "driver-has-flavour",
            (driver("615", flavours=["open"]), "proprietary"),
            "driver 615 is offered with open kernel modules, not proprietary",
        ),
        ("modules-fit-gpu", (gpu("7.0"), "open"), "the open kernel modules need a GSP, which GPUs have from 7.5 on, and CARD is 7.0"),
        ("modules-fit-gpu", (gpu("10.0"), "proprietary"), "CARD is 10.0, and from 10.0 on there are no proprietary kernel modules"),
        ("driver-is-supported", (driver("535", end_of_life=dt.date(2026, 6, 30)),), "driver 535: its support ended on 2026-06-30"),
        (
            "driver-is-supported",
            (driver("615", designation="unknown", end_of_life=None),),
            "driver 615: no page of NVIDIA's says how long it is supported",
        ),
        ("driver-is-supported", (driver("610", designation="feature", end_of_life=TODAY),), "driver 610 is a new-feature branch"),
        ("driver-is-supported", (driver("550", designation="ended", end_of_life=None),), "driver 550 is no longer supported"),
        (
            "toolkit-in-repository",
            (SYSTEMS["ubuntu 24.04"], toolkit("12.4"), "nvidia"),
            "NVIDIA's repository for ubuntu 24.04 begins with CUDA 12.5 and has no 12.4",
        ),
        (
            "toolkit-in-distribution",
            (SYSTEMS["debian 12"], toolkit("12.4"), "distribution"),
            "debian 12 itself packages CUDA 11.8, not 12.4",
        ),
        (
            "driver-in-distribution",
            (SYSTEMS["rocky 9"], driver("580"), "distribution"),
            "what rocky 9 itself packages of NVIDIA's software is not in the catalog",
        ),
        (
            "driver-in-distribution",
            (SYSTEMS["ubuntu 24.04"], driver("570"), "distribution"),
            "ubuntu 24.04 itself packages driver 580 and 595, not 570",
        ),
        (
            "driver-stays-in-distribution",
            (SYSTEMS["ubuntu 24.04"], driver("595"), "distribution"),
            "ubuntu 24.04's driver 595 becomes an empty package that depends on the next branch, so no lock of it lasts",
        ),
        (
            "cudnn-in-repository",
            (SYSTEMS["ubuntu 24.04"], read.cudnn().releases[0], "nvidia"),
            "NVIDIA's repository for ubuntu 24.04 begins with cuDNN 9.3 and has no 8.9.7.29",
        ),
        (
            "flavour-in-distribution",
            (SYSTEMS["debian 12"], "open", "distribution"),
            "debian 12 itself packages no open kernel modules that can be installed",
        ),
        (
            "toolkit-compiles-for-gpu",
            (gpu("6.1"), TOOLKITS["13.0"]),
            "nvcc of CUDA 13.0 compiles for compute capability 7.5 to 12.1, and CARD is 6.1",
        ),
        (
            "driver-in-repository",
            (SYSTEMS["ubuntu 26.04"], driver("590"), "nvidia"),
            "NVIDIA's repository for ubuntu 26.04 begins with driver 595 and has no 590",
        ),
        ("driver-runs-toolkit", (driver("570"), TOOLKITS["13.0"]), "CUDA 13 needs driver 580 or later, not 570"),
        (
            "driver-is-not-older-than-toolkit",
            (driver("570"), TOOLKITS["13.0"]),
            "CUDA 13.0 came with driver 580.95.05; driver 570 runs it without that driver's newer features",
        ),
        ("toolkit-accepts-gcc", (SYSTEMS["rocky 10"], TOOLKITS["12.6"]), "CUDA 12.6 accepts gcc up to 13, and rocky 10 has 14"),
        (
            "ncu-profiles-gpu",
            ("yes", gpu("7.0"), toolkit("13.3", ncu=None)),
            "Nsight Compute of that release, of CUDA 13.3, does not profile compute capability 7.0 (CARD)",
        ),
        (
            "ncu-profiles-gpu",
            ("yes", gpu("7.0"), TOOLKITS["13.0"]),
            "Nsight Compute 2025.3.1, of CUDA 13.0, does not profile compute capability 7.0 (CARD)",
        ),
        (
            "cudnn-runs-on-gpu",
            (gpu("10.0"), read.cudnn().releases[0]),
            "cuDNN 8.9.7.29 is for compute capability 5.0 to 9.0, and CARD is 10.0",
        ),
        ("cudnn-built-for-cuda", (TOOLKITS["13.0"], cudnn(cuda_majors=[11, 12])), "cuDNN 8.9.7.29 is built for CUDA 11 and 12, not 13"),
        (
            "pytorch-has-kernels",
            (gpu("7.0"), release(version="2.15.0", sass=[75, 80], ptx=[])),
            "PyTorch 2.15.0 has kernels for sm_75, sm_80 and none for CARD (sm_70)",
        ),
        (
            "jax-driver",
            (driver("570"), release(version="1.0", cuda="13.0")),
            "JAX 1.0 is built with CUDA 13.0, which needs driver 580 or later, not 570",
        ),
        (
            "tensorflow-python",
            (python("3.8"), release(version="2.21.0", python=Capabilities("3.9", "3.12"))),
            "TensorFlow 2.21.0 has wheels for Python 3.9 to 3.12, and ubuntu 24.04 has 3.8",
        ),
        (
            "pytorch-cudnn",
            (gpu("7.0"), release(version="2.15.0", cudnn="9.19.0.56")),
            "PyTorch 2.15.0 brings cuDNN 9.19.0.56, which does not serve CARD (7.0)",
        ),
        (
            "pytorch-is-measured",
            (release(version="2.15.0", index="cu126"),),
            "PyTorch 2.15.0 comes from the index cu126, whose wheels are not in the catalog",
        ),
        ("clocks-mode", (gpu("8.0"), DEFAULT, "locked"), "clocks that are left at their default need no mode"),
        ("clocks-mode", (gpu("8.0"), PAIR, "application"), "CARD (8.0) can lock both clocks, which takes the place of application clocks"),
        (
            "clocks-mode",
            (gpu("7.5"), MAX, "locked"),
            "CARD (7.5) keeps such clocks as application clocks, or with its graphics clock locked",
        ),
        (
            "clocks-mode",
            (gpu("7.5"), LOW, "locked"),
            "memory clocks can be locked from 8.0 on and CARD is 7.5, so the pair 405,1590 MHz needs application clocks",
        ),
        (
            "clocks-in-reach",
            (gpu("7.5", clocks=T4_CLOCKS), ClockRequest("pair", 5002, 1590)),
            "CARD has no clocks 5002,1590 MHz: the catalog lists 5001,1590 MHz for it, and graphics clocks below",
        ),
        (
            "clocks-are-listed",
            (gpu("7.5", clocks=T4_CLOCKS), ClockRequest("pair", 5001, 1200)),
            "the catalog lists 5001,1590 MHz for CARD; `nvidia-smi -q -d SUPPORTED_CLOCKS` on the host says whether it has 5001,1200 MHz",
        ),
        (
            "clocks-are-listed",
            (gpu("7.5", clocks=None), PAIR),
            "the catalog lists no pair for CARD; `nvidia-smi -q -d SUPPORTED_CLOCKS` on the host says whether it has 5001,1590 MHz",
        ),
        ("driver-has-application-clocks", (driver("615"), "application"), "driver 615 is said to have dropped application clocks"),
        (
            "group-counters",
            ("group", driver("560"), "open"),
            "counters for a group need CAP_PERFMON, which the open kernel modules know from driver 570 on; these are the open ones of 560",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_the_sentence_of_a_rule_names_both_sides(rule: str, values: tuple[Any, ...], sentence: str) -> None:
    assert by_id()[rule].says(*values) == sentence


def test_only_a_cudnn_of_the_newest_that_leaves_the_gpu_out_is_held() -> None:
    open_pin = release(cudnn=None)
    assert [wheel_cudnn(gpu(capability), open_pin) for capability in ("7.0", "7.5", "12.1", "12.2")] == [
        "9.10.2.21",
        None,
        None,
        "9.10.2.21",
    ]
