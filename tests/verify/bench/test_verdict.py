"""What figures mean: as an H100 gave them, and with a fault put into them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from provision.verify.bench.figures import BenchGpu, LoadState, Measured, StartMessage
from provision.verify.bench.heard import replayed
from provision.verify.bench.verdict import BenchVerdict, Past, exit_code, judge, state
from tests.watch.bench.stand_in import changed, recorded

QUICK = recorded("h100-quick")
NEVER = Past({}, {})


def of(lines: list[bytes], past: Past = NEVER) -> dict[str, BenchVerdict]:
    """Figure → verdict; of two, the one that was measured last."""
    run = replayed("h", lines)
    assert run.start is not None
    return {verdict.figure.key: verdict for verdict in judge(run.start, run.measured, run.done, past)}


def one(key: str, **changes: Any) -> BenchVerdict:
    return of(changed(QUICK, key, **changes))[key]


def test_a_healthy_h100_passes_and_its_power_cap_is_named_beside_the_figure() -> None:
    verdicts = of(QUICK)
    assert {verdict.outcome for verdict in verdicts.values()} == {"pass", "reported"}
    assert verdicts["gemm.bf16.8192.settled"].words == "at 1,410 MHz of 1,980: power cap"
    assert exit_code(list(verdicts.values()), complete=True) == 0
    assert exit_code(list(verdicts.values()), complete=False) == 3


BF16, MEMORY = "gemm.bf16.8192.settled", "memory.copy"


@pytest.mark.parametrize(
    ("key", "changes", "outcome", "words"),
    [
        (BF16, {"value": 0.89 * 678}, "warn", "89% of 678; at 1,410 MHz of 1,980: power cap"),
        (BF16, {"value": 0.79 * 678}, "fail", "79% of 678"),
        (BF16, {"value": 400, "load": {"sm_mhz": 1200}}, "fail", "at 1,200 MHz of 1,980: power cap"),
        (BF16, {"load": {"reasons": {"128": 0.5}}}, "fail", "the hardware held it back: power brake"),
        (BF16, {"load": {"reasons": {"64": 0.2}}}, "fail", "hardware thermal slowdown"),
        (BF16, {"load": {"reasons": {"64": 0.05}}}, "pass", ""),
        (BF16, {"load": {"reasons": {"32": 0.5}}}, "warn", "heat held it back: software thermal slowdown"),
        (BF16, {"load": {"sm_mhz": 1200, "reasons": {}}}, "pass", "at 1,200 MHz of 1,980: no reason told"),
        (BF16, {"value": 1100}, "unknown", "more than the 989.5 that it can do"),
        (BF16, {"detail": {"error": 0.02}}, "fail", "WRONG result"),
        (BF16, {"value": None, "why": "no memory"}, "unknown", "no memory"),
        (MEMORY, {"value": 0.84 * 2903}, "warn", "84% of 2903"),
        (MEMORY, {"value": 0.69 * 2903}, "fail", "69% of 2903"),
        (MEMORY, {"detail": {"right": False}}, "fail", "WRONG result"),
        ("copies.pinned.to_host", {"value": 44, "load": {"link_generation": 4}}, "fail", "the link is 4 x16 of 5 x16"),
        ("launch.launch", {"value": 21}, "warn", "the processor or the virtualisation is slow"),
        ("copies.pageable.to_host", {"value": 0.1}, "reported", ""),
    ],
)
def test_a_fault_is_named_with_what_explains_it(key: str, changes: dict[str, Any], outcome: str, words: str) -> None:
    verdict = one(key, **changes)
    assert verdict.outcome == outcome
    assert words in verdict.words


def start(**changes: Any) -> list[bytes]:
    """The recorded run on a GPU that is something else."""
    lines = []
    for line in QUICK:
        message = json.loads(line)
        if message["kind"] == "start":
            message["gpus"][0].update(changes)
        lines.append(json.dumps(message).encode())
    return lines


def product(name: str, value: float | None, gpu: int = 0, **more: Any) -> bytes:
    """A figure of a product that the recorded run does not have."""
    message = {"kind": "figure", "recipe": "gemm", "name": f"{name}.8192.settled", "gpu": gpu, "unit": "TFLOPS", "value": value}
    return json.dumps({**message, **more}).encode()


@pytest.mark.parametrize(
    ("card", "precision", "value", "outcome", "words"),
    [
        ("NVIDIA H100 80GB HBM3", "fp8", 1300.0, "reported", ""),
        ("NVIDIA H100 80GB HBM3", "fp8", 2100.0, "unknown", "more than the 1979 that it can do"),
        ("NVIDIA H100 80GB HBM3", "fp64", 60.0, "reported", ""),  # more than the 34 without tensor cores
        ("NVIDIA H100 80GB HBM3", "fp64", 72.0, "unknown", "more than the 67 that it can do"),
        ("NVIDIA H100 80GB HBM3", "fp8", None, "unknown", "it said nothing"),  # the card has it, whatever the host says
        ("NVIDIA X900", "fp8", None, "unknown", "it said nothing"),
        ("NVIDIA X900", "int8", 100.0, "unknown", "the catalog does not have this card"),
        ("Tesla T4", "int8", 100.0, "reported", ""),
        ("Tesla T4", "fp8", None, "not-applicable", "a card of compute capability 7.5 has no such product"),
        ("Tesla V100-SXM2-16GB", "int8", None, "not-applicable", "compute capability 7.0"),
        ("NVIDIA RTX PRO 4500 Blackwell", "fp8", 400.0, "unknown", "no sourced figure of this card"),  # nobody published a peak of it
    ],
)
def test_a_product_beside_its_datasheet_is_shown_absurd_or_not_to_be_had(
    card: str, precision: str, value: float | None, outcome: str, words: str
) -> None:
    verdict = of([*start(name=card), product(precision, value, why="" if value else "it said nothing")])[f"gemm.{precision}.8192.settled"]
    assert (verdict.outcome, words in verdict.words) == (outcome, True), verdict


def test_a_product_that_only_a_datasheet_knows_is_compared_with_the_gpu_beside_it_and_with_the_fleet() -> None:
    run = replayed("h", [*QUICK, product("fp8", 1300.0), product("fp8", 1200.0, gpu=1)])
    assert run.start is not None
    verdicts = judge(msgspec.structs.replace(run.start, gpus=run.start.gpus * 2), run.measured, run.done, NEVER)
    assert [(each.outcome, each.words) for each in verdicts[-2:]] == [("reported", ""), ("warn", "7.7% below the best GPU beside it")]
    verdict = of([*QUICK, product("fp8", 1300.0)], Past({}, {"gemm.fp8.8192.settled": (1360.0, 5)}))["gemm.fp8.8192.settled"]
    assert (verdict.outcome, verdict.words) == ("warn", "outlier: 4.4% below the median of 5 hosts, 1360")


def test_what_a_card_cannot_have_is_no_proof_of_anything() -> None:
    verdicts = of([*start(name="Tesla T4"), product("fp8", None)])
    lacking = verdicts["gemm.fp8.8192.settled"]
    assert exit_code([lacking], complete=True) == 3
    assert exit_code([lacking, verdicts["launch.launch"]], complete=True) == 0


def test_a_lowered_power_limit_is_named() -> None:
    assert "its power limit is 350 W of 700" in of(start(power_limit_w=350.0))[BF16].words


def test_a_card_that_the_catalogue_does_not_have_is_unknown_and_never_passes() -> None:
    verdicts = of(start(name="NVIDIA X900"))
    judged = {key: verdict for key, verdict in verdicts.items() if verdict.outcome != "reported"}
    assert judged[BF16].words.startswith("the catalog does not have this card")
    # What is compared with the link or with the processor is known of any card.
    assert {key for key, verdict in judged.items() if verdict.outcome == "pass"} == {
        "copies.pinned.to_host",
        "copies.pinned.to_device",
        "launch.launch",
    }
    assert exit_code(list(verdicts.values()), complete=True) == 3


def test_a_fleet_of_three_stands_in_for_a_figure_that_nobody_published() -> None:
    lines = start(name="NVIDIA X900")
    assert of(lines, Past({}, {BF16: (700.0, 2)}))[BF16].outcome == "unknown"
    verdict = of(lines, Past({}, {BF16: (700.0, 3)}))[BF16]
    assert (verdict.outcome, verdict.reference and verdict.reference.source) == ("pass", "3 hosts of this fleet")


@pytest.mark.parametrize(
    ("past", "outcome", "words"),
    [
        (Past({}, {BF16: (727.5, 5)}), "warn", "outlier: 4.0% below the median of 5 hosts, 727.5"),
        (Past({}, {BF16: (671.5, 5)}), "pass", "outlier: 4.0% above the median of 5 hosts"),
        (Past({}, {BF16: (715.0, 5)}), "pass", "at 1,410 MHz"),
        (Past({}, {BF16: (727.5, 2)}), "pass", "at 1,410 MHz"),
        (Past({BF16: 727.5}, {}), "warn", "4.0% below this host's own median of 727.5"),
        (Past({BF16: 715.0}, {}), "pass", "at 1,410 MHz"),
    ],
)
def test_what_was_measured_before_names_an_outlier_of_three_per_cent(past: Past, outcome: str, words: str) -> None:
    verdict = of(QUICK, past)[BF16]
    assert (verdict.outcome, verdict.words.startswith(words)) == (outcome, True), verdict.words


def test_a_gpu_that_is_slower_than_the_one_beside_it_is_named() -> None:
    lines = []
    for line in QUICK:
        message = json.loads(line)
        lines.append(line)
        if message["kind"] == "figure" and message["recipe"] == "gemm":
            lines.append(json.dumps({**message, "gpu": 1, "value": 0.94 * message["value"]}).encode())
    run = replayed("h", lines)
    assert run.start is not None
    verdicts = judge(msgspec.structs.replace(run.start, gpus=run.start.gpus * 2), run.measured, run.done, NEVER)
    slower = [verdict for verdict in verdicts if verdict.figure.gpu == 1]
    assert {verdict.outcome for verdict in slower} == {"warn"}
    assert all("6.0% below the best GPU beside it" in verdict.words for verdict in slower)
    assert not any("beside it" in verdict.words for verdict in verdicts if verdict.figure.gpu == 0)


def test_a_stranger_on_a_gpu_makes_its_figures_unknown_and_those_of_other_recipes_stay() -> None:
    lines = [
        line.replace(b'"others": []', b'"others": [[0, 41, "1000", "train.py"]]') if b'"recipe": "gemm"' in line else line for line in QUICK
    ]
    verdicts = of(lines)
    assert (verdicts[BF16].outcome, verdicts[BF16].words.startswith("another process used this GPU: busy")) == ("unknown", True)
    assert verdicts[MEMORY].outcome == "pass"


def test_figures_that_were_forced_on_a_busy_gpu_are_all_unknown() -> None:
    lines = [line.replace(b'"held": []', b'"held": [[0, 41, "1000", "train.py"]]') for line in QUICK]
    assert {verdict.outcome for verdict in of(lines).values()} == {"unknown"}


SOAK = {"kind": "figure", "recipe": "soak", "gpu": 0, "unit": "TFLOPS", "name": "first", "value": 680.0}


@pytest.mark.parametrize(
    ("last", "outcome", "words"),
    [
        ({"value": 670.0, "xids": []}, "pass", "99% of its first part"),
        ({"value": 640.0, "xids": []}, "fail", "94% of its first part"),
        ({"value": 670.0, "xids": [79]}, "fail", "XID 79"),
        ({"value": 670.0, "xids": [31]}, "warn", "XID 31"),
        ({"value": 670.0, "xids": [63]}, "pass", "XID 63"),
        ({"value": 670.0}, "pass", "Xids are not told here"),
        ({"value": 670.0, "detail": {"ecc_uncorrected": 1}}, "fail", "1 ecc uncorrected came"),
        ({"value": 670.0, "detail": {"ecc_corrected": 2}}, "warn", "2 ecc corrected came"),
        ({"value": 670.0, "load": {"reasons": {"8": 1.0}}}, "fail", "hardware slowdown"),
    ],
)
def test_a_soak_holds_its_rate_without_errors(last: dict[str, Any], outcome: str, words: str) -> None:
    lines = [*QUICK, json.dumps(SOAK).encode(), json.dumps({**SOAK, "name": "last", **last}).encode()]
    verdict = of(lines)["soak.last"]
    assert (verdict.outcome, words in verdict.words) == (outcome, True), verdict.words


H100 = BenchGpu("NVIDIA H100 80GB HBM3", power_limit_w=700.0, max_sm_mhz=2000, max_link_generation=5, max_link_width=16)
STRANGE = BenchGpu("NVIDIA X900")  # the catalogue does not have it, so that only a fleet is a reference


def figure(key: str = BF16, value: float | None = 678.0, **more: Any) -> Measured:
    recipe, _, name = key.partition(".")
    return Measured(**{"recipe": recipe, "name": name, "gpu": 0, "unit": "TFLOPS", "value": value, **more})


def judged(*figures: Measured, past: Past = NEVER, gpus: tuple[BenchGpu, ...] = (H100,)) -> list[BenchVerdict]:
    return judge(StartMessage(gpus=gpus), figures, [], past)


def of_a_hundred(value: float, hosts: int = 3) -> BenchVerdict:
    """The verdict where the fleet's median is 100."""
    return judged(figure(value=value), past=Past({}, {BF16: (100.0, hosts)}), gpus=(STRANGE,))[0]


