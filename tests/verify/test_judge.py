"""The verdict: waivers, what is excused, exit codes; and facts that lie never pass and never break it."""

import copy
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import FactsInvalidError
from provision.profile import load as profiles
from provision.structs import replace
from provision.verify.checks import CHECKS
from provision.verify.checks.base import SPLIT
from provision.verify.facts import dump, load, parse
from provision.verify.finding import Report
from provision.verify.judge import Selection, judge

from . import good

TODAY = dt.date(2026, 11, 21)
# What was recorded under load, on a host with two, is judged in test_perf.py.
RECORDED = sorted(p for p in (good.RECORDED).glob("*.json") if not p.stem.endswith("-perf"))


def report(observed: Any, profile: Any = good.PROFILE, **options: Any) -> Report:
    return judge(observed, profile, host="h", today=TODAY, **options)


def waiver(check: str, expires: str = "2026-12-31") -> dict[str, str]:
    return {"check": check, "reason": "agreed in ISA-17", "owner": "isa@example.com", "expires": expires}


def test_all_good_is_zero_and_a_warning_counts_when_strict() -> None:
    verdict = report(good.facts())
    assert verdict.exit_code() == verdict.exit_code(strict=True) == 0
    assert {f.outcome for f in verdict.findings} == {"pass", "not-applicable"}
    warned = report(good.facts(driver__installed=None))
    assert (warned.exit_code(), warned.exit_code(strict=True)) == (0, 1)
    assert sum(verdict.summary.values()) == len(CHECKS)


def test_a_failure_is_one_and_an_unknown_three_and_a_failure_wins() -> None:
    assert report(good.facts(tool_gcc__found=None)).exit_code() == 1
    assert report(good.facts(tool_gcc={"unknown": "x"})).exit_code() == 3
    assert report(good.facts(tool_gcc={"unknown": "x"}, tool_tmux__found=None)).exit_code() == 1


def test_without_gpu_is_said_first_with_the_count_and_excuses_nothing_else() -> None:
    host = good.facts(gpu=good.NO_GPU, tool_gcc__found=None)
    verdict = report(host, without_gpu=True)
    waived = [f for f in verdict.findings if f.outcome == "waived"]
    assert verdict.notes[0] == f"GPU part excused by --without-gpu: {len(waived)} checks were not proven"
    assert {(f.needs_gpu, f.excuse) for f in waived} == {(True, "without-gpu")}
    assert {f.excuse for f in verdict.findings if f.outcome != "waived"} == {None}
    assert verdict.exit_code() == 1
    assert report(good.facts(gpu=good.NO_GPU), without_gpu=True).exit_code() == 0
    assert report(good.facts(gpu=good.NO_GPU)).exit_code() == 3


def test_a_valid_waiver_lifts_a_finding_and_carries_its_owner_and_reason() -> None:
    verdict = report(good.facts(tool_gcc__found=None), good.profile(verify__waivers=[waiver("gcc")]))
    gcc = next(f for f in verdict.findings if f.check == "gcc")
    assert (gcc.outcome, gcc.excuse) == ("waived", "waiver")
    assert "isa@example.com" in gcc.observed
    assert "ISA-17" in gcc.observed
    assert verdict.exit_code() == 0


def test_an_expired_waiver_lifts_nothing_and_an_unneeded_or_unknown_one_is_reported() -> None:
    profile = good.profile(verify__waivers=[waiver("gcc", "2026-11-20"), waiver("tmux"), waiver("no-such-check")])
    verdict = report(good.facts(tool_gcc__found=None), profile)
    gcc = next(f for f in verdict.findings if f.check == "gcc")
    assert gcc.outcome == "fail"
    assert "expired on 2026-11-20" in gcc.observed
    assert any("'tmux' is not needed" in note for note in verdict.notes)
    assert any("'no-such-check' names no check" in note for note in verdict.notes)


