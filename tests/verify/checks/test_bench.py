"""What the check of a measurement says: of the run of an H100 that was recorded, and of that run with something else in it."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from provision.verify.bench.plan import FULL, QUICK, recipes_of
from tests.watch.bench.stand_in import changed, recorded

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, table, texts

RUN = recorded("h100-quick")
SEEN = dt.datetime(2026, 11, 21, tzinfo=dt.UTC).timestamp()
DAY = 86_400
BF16, MEMORY = "gemm.bf16.8192.settled", "memory.copy"
ASKED: dict[str, Any] = {"verify__bench": ["gemm", "memory"]}


def kept(lines: list[bytes] = RUN, days: float = 1.0, **more: Any) -> dict[str, Any]:
    """The fact of a measurement some days before the host was looked at."""
    return {"bench": {"began": SEEN - days * DAY, "plan": "quick", "lines": [line.decode() for line in lines], **more}}


def without(*recipes: str, kinds: tuple[str, ...] = ("figure", "done", "step")) -> list[bytes]:
    return [line for line in RUN if not (json.loads(line)["kind"] in kinds and json.loads(line).get("recipe") in recipes)]


def edited(kind: str, recipe: str = "", **changes: Any) -> list[bytes]:
    """The run with its messages of a kind (and a recipe) changed."""
    messages = [json.loads(line) for line in RUN]
    return [
        json.dumps({**each, **changes} if each["kind"] == kind and each.get("recipe", "") == recipe else each).encode() for each in messages
    ]


def gpus(*uuids: str) -> list[bytes]:
    """The run on other GPUs of the same kind."""
    start = next(json.loads(line) for line in RUN if json.loads(line)["kind"] == "start")
    return edited("start", gpus=[{**start["gpus"][0], "uuid": uuid} for uuid in uuids])


UUID = good.GOOD["nvml"]["devices"][0]["uuid"]["value"]
SPLIT = {"gpu__model": "h100", "gpu__application_clocks": "default", "gpu__mig": [{"slice": "1g.10gb", "count": 7}]}
BUSY = [[0, 41, "1000", ""]]
CASES: list[Case] = [
    ("bench", kept(), {}, "not-applicable", "the profile demands no measurement"),
    ("bench", {}, {}, "not-applicable", ""),
    ("bench", {}, ASKED, "unknown", "no measurement of these GPUs is kept on this machine"),
    ("bench", kept(), ASKED, "pass", "=9 of 9 judged figures pass"),  # the triad is shown and not judged
    # Every figure is judged again here: what was said of it before does not count.
    (
        "bench",
        kept(changed(RUN, BF16, value=400.0)),
        ASKED,
        "fail",
        f"{BF16} on GPU 0: 400 TFLOPS, 59% of 678; at 1,410 MHz",
    ),
    ("bench", kept(changed(RUN, BF16, value=0.85 * 678)), ASKED, "warn", "85% of 678"),
    ("bench", kept(changed(RUN, BF16, value=None, why="no memory")), ASKED, "unknown", f"{BF16} on GPU 0: no memory"),
    ("bench", kept(changed(RUN, MEMORY, detail={"right": False})), ASKED, "fail", "WRONG result"),
    ("bench", kept(changed(RUN, BF16, load={"reasons": {"128": 1.0}})), ASKED, "fail", "the hardware held it back: power brake"),
    ("bench", kept(changed(RUN, MEMORY, value=1000.0)), {"verify__bench": ["gemm"]}, "pass", ""),  # nobody asked for it
    ("bench", kept(edited("done", "gemm", others=BUSY)), ASKED, "unknown", "another process used this GPU: busy"),
    ("bench", kept(edited("start", held=BUSY)), ASKED, "unknown", "another process used this GPU: busy"),
    ("bench", kept(fleet={BF16: [727.5, 5]}), ASKED, "warn", "outlier: 4.0% below the median of 5 hosts"),
    ("bench", kept(own={BF16: 727.5}), ASKED, "warn", "below this host's own median"),
    # A demand that cannot be met is not dropped.
    ("bench", kept(), {**ASKED, **SPLIT}, "unknown", "split with MIG"),
    # Which GPUs
    ("bench", kept(gpus("GPU-else")), ASKED, "unknown", "the measurement is one of other GPUs"),
    ("bench", kept(gpus(UUID, "GPU-else")), ASKED, "unknown", "the measurement is one of other GPUs"),
    ("bench", {**kept(), "nvml__devices__0__uuid": {"unknown": "Insufficient Permissions"}}, ASKED, "unknown", "Insufficient Permissions"),
    ("bench", {**kept(), "nvml": None}, ASKED, "unknown", "no fact 'nvml'"),
    ("bench", {**kept(), "gpu": good.NO_GPU}, ASKED, "unknown", "no NVIDIA GPU"),
    ("bench", kept(edited("start", gpus=[])), ASKED, "unknown", "the measurement is one of other GPUs"),
    ("bench", kept([line for line in RUN if b'"kind": "start"' not in line]), ASKED, "unknown", "the measurement is one of other GPUs"),
    # When
    ("bench", kept(days=6.99), ASKED, "pass", ""),
    ("bench", kept(days=7.01), ASKED, "unknown", "the last measurement is 7.0 days old, of 2026-11-13 23:45 UTC"),
    ("bench", kept(days=7.01), {**ASKED, "verify__bench_days": 8}, "pass", ""),
    ("bench", kept(days=7.0), ASKED, "pass", ""),
    ("bench", kept(days=7 + 0.5 / DAY), ASKED, "unknown", "7.0 days old"),
    ("bench", kept(days=-1 / 24), ASKED, "pass", ""),
    ("bench", kept(days=-0.04), ASKED, "pass", ""),
    ("bench", kept(days=-0.05), ASKED, "unknown", "the last measurement is of 2026-11-21 01:12 UTC, later than these facts"),
    ("bench", {**kept(days=7.01), "clock_ahead": {"ahead_s": 0.5 * DAY}}, ASKED, "pass", ""),
    ("bench", {**kept(days=6.9), "clock_ahead": {"ahead_s": -0.5 * DAY}}, ASKED, "unknown", "7.4 days old"),
    # What
    ("bench", kept([line for line in RUN if b'"kind": "start"' not in line]), ASKED, "unknown", "the measurement is one of other GPUs"),
    ("bench", kept(without("memory")), ASKED, "unknown", "memory was not measured"),
    ("bench", kept(without("memory", kinds=("figure",))), ASKED, "unknown", "memory gave no figure"),
    ("bench", kept(without("peers", kinds=("figure",))), {"verify__bench": ["gemm", "peers"]}, "pass", ""),  # one GPU has none
    ("bench", kept(edited("done", "gemm", ranks=[])), ASKED, "unknown", "gemm was not measured on every GPU"),
    (
        "bench",
        kept(edited("done", "gemm", whys={"0": "it did not end within 30 s"})),
        ASKED,
        "unknown",
        "gemm on GPU 0: it did not end within 30 s",
    ),
    ("bench", kept([line for line in RUN if b'"kind": "end"' not in line]), ASKED, "unknown", "the measurement did not end"),
    ("bench", kept(), {"verify__bench": ["soak"]}, "unknown", "soak was not measured"),
    ("bench", kept(), {"verify__bench": ["soak", "dcgm"]}, "unknown", "soak was not measured; dcgm was not measured"),
    ("bench", kept(), {"verify__bench": ["full"]}, "unknown", "the full plan was not asked for"),
    ("bench", kept(changed(without("memory"), BF16, value=400.0)), ASKED, "fail", "59% of 678"),
    # A fact that cannot be
    ("bench", kept([*RUN, b"{}"]), ASKED, "unknown", "figure that is not one"),
    ("bench", kept([*RUN, b'{"kind": "figure"']), ASKED, "unknown", "figure that is not one"),
    ("bench", kept(plan="short"), ASKED, "unknown", "malformed at plan"),
    ("bench", kept(began="yesterday"), ASKED, "unknown", "malformed at began"),
    ("bench", kept(fleet={BF16: [-1.0, 5]}), ASKED, "unknown", "malformed at fleet"),
]
TEXTS: list[Text] = [
    ("bench", {}, ASKED, "measured within 7 days, and no figure below its gate: gemm, memory", "`gpuprov bench HOST`, and verify again"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)


def tool(message: dict[str, Any]) -> list[bytes]:
    """The run with a program of somebody else in it."""
    done = {"kind": "done", "number": 12, "recipe": message["tool"], "ranks": []}
    return [*RUN[:-1], json.dumps({"kind": "tool", "gpus": 1, **message}).encode(), json.dumps(done).encode(), RUN[-1]]


def test_a_program_that_is_demanded_by_its_name_must_be_there_and_one_of_a_plan_need_not() -> None:
    facts = good.facts(**kept(tool({"tool": "dcgm"})))
    named = good.finding("bench", facts, good.profile(verify__bench=["gemm", "dcgm"]))
    assert (named.outcome, "dcgmi is not installed on this host" in named.observed) == ("unknown", True)
    planned = good.finding("bench", facts, good.profile(verify__bench=["quick"]))
    assert "dcgmi" not in planned.observed


def whole(*more: dict[str, Any]) -> list[bytes]:
    """The run as if its later recipes had ended as well, with a figure of each, and with neither program of somebody else."""
    messages = [{**json.loads(line), "whys": {}} if json.loads(line)["kind"] == "done" else json.loads(line) for line in RUN]
    figures = {"amp": "speed_up.tf32", "alignment": "fp16.512.8", "intensity": "linear.1", "minibatch": "lstm.gpu"}
    messages[-1:-1] = [
        *({"kind": "figure", "recipe": recipe, "name": name, "gpu": 0, "unit": "x", "value": 1.47} for recipe, name in figures.items()),
        *({"kind": "tool", "tool": tool, "gpus": 1} for tool in ("dcgm", "nccl")),
        *({"kind": "done", "number": 12, "recipe": tool, "ranks": []} for tool in ("dcgm", "nccl")),
        *more,
    ]
    return [json.dumps(each).encode() for each in messages]


def test_a_whole_plan_passes_on_a_host_without_programs_of_others_and_fails_by_what_one_of_them_found() -> None:
    asked = good.profile(verify__bench=["quick"])
    sound = good.finding("bench", good.facts(**kept(whole())), asked)
    assert (sound.outcome, sound.observed) == ("pass", "15 of 15 judged figures pass")
    full = good.finding("bench", good.facts(**kept(whole(), plan="full")), good.profile(verify__bench=["full"]))
    assert (full.outcome, full.observed) == ("unknown", "15 of 15 judged figures pass; soak was not measured")
    found = {"kind": "figure", "recipe": "dcgm", "name": "software", "gpu": 0, "unit": "", "why": "a page waits"}
    bad_run = whole({**found, "detail": {"result": "Fail"}})
    bad = good.finding("bench", good.facts(**kept(bad_run)), asked)
    assert (bad.outcome, "dcgm.software on GPU 0: a page waits" in bad.observed) == ("fail", True)


def test_on_several_gpus_each_must_have_been_measured() -> None:
    other = {**good.GOOD["nvml"]["devices"][0], "uuid": {"value": "GPU-else"}}
    nvml = {**good.GOOD["nvml"], "devices": [*good.GOOD["nvml"]["devices"], other]}
    asked = good.profile(verify__bench=["gemm"])

    def verdict(ranks: list[int], measured: tuple[int, ...]) -> tuple[str, str]:
        messages = [json.loads(line) for line in gpus(UUID, "GPU-else")]
        figures = [each for each in messages if each["kind"] == "figure" and each["recipe"] == "gemm"]
        lines = [{**each, "ranks": ranks} if each["kind"] == "done" else each for each in messages if each["kind"] != "figure"]
        lines[1:1] = [{**each, "gpu": gpu} for each in figures for gpu in measured]
        found = good.finding("bench", good.facts(nvml=nvml, **kept([json.dumps(line).encode() for line in lines])), asked)
        return found.outcome, found.observed

    assert verdict([0, 1], (0, 1)) == ("pass", "16 of 16 judged figures pass")
    assert verdict([0], (0, 1)) == ("unknown", "16 of 16 judged figures pass; gemm was not measured on every GPU")
    assert verdict([0, 1], (0,)) == ("unknown", "8 of 8 judged figures pass; gemm gave no figure of every GPU")


def test_a_time_that_the_host_did_not_tell_leaves_the_age_unknown() -> None:
    facts = good.facts(**kept())
    facts = type(facts)("", facts.elapsed_s, facts.raw)
    finding = good.finding("bench", facts, good.profile(**ASKED))
    assert (finding.outcome, "age of the measurement is not known" in finding.observed) == ("unknown", True)


@pytest.mark.parametrize(
    ("words", "recipes"),
    [
        (["memory", "gemm", "gemm"], ("gemm", "memory")),
        (["quick"], tuple(dict.fromkeys(step.recipe for step in QUICK))),
        (["full"], tuple(dict.fromkeys(step.recipe for step in FULL))),
        (["soak", "quick"], tuple(dict.fromkeys(step.recipe for step in FULL))),
    ],
)
def test_words_of_a_profile_mean_recipes(words: list[str], recipes: tuple[str, ...]) -> None:
    assert set(recipes_of(words)) == set(recipes)
    assert len(recipes_of(words)) == len(set(recipes))


def words(facts: dict[str, Any], *recipes: str) -> list[str]:
    """What the finding says, part by part, when these recipes are demanded."""
    return good.finding("bench", good.facts(**facts), good.profile(verify__bench=list(recipes))).observed.split("; ")


def test_each_gap_is_named_once_and_after_four_things_their_number() -> None:
    unended = [line for line in edited("done", "gemm", whys={"0": "it broke", "1": "it broke as well"}) if b'"kind": "end"' not in line]
    assert words(kept(unended), "gemm")[1:] == ["the measurement did not end", "gemm on GPU 0: it broke"]
    assert words(kept(without("memory", kinds=("figure",))), "gemm", "memory")[1:] == ["memory gave no figure"]
    lacking = ["memory", "copies", "launch", "amp", "soak"]
    four = words(kept(without(*lacking)), "gemm", *lacking[:4])
    assert four[1:] == [f"{recipe} was not measured" for recipe in lacking[:4]]
    assert words(kept(without(*lacking)), "gemm", *lacking)[5:] == ["and 1 more"]


def on_two_gpus(recipe: str) -> tuple[str, str]:
    """The finding of two GPUs where a recipe was measured on the first."""
    other = {**good.GOOD["nvml"]["devices"][0], "uuid": {"value": "GPU-else"}}
    nvml = {**good.GOOD["nvml"], "devices": [*good.GOOD["nvml"]["devices"], other]}
    finding = good.finding("bench", good.facts(nvml=nvml, **kept(gpus(UUID, "GPU-else"))), good.profile(verify__bench=[recipe]))
    return finding.outcome, finding.observed


def test_what_the_first_gpu_measures_for_all_is_enough_from_it() -> None:
    assert on_two_gpus("launch")[0] == "pass"
    assert on_two_gpus("memory") == ("unknown", "1 of 1 judged figures pass; memory was not measured on every GPU")


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client whose clock is nine hours ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_east")
@pytest.mark.parametrize("seen", ["2026-11-21T00:00:00", "2026-11-21T00:00:00Z", "2026-11-21T02:00:00+02:00"])
def test_the_age_is_the_same_wherever_the_client_is_and_a_time_without_a_zone_is_utc(seen: str) -> None:
    facts = good.facts(**kept(days=7.01))
    finding = good.finding("bench", type(facts)(seen, facts.elapsed_s, facts.raw), good.profile(**ASKED))
    assert finding.observed == "the last measurement is 7.0 days old, of 2026-11-13 23:45 UTC"
    recent = good.facts(**kept(days=6.99))
    assert good.finding("bench", type(recent)(seen, recent.elapsed_s, recent.raw), good.profile(**ASKED)).outcome == "pass"
