"""What hosts measured before, and the outlier among six."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import msgspec
import pytest

from provision.errors import FactsInvalidError
from provision.profile.model import Profile
from provision.verify.bench import record
from provision.verify.bench.figures import Measured
from provision.verify.bench.heard import BenchRun, replayed
from provision.verify.bench.record import PastRun, past
from provision.verify.bench.verdict import Past
from provision.verify.facts import parse
from provision.verify.facts.bench import BenchFacts
from provision.verify.fleet import Expectation, verify_all
from provision.verify.judge import Selection
from provision.workflow.bench import judged
from tests.verify import good
from tests.verify.sshd import LIAR, Endpoint, needed
from tests.watch.bench.stand_in import changed, recorded

KEY = "gemm.bf16.8192.settled"


def run_of(host: str, value: float, at: float = 0.0) -> BenchRun:
    run = replayed(host, changed(recorded("h100-quick"), KEY, value=value))
    run.machine, run.began = host, at
    return run


def test_an_outlier_of_four_per_cent_is_found_among_six_recorded_hosts(tmp_path: Path) -> None:
    for number in range(5):
        judged([run_of(f"train-{number}", 690.0 + number)], "quick", tmp_path)
    [slow] = judged([run_of("train-5", 692.0 * 0.96)], "quick", tmp_path).hosts
    words = {figure.figure: (figure.outcome, figure.words) for figure in slow.figures}
    assert words[KEY][0] == "warn"
    assert words[KEY][1].startswith("outlier: 4.0% below the median of 5 hosts, 692")
    assert not any("outlier" in text for key, (_, text) in words.items() if key != KEY)


def test_hosts_of_one_run_are_a_fleet_and_the_slow_one_is_named_whatever_its_place(tmp_path: Path) -> None:
    report = judged([run_of("a", 664.0), *(run_of(name, 692.0) for name in "bcd")], "quick", tmp_path)
    named = [host.host for host in report.hosts for figure in host.figures if "outlier" in figure.words]
    assert named == ["a"]


def test_a_machine_is_compared_with_its_own_runs_whatever_it_is_called(tmp_path: Path) -> None:
    judged([run_of("a", 692.0, at=1.0)], "quick", tmp_path)
    again = run_of("a", 664.0, at=2.0)
    again.host = "another-name"
    [host] = judged([again], "quick", tmp_path).hosts
    assert any("4.0% below this host's own median of 692" in figure.words for figure in host.figures)
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_a_copied_image_is_another_machine() -> None:
    one, other = run_of("a", 1.0), run_of("a", 1.0)
    assert record.identity(one) == record.identity(other)
    assert other.start is not None
    gpu = other.start.gpus[0]
    changed_gpu = type(gpu)(name=gpu.name, uuid="GPU-else")
    other.start = type(other.start)(gpus=(changed_gpu,))
    assert record.identity(one) != record.identity(other)


def test_other_cards_and_a_hosts_older_runs_do_not_count_in_the_fleet() -> None:
    runs = [
        PastRun("m1", "a", "H100", 1.0, {"k": 50.0}),
        PastRun("m1", "a", "H100", 2.0, {"k": 100.0}),
        PastRun("m2", "b", "T4", 1.0, {"k": 5.0}),
    ]
    assert past(runs, "m9", "H100").fleet == {"k": (100.0, 1)}
    assert past(runs, "m1", "H100") == Past({"k": 75.0}, {})


def test_a_run_on_a_busy_gpu_and_a_failed_figure_are_not_kept(tmp_path: Path) -> None:
    busy = run_of("a", 692.0)
    busy.done = [type(step)(step.number, step.recipe, step.ranks, {}, ((0, 41, "1000", "train.py"),)) for step in busy.done]
    judged([busy], "quick", tmp_path)
    assert list(tmp_path.glob("*.jsonl")) == []
    judged([run_of("a", 100.0)], "quick", tmp_path)
    [kept] = record.read(tmp_path)
    assert KEY not in kept.figures
    assert kept.figures["memory.copy"] == 3022.6


def test_the_slowest_gpu_and_what_it_does_alone_is_what_is_kept() -> None:
    measured = run_of("a", 692.0).measured
    one = next(figure for figure in measured if figure.key == "memory.copy")
    assert record.worst([one, _with(one, 2900.0, alone=True), _with(one, 1000.0, alone=False)]) == {"memory.copy": 2900.0}
    launch = next(figure for figure in measured if figure.key == "launch.launch")
    assert record.worst([launch, _with(launch, 9.0, alone=True)]) == {"launch.launch": 9.0}


def _with(figure: Measured, value: float, *, alone: bool) -> Measured:
    return msgspec.structs.replace(figure, value=value, alone=alone)


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"machine": "m", "host": "h", "card": "c", "at": 1, "figures": {"k": -1}}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text + "\n")
    with pytest.raises(FactsInvalidError, match="holds no runs"):
        record.read(tmp_path)


def test_the_last_run_of_these_gpus_is_added_to_the_facts_with_what_was_before_it(tmp_path: Path) -> None:
    for number in range(3):
        judged([gpus_of(run_of(f"train-{number}", 690.0 + number), f"GPU-{number}")], "quick", tmp_path)
    for at, value in ((1.0, 650.0), (2.0, 640.0), (3.0, 100.0)):
        judged([run_of("mine", value, at=at)], "full", tmp_path)
    kept = record.measured(good.facts(), tmp_path).read(BenchFacts)
    assert (kept.began, kept.plan) == (3.0, "full")  # the last one counts, also one that failed
    assert (kept.own[KEY], kept.fleet[KEY]) == (645.0, (691.0, 3))
    assert [figure.value for figure in replayed("h", [line.encode() for line in kept.lines]).measured if figure.key == KEY] == [100.0]


def gpus_of(run: BenchRun, uuid: str) -> BenchRun:
    """The run on another GPU."""
    assert run.start is not None
    run.start = msgspec.structs.replace(run.start, gpus=(msgspec.structs.replace(run.start.gpus[0], uuid=uuid),))
    return run


def test_nothing_is_added_for_other_gpus_or_where_nobody_asks_and_what_the_host_says_of_it_is_dropped(tmp_path: Path) -> None:
    judged([gpus_of(run_of("a", 690.0), "GPU-else")], "quick", tmp_path)
    said = good.facts(bench={"began": 1.0, "plan": "quick", "lines": []})
    assert BenchFacts.name not in record.measured(said, tmp_path).raw
    judged([run_of("a", 690.0)], "quick", tmp_path)
    assert record.measured(said, tmp_path).read(BenchFacts).lines
    assert BenchFacts.name not in record.measured(said, None).raw
    assert BenchFacts.name not in record.measured(good.facts(nvml=None), tmp_path).raw


def test_a_run_that_is_too_large_to_be_evidence_is_unknown_here_as_it_will_be_there(tmp_path: Path) -> None:
    run = run_of("a", 690.0)
    run.lines *= 60
    judged([run], "quick", tmp_path)
    answer = record.measured(good.facts(), tmp_path)
    assert list(answer.raw[BenchFacts.name]) == ["unknown"]
    assert parse(answer.as_dict(), "evidence") == answer


def test_a_run_that_did_not_begin_takes_no_other_ones_place(tmp_path: Path) -> None:
    judged([run_of("a", 690.0, at=5.0)], "quick", tmp_path)
    refused = BenchRun("a", 6.0)
    judged([refused], "quick", tmp_path)
    assert record.measured(good.facts(), tmp_path).read(BenchFacts).began == 5.0


@needed
def test_a_running_host_is_judged_by_what_was_measured_on_its_gpus(host: Endpoint, tmp_path: Path) -> None:
    facts = {name: {"value": good.GOOD[name]} for name in ("gpu", "nvml")}
    host.program("python3", f"{LIAR}GOOD['facts'].update(json.loads({json.dumps(facts)!r}))\nframe(packed(GOOD))\n")
    asked = good.profile(verify__bench=["gemm"])

    def verdict(profile: Profile) -> tuple[str, bool]:
        expectation = Expectation(host.target, profile)
        [made] = asyncio.run(verify_all([expectation], selection=Selection(only=frozenset({"bench"})), measurements=tmp_path))
        assert made.facts is not None
        return made.report.findings[0].outcome, BenchFacts.name in made.facts.raw

    assert verdict(asked) == ("unknown", False)
    judged([run_of("a", 690.0, at=time.time())], "quick", tmp_path)
    assert verdict(asked) == ("pass", True)
    assert verdict(good.PROFILE) == ("not-applicable", False)
    judged([run_of("a", 400.0, at=time.time())], "quick", tmp_path)
    assert verdict(asked) == ("fail", True)
