"""The acceptance tier: what its checks say to which measurement, what tiers leave out, and the crew that measures, with false workers."""

import asyncio
import copy
import importlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import provision.verify.observe as observing
from provision.catalog import read
from provision.catalog.roofline import roofs
from provision.host.ssh import LOCALHOST
from provision.profile.model import Profile
from provision.verify.checks import CHECKS
from provision.verify.checks.base import TIERS
from provision.verify.facts import Facts, load, parse
from provision.verify.finding import Finding
from provision.verify.judge import Selection, judge
from provision.verify.points import points

from . import good

PROBE = Path(observing.__file__).parent / "probe"
RECORDED = good.RECORDED / "h200-perf.json"
PERF_CHECKS = ["gemm", "memory-bandwidth", "host-copies", "all-reduce"]

# One H200 as it was measured; made into as many as a case needs.
GPU: dict[str, Any] = {
    "name": "NVIDIA H200",
    "gemm": {"tflops": 788.0, "sustained_tflops": 665.0, "precision": "bf16", "size": 8192, "error": 0.0016},
    "memory": {"gb_s": 4246.3, "bytes": 2147483648, "right": True},
    "copies": {"to_device_gb_s": 55.5, "to_host_gb_s": 55.3, "bytes": 536870912, "right": True},
    "load": {
        "samples": 46,
        "sm_mhz": 1485,
        "max_sm_mhz": 1980,
        "power_w": 690.8,
        "power_limit_w": 700.0,
        "temperature_c": 56,
        "reasons": {"4": 1.0},
        "link_generation": 5,
        "link_width": 16,
        "max_link_generation": 5,
        "max_link_width": 16,
    },
    "others": {"before": [], "during": [], "seen": True, "busy_before": 0},
}
SUM: dict[str, Any] = {"gpus": 8, "bus_gb_s": 475.0, "algorithm_gb_s": 271.4, "bytes": 1 << 30, "right": True, "environment": {}}
LATE = {"reason": "timeout", "unknown": "it did not end within 15 s"}


def measured(gpus: int = 8, total: dict[str, Any] = SUM, **changes: Any) -> Facts:
    """That many healthy GPUs with some values of number 1 (or the only one) changed: `gemm__tflops=400`; a dict replaces."""
    devices = [copy.deepcopy(GPU) for _ in range(gpus)]
    for path, value in changes.items():
        node: Any = devices[min(1, gpus - 1)]
        *keys, last = path.split("__")
        for key in keys:
            node = node[key]
        node[last] = value
    built: Facts = good.facts(perf={"torch": {"version": "2.11.0", "cuda": "13.0"}, "devices": devices, "all_reduce": total})
    return built


def asked(tier: str = "perf", model: str = "h200") -> Profile:
    built: Profile = good.profile(gpu__model=model, verify={"tier": tier})
    return built


def found(check: str, facts: Facts, profile: Profile) -> Finding:
    return next(f for f in judge(facts, profile, host="h").findings if f.check == check)