def test_what_no_fact_decides_is_said_anew_for_every_tier_selection_and_profile() -> None:
    host, whole = good.facts(), profiles.load(profiles.find("t4-train"))
    split = whole.model_copy(update={"gpu": good.PROFILE.gpu.model_copy(update={"mig": ("1g.10gb",)})})
    few = Selection(only=frozenset({"gemm", "nvlink"}))

    def said(profile: Any, selection: Selection) -> list[str]:
        return [finding.observed for finding in judge(host, profile, selection=selection).findings]

    for _ in range(2):
        assert [len(said(whole, Selection(tier="quick"))), len(said(whole, few))] == [len(CHECKS), 2]
        quick, perf = said(whole, replace(few, tier="quick")), said(whole, replace(few, tier="perf"))
        assert ["tier quick leaves it out" in text for text in (*quick, *perf)].count(True) == 1
        assert [SPLIT in said(profile, replace(few, tier="perf")) for profile in (whole, split)] == [False, True]


def test_facts_that_are_large_together_are_kept_and_one_that_is_too_large_alone_is_unknown() -> None:
    document = json.loads(dump(good.facts()))
    document["facts"] |= {f"more_{number}": {"value": "x" * 400_000} for number in range(2)} | {"big": {"value": "x" * 600_000}}
    read = parse(document, "here")
    assert {len(read.raw[f"more_{number}"]["value"]) for number in range(2)} == {400_000}
    assert "more than a fact can be" in read.raw["big"]["unknown"]
    assert report(read).exit_code() == 0


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_facts_recorded_on_a_real_gpu_are_read_whole_and_judged_as_what_they_are(path: Path) -> None:
    observed, model = load(path), path.stem.partition("-")[0]
    profile = good.profile(gpu__model=model, gpu__application_clocks={"memory_mhz": 3201, "graphics_mhz": 1980})
    outcomes = {f.check: f for f in report(observed, profile).findings}
    assert outcomes["gpu"].outcome == "pass"
    assert outcomes["gpu"].observed.startswith(f"NVIDIA {model.upper()}")
    # Open in the driver and to an ordinary user, while no file on disk says so: the next boot would close it.
    assert outcomes["counters"].outcome == "warn"
    assert "as nobody: open" in outcomes["counters"].observed
    assert outcomes["cudnn"].outcome == "pass"
    assert outcomes["cupti"].outcome == "pass"
    assert outcomes["nvcc"].outcome == "pass"
    assert outcomes["profilers"].outcome == "fail"
    # A container's root without systemd: what the next boot does cannot be seen, and is not guessed.
    assert outcomes["persistence"].outcome == "unknown"
    assert outcomes["driver"].outcome == "warn"
    t4 = {f.check: f.outcome for f in report(observed).findings}
    assert t4["gpu"] == "fail"


def test_a_clock_that_follows_nothing_and_a_host_that_has_just_started_are_noted() -> None:
    assert report(good.facts()).notes == ()
    assert report(good.facts(clock={"unknown": "x"})).notes == ()
    notes = report(good.facts(clock__up_s=14.6, clock__synchronised=False)).notes
    assert notes == (
        "the host's clock follows no time server: its times may be wrong",
        "the host has been up for only 15 s: services of the boot may still be starting",
    )


@pytest.mark.parametrize("ahead", [float("inf"), float("-inf"), float("nan"), 10**400, True, "1"])
def test_a_clock_that_is_no_time_ahead_was_not_compared(tmp_path: Path, ahead: object) -> None:
    path = tmp_path / "facts.json"
    facts = json.loads(dump(good.facts()))
    facts["facts"]["clock_ahead"] = {"value": {"ahead_s": ahead}}
    path.write_text(json.dumps(facts))
    read = load(path)
    assert read.clock_ahead_s is None
    assert not any("ahead of" in note or "behind" in note for note in report(read).notes)