def test_at_a_gate_a_figure_is_still_on_the_better_side() -> None:
    assert "90% of" not in of_a_hundred(90.0).words
    assert "89% of 100" in of_a_hundred(89.0).words
    assert (of_a_hundred(80.0).outcome, of_a_hundred(79.0).outcome) == ("warn", "fail")
    assert of_a_hundred(97.5).share == pytest.approx(0.975)
    absurd = judged(figure(value=989.5 * 1.05), figure(value=1000.0), figure(value=1040.0))
    assert [each.outcome for each in absurd] == ["pass", "pass", "unknown"]
    assert judged(figure("launch.launch", 20.0, unit="us"))[0].outcome == "pass"
    assert "below" not in judged(figure(value=100.0), figure(value=95.0, gpu=1), gpus=(STRANGE, STRANGE))[1].words
    assert "below" not in judged(figure(value=97.0), past=Past({BF16: 100.0}, {}), gpus=(STRANGE,))[0].words
    assert "outlier: 4.0% below the median of 3 hosts" in of_a_hundred(96.0).words


def test_a_gpu_that_does_nothing_is_a_whole_figure_below_the_one_beside_it() -> None:
    still = judged(figure(value=100.0), figure(value=0.0, gpu=1), gpus=(STRANGE, STRANGE))[1]
    assert "100.0% below the best GPU beside it" in still.words