ONE: dict[str, Any] = {"gpus": 1, "total": {"reason": "one-gpu", "unknown": "there is one GPU"}}
ELSEWHERE = {"before": ["77 python3"], "during": ["77 python3"], "seen": True, "busy_before": 100}
UNSEEN = {"before": [], "during": [], "seen": False, "busy_before": 60}
T4 = {"name": "Tesla T4"}
X8 = {"load__link_generation": 3, "load__link_width": 8}
TOPOLOGY = {**SUM, "bus_gb_s": 15.0, "environment": {"NCCL_TOPO_FILE": "/x.xml"}}
# check, changed measurement, model, outcome, words in what was observed
CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("gemm", {}, "h200", "pass", "GPU 0: 788 TFLOPS, sustained 665"),
    ("gemm", {**ONE, "gemm__tflops": 660.0, "gemm__sustained_tflops": 600.0}, "h200", "warn", "691 of 700 W"),
    ("gemm", {**ONE, "gemm__tflops": 500.0, "gemm__sustained_tflops": 480.0}, "h200", "fail", "held by power cap, link 5 x16 of 5 x16"),
    ("gemm", {**ONE, "gemm__sustained_tflops": 500.0}, "h200", "fail", "does not hold it"),
    ("gemm", {**ONE, "load__reasons": {"64": 0.5}}, "h200", "fail", "heat (hardware)"),
    ("gemm", {**ONE, "load__reasons": {"64": 0.02}}, "h200", "pass", ""),
    ("gemm", {**ONE, "load__reasons": {"32": 0.5}}, "h200", "warn", "heat (software)"),
    ("gemm", {"gemm__tflops": 700.0}, "h200", "warn", "11 % below the best GPU beside it"),
    ("gemm", {"gemm__sustained_tflops": 590.0}, "h200", "warn", "as well as it should"),
    ("gemm", {"gemm__tflops": 400.0}, "h200", "fail", "49 % below"),
    ("gemm", {"gemm__error": 0.3}, "h200", "fail", "WRONG result"),
    ("gemm", {"gemm__error": None}, "h200", "fail", "WRONG result"),
    ("gemm", {"gemm__tflops": 400.0, "others": ELSEWHERE}, "h200", "unknown", "also used by 77 python3"),
    ("gemm", {"gemm__tflops": 400.0, "others": UNSEEN}, "h200", "unknown", "somebody unseen (60 % busy before)"),
    ("gemm", {"gemm": LATE}, "h200", "unknown", "timeout: it did not end within 15 s"),
    ("gemm", {"gemm__tflops": 5000.0}, "h200", "unknown", "more than the 989.5"),
    ("gemm", {"gemm__sustained_tflops": None}, "h200", "unknown", "no sustained rate"),
    ("gemm", {"gemm__tflops": -1.0}, "h200", "unknown", "malformed"),
    ("gemm", {**ONE, "name": "NVIDIA H200 NVL"}, "h200", "unknown", "788 TFLOPS"),
    ("gemm", {**ONE, "gemm__precision": "fp16", "gemm__tflops": 25.0, "gemm__sustained_tflops": 22.0, **T4}, "t4", "unknown", "25 TFLOPS"),
    ("memory-bandwidth", {}, "h200", "pass", "4246.3 GB/s"),
    ("memory-bandwidth", {**ONE, "memory__gb_s": 3500.0}, "h200", "warn", "SM 1485 of 1980 MHz"),
    ("memory-bandwidth", {**ONE, "memory__gb_s": 2900.0}, "h200", "fail", "2900 GB/s"),
    ("memory-bandwidth", {"memory__gb_s": 3750.0}, "h200", "warn", "12 % below"),
    ("memory-bandwidth", {"memory__right": False}, "h200", "fail", "WRONG"),
    ("memory-bandwidth", {"memory__gb_s": 2900.0, "others": ELSEWHERE}, "h200", "unknown", "77 python3"),
    ("memory-bandwidth", {"memory": {"reason": "no-memory", "unknown": "CUDA out of memory"}}, "h200", "unknown", "no-memory"),
    # DCGM passes an H200 at 2,333 MB/s: a slip of the unit in its table.
    ("memory-bandwidth", {**ONE, "memory__gb_s": 2.333}, "h200", "fail", ""),
    ("host-copies", {}, "h200", "pass", "55.5 GB/s to it, 55.3 back"),
    ("host-copies", {**ONE, "copies__to_host_gb_s": 40.0}, "h200", "fail", "link 5 x16"),
    # What Azure's 48 would fail, on a healthy H100: Voltage Park's 54.8 and 46.8.
    ("host-copies", {**ONE, "copies__to_device_gb_s": 54.8, "copies__to_host_gb_s": 46.8}, "h200", "pass", "46.8"),
    ("host-copies", {"copies__to_host_gb_s": 48.0}, "h200", "warn", "13 % below"),
    ("host-copies", {"copies": {"reason": "died", "unknown": "gone"}}, "h200", "unknown", "died: gone"),
    ("host-copies", {"copies__right": None}, "h200", "fail", "WRONG"),
    ("host-copies", {**ONE, **T4, **X8, "copies__to_device_gb_s": 6.2, "copies__to_host_gb_s": 6.4}, "t4", "pass", "6.2"),
    ("host-copies", {**ONE, **T4, **X8, "copies__to_device_gb_s": 5.0, "copies__to_host_gb_s": 6.4}, "t4", "fail", "link 3 x8"),
    # A hypervisor's invented link, and none at all: nothing to hold it to.
    ("host-copies", {**ONE, **T4, "load__link_generation": 1, "load__link_width": 1}, "t4", "unknown", "55.5"),
    ("host-copies", {**ONE, **T4, "load__link_generation": None}, "t4", "unknown", "55.5"),
    ("all-reduce", {}, "h200", "pass", "right, 475 GB/s"),
    ("all-reduce", ONE, "h200", "not-applicable", "one GPU"),
    ("all-reduce", {"total": {**SUM, "bus_gb_s": 350.0}}, "h200", "warn", "350 GB/s"),
    # Azure's forced topology file: 15 GB/s on healthy cards (AzNHC #142).
    ("all-reduce", {"total": TOPOLOGY}, "h200", "fail", "NCCL_TOPO_FILE=/x.xml"),
    ("all-reduce", {"total": {**SUM, "right": False}}, "h200", "fail", "WRONG sum"),
    ("all-reduce", {"gpus": 2, "total": {**SUM, "gpus": 2, "bus_gb_s": 323.1}}, "h200", "unknown", "323.1 GB/s"),
    ("all-reduce", {"total": {**SUM, "bus_gb_s": 100.0}, "others": ELSEWHERE}, "h200", "unknown", "GPU 1 also used by 77 python3"),
    ("all-reduce", {"total": {**LATE, "environment": {}}}, "h200", "unknown", "timeout"),
    ("all-reduce", {"total": {**SUM, "gpus": 7}}, "h200", "unknown", "over 7 of 8 GPUs"),
    ("all-reduce", {"total": {**SUM, "bus_gb_s": 5.0}, **T4}, "t4", "pass", "right, 5 GB/s"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "changed", "model", "outcome", "words"), CASES, ids=lambda v: str(v)[:40])