def test_the_same_facts_judged_from_a_file_give_the_same_verdict(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(dump(good.facts(tool_gcc__found=None)))
    assert report(load(path)) == report(good.facts(tool_gcc__found=None))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema": "gpuprov-facts/2"}', '{"schema": "gpuprov-facts/1", "facts": []}', "[" * 100_000]
)
def test_a_file_that_holds_no_facts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(FactsInvalidError) as caught:
        load(path)
    assert caught.value.hint


USES = {  # which facts a check cannot pass without
    "os": ["os"],
    "machine": ["kernel"],
    "python3": ["python3"],
    "gcc": ["tool_gcc"],
    "build-tools": ["tool_make", "tool_cmake", "tool_git"],
    "tmux": ["tool_tmux"],
    "ffmpeg": ["tool_ffmpeg"],
    "data-disk": ["file_systems"],
    "root-grown": ["root_disk"],
    "root-room": ["file_systems"],
    "cuda-environment": ["sessions"],
    "gpu": ["gpu", "nvml"],
    "driver": ["gpu", "driver"],
    "driver-on-disk": ["modules"],
    "counters-on-disk": ["counters"],
    "persistence-at-boot": ["persistence_unit"],
    "clocks-at-boot": ["clocks_unit"],
    "pytorch-installed": ["pytorch"],
    "counters": ["gpu", "counters"],
    "persistence": ["gpu", "nvml", "persistence_unit"],
    "application-clocks": ["gpu", "nvml", "clocks_report", "clocks_unit"],
    "nvcc": ["nvcc"],
    "nvcc-runs": ["gpu", "nvcc_runs"],
    "cudnn": ["cudnn"],
    "cupti": ["cupti"],
    "profilers": ["profilers"],
    "pytorch": ["gpu", "pytorch"],
    "opencv": ["opencv"],
    "gpu-health": ["gpu", "nvml"],
    "xid": ["gpu", "xids"],
    "gsp": ["gpu", "gsp", "nvml", "xids"],
    "throttling": ["gpu", "nvml"],
    "device-nodes": ["gpu", "nvml"],
    "pcie": ["gpu", "nvml"],
    "nvenc": ["gpu", "encoders"],
    "skew": ["gpu", "driver", "nvcc", "cudnn", "pytorch", "tensorflow", "jax"],
    "environment": ["variables"],
    "pynvml": ["extras"],
    "initramfs": ["initramfs"],
    "every-kernel": ["modules"],
    "upgrades": ["upgrades", "modules"],
}
GARBAGE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.integers(), max_size=2), st.just({})
)


@pytest.mark.parametrize(("check", "fact"), [(c, f) for c, facts in USES.items() for f in facts])
def test_a_fact_that_is_missing_or_unknown_never_passes(check: str, fact: str) -> None:
    for changed in (good.facts(**{fact: None}), good.facts(**{fact: {"unknown": "not seen"}})):
        assert good.finding(check, changed).outcome in {"unknown", "fail"}


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_facts_of_a_wrong_shape_never_pass_for_what_they_replace_and_never_break_the_judge(data: st.DataObject) -> None:
    check, fact = data.draw(st.sampled_from([(c, f) for c, facts in USES.items() for f in facts]))
    value = data.draw(GARBAGE)
    mutated = copy.deepcopy(good.facts().raw)
    mutated[fact] = data.draw(st.sampled_from([{"value": value}, value, {}, {"unknown": value}, {"value": value, "unknown": "both"}]))
    verdict = judge(parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": mutated}, "x"), good.PROFILE)
    outcome = next(f.outcome for f in verdict.findings if f.check == check)
    assert outcome in {"unknown", "fail"}, (check, fact, mutated[fact])


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(node, dict):
        return [leaf for key, value in node.items() for leaf in leaves(value, (*path, key))]
    if isinstance(node, list):
        return [leaf for index, value in enumerate(node) for leaf in leaves(value, (*path, index))]
    return [path]


@pytest.mark.matrix
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_leaf_may_be_anything_without_a_traceback(data: st.DataObject) -> None:
    raw = json.loads(dump(good.facts()))["facts"]
    path = data.draw(st.sampled_from(leaves(raw)))
    node = raw
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = data.draw(GARBAGE)
    verdict = judge(parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": raw}, "x"), good.PROFILE)
    assert len(verdict.findings) == len(CHECKS)


def test_the_profile_used_here_is_the_shipped_one() -> None:
    assert profiles.digest(good.PROFILE) == profiles.digest(profiles.load(profiles.find("t4-train")))


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("5.15.167.4-microsoft-standard-WSL2", "this is WSL, where the driver is that of Windows and none may be installed: "),
        ("4.4.0-19041-Microsoft", "no NVIDIA GPU on this host: "),  # of the first WSL, which has no GPU
        ("6.8.0-1030-aws", "no NVIDIA GPU on this host: "),
    ],
)
def test_a_host_under_windows_is_not_told_to_have_no_gpu(release: str, words: str) -> None:
    """NVIDIA's guide to CUDA on WSL: the driver of Windows is the only one, and one for Linux must not be installed there."""
    notes = judge(good.facts(gpu=good.NO_GPU, kernel__release=release), good.PROFILE, host="h").notes
    assert sum(note.startswith(words) for note in notes) == 1