def test_a_fleet_whose_median_is_nothing_compares_nothing() -> None:
    verdict = judged(figure(value=100.0), past=Past({}, {BF16: (0.0, 3)}), gpus=(STRANGE,))[0]
    assert (verdict.outcome, verdict.share) == ("unknown", None)


def test_figures_of_gpus_that_nobody_named_are_unknown() -> None:
    assert judge(None, [figure()], [], NEVER)[0].outcome == "unknown"
    assert judged(figure(gpu=1))[0].words == "the catalog does not have this card"


def test_what_is_shown_and_not_judged_has_no_fleet_and_no_heat() -> None:
    pageable = figure("copies.pageable.to_host", 5.0, load=LoadState(reasons={"32": 0.5}))
    verdict = judged(pageable, past=Past({}, {pageable.key: (100.0, 5)}))[0]
    assert (verdict.outcome, verdict.reference) == ("reported", None)
    assert judged(figure("memory.triad", None))[0].outcome == "reported"
    assert judged(figure("amp.speed_up.fp32", 0.5))[0].outcome == "reported"  # of this card: its convolutions use TF32


def test_a_figure_that_is_lacking_keeps_what_it_would_have_been_compared_with() -> None:
    reference = judged(figure(value=None))[0].reference
    assert (reference and reference.value) == 678