def test_table(check: str, changed: dict[str, Any], model: str, outcome: str, words: str) -> None:
    finding = found(check, measured(**changed), asked(model=model))
    assert (finding.outcome, words in finding.observed) == (outcome, True), finding
    assert finding.hint or outcome in {"pass", "not-applicable"}


def test_every_check_of_the_tier_has_a_case() -> None:
    assert {check for check, *_ in CASES} == {check.id for check in CHECKS if check.tier == "perf"} == set(PERF_CHECKS)


@pytest.mark.parametrize("check", PERF_CHECKS)
@pytest.mark.parametrize("perf", [None, {"unknown": "no PyTorch in /opt/gpuprov/venvs/pytorch to measure with"}, {"devices": []}])
def test_what_was_not_measured_never_passes(check: str, perf: Any) -> None:
    assert found(check, good.facts(**({} if perf is None else {"perf": perf})), asked()).outcome == "unknown"


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(node, dict) and node:
        return [leaf for key, value in node.items() for leaf in leaves(value, (*path, key))]
    if isinstance(node, list) and node:
        return [leaf for index, value in enumerate(node) for leaf in leaves(value, (*path, index))]
    return [path]


GARBAGE = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_leaf_may_be_anything_without_a_traceback(data: st.DataObject) -> None:
    raw = json.loads(json.dumps(measured(gpus=2, total={**SUM, "gpus": 2}).raw))
    path = data.draw(st.sampled_from(leaves(raw["perf"])))
    node = raw["perf"]
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = data.draw(GARBAGE)
    report = judge(parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": raw}, "x"), asked())
    assert len(report.findings) == len(CHECKS)


class TestTiers:
    def test_a_tier_says_of_each_check_that_it_leaves_out_that_nobody_looked(self) -> None:
        everything = measured()
        for tier in TIERS:
            report = judge(everything, asked(tier))
            later = {c.id for c in CHECKS if TIERS.index(c.tier) > TIERS.index(tier)}
            silent = [f for f in report.findings if f.check in later]
            assert {f.outcome for f in silent} <= {"not-applicable"}
            assert all(f.observed.startswith(f"not checked: tier {tier} leaves it out") for f in silent)
            assert not [f for f in report.findings if f.check not in later and "leaves it out" in f.observed]

    @pytest.mark.parametrize("tier", TIERS)
    def test_what_a_tier_gathers_is_enough_for_what_it_judges(self, probe: Any, tier: str) -> None:
        facts = measured().raw
        later = {name for name, first in probe("run").FIRST_TIER.items() if TIERS.index(first) > TIERS.index(tier)}
        assert later == {"quick": set(probe("run").FIRST_TIER), "standard": {"perf"}, "perf": set()}[tier]
        cut = {name: {"unknown": f"not gathered by tier {tier}"} if name in later else fact for name, fact in facts.items()}
        report = judge(
            parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": cut}, "x"), good.profile(verify={"tier": tier})
        )
        assert not [f for f in report.findings if "not gathered" in f.observed]

    def test_a_tier_asked_for_by_hand_goes_before_the_profiles(self) -> None:
        facts = measured()
        for tier, outcome in (("quick", "not-applicable"), ("standard", "not-applicable"), ("perf", "pass"), (None, "not-applicable")):
            report = judge(facts, asked("standard"), selection=Selection(tier=tier))  # type: ignore[arg-type]
            assert next(f.outcome for f in report.findings if f.check == "gemm") == outcome

    def test_facts_of_a_lower_tier_than_asked_for_are_unknown(self) -> None:
        facts = good.facts(perf={"unknown": "not gathered by tier standard"})
        assert {found(check, facts, asked()).outcome for check in PERF_CHECKS} == {"unknown"}
        assert found("gemm", facts, asked()).observed == "not observed: not gathered by tier standard"

    @pytest.mark.parametrize(
        ("counters", "live", "outcome"),
        [
            ("all-users", "0", "not-applicable"),
            ("all-users", "1", "fail"),
            ("group", "1", "not-applicable"),
            ("all-users", None, "unknown"),
        ],
    )
    def test_quick_shows_counters_to_be_wrong_and_never_to_be_right(self, counters: str, live: str | None, outcome: str) -> None:
        profile = good.profile(gpu__counters=counters, verify={"tier": "quick"})
        assert found("counters", good.facts(counters__live=live), profile).outcome == outcome

    def test_the_tier_travels_and_what_it_leaves_out_is_not_run(self) -> None:
        quick = asyncio.run(observing.observe(LOCALHOST, timeout_s=30, tier="quick"))
        assert {quick.raw[name]["unknown"] for name in ("opencv", "pytorch", "tensorflow", "jax", "encoders", "perf")} == {
            "not gathered by tier quick"
        }
        standard = asyncio.run(observing.observe(LOCALHOST, timeout_s=60))
        assert standard.raw["perf"] == {"unknown": "not gathered by tier standard"}
        assert "value" in standard.raw["pytorch"]

    def test_what_loads_the_gpu_runs_when_all_else_has_ended(self, probe: Any) -> None:
        ran: list[str] = []

        def fact(name: str, seconds: float) -> Any:
            def run() -> str:
                time.sleep(seconds)
                ran.append(name)
                return name

            return run

        facts = {"perf": fact("perf", 0), "pytorch": fact("pytorch", 0.3), "os": fact("os", 0.1)}
        answers = probe("run").gather_tier(facts, "perf", time.monotonic() + 10)
        assert ran == ["os", "pytorch", "perf"]
        assert set(answers) == set(facts)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The probe's modules by the names that they have on a host."""
    names = set(observing.MODULES)
    monkeypatch.setattr(sys, "path", [str(PROBE), *sys.path])
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


WORKER = """#!{python}
import json, os, sys, time
rank = sys.argv[3]
def say(**answer):
    print("gpuprov-json=" + json.dumps(answer), flush=True)
print("a banner")
say(part="start", answer={{"version": "2.11.0", "cuda": "13.0"}})
for line in iter(sys.stdin.readline, ""):
    part, *words = line.split()
    say(part="loaded")
    {what}
    say(part=part, answer={{"part": part, "words": words, "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}})
"""


class TestCrew:
    @pytest.fixture
    def crew(self, probe: Any, tmp_path: Path) -> Iterator[Any]:
        """Two workers whose text between the order and the answer a test writes, with ten seconds."""
        made: list[Any] = []

        def build(what: str) -> Any:
            python = tmp_path / "python"
            python.write_text(WORKER.format(python=sys.executable, what=what))
            python.chmod(0o755)
            made.append(probe("perf").Crew(str(python), 2, time.monotonic() + 10))
            assert all("version" in answer for answer in made[-1].ask("start", range(2)).values())
            return made[-1]

        yield build
        for one in made:
            one.end()
            assert all(worker.poll() is not None for worker in one.workers)

    def test_all_do_a_part_at_once_and_see_every_gpu(self, crew: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        made = crew("time.sleep(0.5)")
        started = time.monotonic()
        answers = made.ask("all_reduce", range(2), "4711")
        assert time.monotonic() - started < 0.95
        assert answers == {rank: {"part": "all_reduce", "words": ["4711"], "visible": None} for rank in range(2)}
        assert all(made.loaded[rank] < made.ended[rank] for rank in range(2))

    def test_one_that_dies_says_its_last_word_and_does_no_more(self, crew: Any) -> None:
        made = crew("if rank == '1': sys.exit('CUDA error: device-side assert')")
        answers = made.ask("gemm", range(2))
        assert answers[0]["part"] == "gemm"
        assert answers[1] == {"reason": "died", "unknown": "gemm: the process ended (CUDA error: device-side assert)"}
        assert made.ask("memory", range(2))[1]["reason"] == "not-run"

    def test_one_that_hangs_costs_its_own_part_and_no_more_than_its_limit(
        self, crew: Any, probe: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(probe("perf").LIMITS_S, "copies", 1)
        made = crew("if rank == '1': time.sleep(60)")
        started = time.monotonic()
        answers = made.ask("copies", range(2))
        assert time.monotonic() - started < 3
        assert (answers[0]["part"], answers[1]["reason"]) == ("copies", "timeout")


def test_our_own_process_is_not_another_even_where_it_has_another_number(probe: Any) -> None:
    others = probe("perf").others
    assert others({}, [{"10": "python"}, None], {"10"}) == {"before": [], "during": [], "seen": True}
    assert others({"7": "x"}, [{"7": "x", "10": "python"}], {"10"})["during"] == ["7 x"]
    assert others({}, [{"999999999": ""}], {"10"})["during"] == []
    assert others({}, [{"999999999": "", "999999998": ""}], {"10"})["during"] == ["999999998 ", "999999999 "]
    assert others({}, [None], {"10"})["seen"] is False


def test_what_was_recorded_on_two_real_h200s_is_judged_as_what_it_is() -> None:
    observed = load(RECORDED)
    outcomes = {check: found(check, observed, asked()) for check in PERF_CHECKS}
    assert {check: f.outcome for check, f in outcomes.items()} == {
        "gemm": "pass",
        "memory-bandwidth": "pass",
        "host-copies": "pass",
        "all-reduce": "unknown",  # no healthy figure is known for two
    }
    assert "right, 32" in outcomes["all-reduce"].observed


def test_measured_points_lie_below_the_roof_of_their_card() -> None:
    roof = next(r for r in roofs(read.gpu("h200")) if r.precision == "bf16")
    measured_points = points(load(RECORDED))
    assert len(measured_points) == 4
    assert all(0.4 * roof.attainable_tflops(p.intensity) < p.tflops <= roof.attainable_tflops(p.intensity) for p in measured_points)
    assert measured_points[0].intensity == pytest.approx(8192 / 3)
    assert len(points(measured(**ONE, gemm=LATE))) == 1
