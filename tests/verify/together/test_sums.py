"""Sums over two real hosts, whose PyTorch is a stand-in here: it says what it was asked, fails, or hangs. The rounds are computed for real.

The worker itself ran with PyTorch over gloo and NCCL on a machine with a GPU: docs/sources/bench.md.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator

import pytest

import tests.pair
from provision.verify.fleet import Expectation, HostVerification
from provision.verify.judge import Selection, judge
from provision.verify.together import sums
from provision.verify.together.sums import SumAnswer, SummingHost
from provision.workflow.verify import judge_together
from tests.pair import Pair
from tests.verify import good

pytestmark = pytest.mark.rehearsal
NAMES = ("a", "b")
INTERPRETER = "/opt/stand-in/python"
# Its arguments are -I -c CODE, as PyTorch's own python would get them; the request is on its standard input.
ANSWERS = """#!/bin/sh
read -r asked
echo "$asked" >> asked-of-pytorch
echo '{"pairs": {"1": 11.5}, "together": 11.5, "right": true}'
"""
FAILS = """#!/bin/sh
echo 'Traceback (most recent call last):' >&2
echo "ModuleNotFoundError: No module named 'torch'" >&2
exit 1
"""
HANGS = """#!/bin/sh
exec sleep 4711
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with tests.pair.pair(tmp_path_factory.mktemp("sums"), NAMES) as made:
        yield made


def install(pair: Pair, **programs: str) -> None:
    for name, text in programs.items():
        written = shlex.quote(text)
        pair.run(
            name, f"sudo mkdir -p /opt/stand-in && printf %s {written} | sudo tee {INTERPRETER} >/dev/null && sudo chmod 755 {INTERPRETER}"
        )


def hosts(pair: Pair) -> list[SummingHost]:
    return [SummingHost(pair.target(name), pair.addresses[name], INTERPRETER, 2) for name in NAMES]


def test_every_gpu_of_every_host_gets_its_number_and_one_place_to_meet(pair: Pair) -> None:
    install(pair, a=ANSWERS, b=ANSWERS)
    found = asyncio.run(sums.sum_up(hosts(pair), timeout_s=60))
    assert {name: isinstance(said, SumAnswer) and said.figures and said.figures.together for name, said in found.items()} == {
        "a": 11.5,
        "b": 11.5,
    }
    asked = [json.loads(line) for name in NAMES for line in pair.run(name, "cat asked-of-pytorch").splitlines()]
    assert sorted((each["host"], each["gpu"], each["rank"]) for each in asked) == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]
    assert {json.dumps(each["meet"]) for each in asked} == {json.dumps(asked[0]["meet"])}
    assert asked[0]["meet"]["address"] == pair.addresses["a"]
    assert all((each["counts"], each["cuda"]) == ([2, 2], True) for each in asked)


def verdict(pair: Pair) -> tuple[str, str]:
    verdicts = []
    for name in NAMES:
        facts = good.facts(machine__address=pair.addresses[name], machine__mtu=1500)
        verdicts.append(HostVerification(Expectation(pair.target(name), good.PROFILE), judge(facts, good.PROFILE, host=name), facts))
    report = judge_together(verdicts, Selection(tier="perf"), 30, python=lambda _: INTERPRETER)
    (finding,) = (finding for finding in report.findings if finding.check == "all-reduce")
    return finding.outcome, finding.observed


def test_a_host_without_pytorch_is_unknown_with_its_own_words(pair: Pair) -> None:
    install(pair, a=ANSWERS, b=FAILS)
    assert verdict(pair) == ("unknown", "b: ModuleNotFoundError: No module named 'torch'")
    pair.run("b", f"sudo rm {INTERPRETER}")
    assert verdict(pair) == ("unknown", f"b: {INTERPRETER}: No such file or directory")


def test_nothing_stays_on_a_host_whose_sums_hang(pair: Pair) -> None:
    install(pair, a=HANGS, b=HANGS)
    found = asyncio.run(sums.sum_up(hosts(pair), timeout_s=5))
    assert all(isinstance(said, str) for said in found.values()), found
    for name in NAMES:
        pair.run(name, "for i in $(seq 100); do pgrep -f '[s]leep 4711' >/dev/null || exit 0; sleep 0.1; done; exit 1")