@pytest.mark.parametrize(
    ("key", "error", "wrong"),
    [(BF16, 0.01, False), (BF16, 0.011, True), ("gemm.fp8.8192.settled", 0.5, False), ("gemm.fp8.8192.settled", 1.5, True)],
)
def test_a_result_may_be_off_by_what_its_precision_allows(key: str, error: float, *, wrong: bool) -> None:
    assert ("WRONG result" in judged(figure(key, detail={"error": error}))[0].words) == wrong


def test_what_held_a_tenth_of_the_time_is_a_flicker() -> None:
    outcomes = [judged(figure(load=LoadState(reasons={bit: share})))[0].outcome for bit in ("128", "32") for share in (0.1, 0.11)]
    assert outcomes == ["pass", "fail", "pass", "warn"]
    slow = [judged(figure(load=LoadState(sm_mhz=1200, reasons={"4": share})))[0].words for share in (0.1, 0.11)]
    assert slow == ["at 1,200 MHz of 2,000: no reason told", "at 1,200 MHz of 2,000: power cap"]


def test_the_state_is_told_where_it_explains_something() -> None:
    full = LoadState(link_generation=5, link_width=16, sm_mhz=1940)  # 97 % of the highest clock
    slow = LoadState(link_generation=4, link_width=16)
    assert state(H100, figure("copies.pinned.to_host", load=full)) == ""
    assert state(H100, figure("copies.pinned.to_host", load=slow)) == "the link is 4 x16 of 5 x16"
    assert state(H100, figure(load=slow)) == ""
    assert state(H100, figure(load=LoadState(sm_mhz=1939))) == "at 1,939 MHz of 2,000: no reason told"
    limits = [state(msgspec.structs.replace(H100, power_limit_w=watts), figure(load=LoadState())) for watts in (679.0, 678.0)]
    assert limits == ["", "its power limit is 678 W of 700"]


def test_a_program_of_somebody_else_is_believed_in_the_words_that_it_has() -> None:
    found = judged(*(figure("dcgm.memory", None, detail={"result": word}) for word in ("Pass", "Warn", "Fail", "Skip", "Strange")))
    assert [each.outcome for each in found] == ["pass", "warn", "fail", "reported", "unknown"]
    assert judged(figure("dcgm.memory", None))[0].outcome == "unknown"


@pytest.mark.parametrize(
    ("first", "last", "outcome", "words"),
    [
        (None, 640.0, "unknown", "0% of its first part"),
        (100.0, 95.0, "pass", "95% of its first part"),
        (1.0, 0.0, "fail", "0% of its first part"),
    ],
)
def test_the_last_part_of_a_soak_is_compared_with_the_first(first: float | None, last: float, outcome: str, words: str) -> None:
    parts = [figure("soak.first", first)] if first else []
    verdict = judged(*parts, figure("soak.last", last, detail={"ecc_corrected": 0, "rows_remapped": 0}), gpus=(STRANGE,))[-1]
    assert (verdict.outcome, verdict.words.startswith(words), "came" in verdict.words) == (outcome, True, False), verdict.words
