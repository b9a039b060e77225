"""What the figures of a run mean: each against what it is compared with, and the state of its GPU, which explains it.

A figure that nothing is known of is `unknown`, never a pass; `reported` is a figure that says nothing of a card's health, and
`not-applicable` one that the card cannot have.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from provision.catalog import read
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.roofline import gpu_by_nvml_name
from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.structs import Struct
from provision.verify.bench.figures import BenchGpu, DoneMessage, Measured, StartMessage
from provision.verify.bench.references import Reference, is_lacking, is_reported, reference_of
from provision.verify.bench.tools import TOOLS
from provision.verify.codes import HARDWARE, ORDINARY, THERMAL, gravity
from provision.verify.facts.perf import ABSURD, FLICKER, OFF

BenchOutcome = Literal["fail", "unknown", "warn", "pass", "reported", "not-applicable"]
WORST: Final[tuple[BenchOutcome, ...]] = ("fail", "unknown", "warn", "pass", "reported", "not-applicable")
_FULL_SPEED: Final = 0.97  # of the highest clock: less is said beside the figure
_IDLE: Final = 0x1


class BenchVerdict(Struct):
    """One figure, judged. `share` is of the reference; `words` are why, and what the GPU was doing."""

    figure: Measured
    outcome: BenchOutcome
    reference: Reference | None = None
    share: float | None = None
    words: str = ""


class Past(Struct):
    """What was measured before: figure → median of this host's runs, and of each host with the same card, without this one."""

    own: Mapping[str, float]
    fleet: Mapping[str, tuple[float, int]]


def judge(start: StartMessage | None, figures: Sequence[Measured], done: Sequence[DoneMessage], past: Past) -> list[BenchVerdict]:
    """All figures of a run. `start` says what the GPUs are and who held one before, `done` who else used one meanwhile."""
    gpus, held = (start.gpus, {holder[0] for holder in start.held}) if start else ((), set())
    users = {recipe: held | {holder[0] for step in done if step.recipe == recipe for holder in step.others} for recipe in _recipes(figures)}
    seen = _Seen(figures, past, users)
    return [_one(_gpu(gpus, figure), figure, seen) for figure in figures]


class _Seen:
    """What figures are compared with that is not published: the best GPU of the host, the first part of its soak, and what was before."""

    def __init__(self, figures: Sequence[Measured], past: Past, users: Mapping[str, set[int]]) -> None:
        self.past, self.users = past, users
        self.best: dict[tuple[str, bool], float] = {}
        for figure in figures:
            if figure.value is not None:
                key = figure.key, figure.alone
                self.best[key] = max(self.best.get(key, figure.value), figure.value)
        self.first = {figure.gpu: figure.value for figure in figures if figure.key == "soak.first"}


def exit_code(verdicts: Sequence[BenchVerdict], *, complete: bool) -> int:
    """1 where a figure failed, 3 where one is unknown or the run did not end, else 0."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "fail" in outcomes:
        return EXIT_FAILED_CHECK
    return EXIT_UNKNOWN if "unknown" in outcomes or not complete or outcomes <= {"not-applicable"} else EXIT_OK


def state(gpu: BenchGpu, figure: Measured) -> str:
    """The GPU while it was measured, where that explains something: a clock below the highest, and why; a lowered power limit."""
    load, words = figure.load, []
    if load is None:
        return ""
    held = [text for names in (HARDWARE, THERMAL, ORDINARY) for bit, text in names.items() if bit != _IDLE and load.share(bit) > FLICKER]
    if load.sm_mhz is not None and gpu.max_sm_mhz and load.sm_mhz < _FULL_SPEED * gpu.max_sm_mhz:
        words.append(f"at {load.sm_mhz:,} MHz of {gpu.max_sm_mhz:,}: {', '.join(held) or 'no reason told'}")
    elif held:
        words.append(", ".join(held))
    card = gpu_by_nvml_name(gpu.name)
    if card is not None and card.power_w and gpu.power_limit_w and gpu.power_limit_w < _FULL_SPEED * card.power_w:
        words.append(f"its power limit is {gpu.power_limit_w:.0f} W of {card.power_w}")
    links = [(load.link_generation, gpu.max_link_generation), (load.link_width, gpu.max_link_width)]
    if figure.recipe == "copies" and any(now and most and now < most for now, most in links):
        words.append(f"the link is {load.link_generation} x{load.link_width} of {gpu.max_link_generation} x{gpu.max_link_width}")
    return "; ".join(words)


def _recipes(figures: Sequence[Measured]) -> list[str]:
    return list(dict.fromkeys(figure.recipe for figure in figures))


def _gpu(gpus: Sequence[BenchGpu], figure: Measured) -> BenchGpu:
    return gpus[figure.gpu] if figure.gpu < len(gpus) else BenchGpu()


def _one(gpu: BenchGpu, figure: Measured, seen: _Seen) -> BenchVerdict:
    card, value = gpu_by_nvml_name(gpu.name), figure.value
    if value is None and figure.recipe in TOOLS:
        return _told(figure)
    reported = is_reported(card, figure)
    reference = reference_of(card, figure)
    if value is None and card is not None and is_lacking(card, figure):
        return BenchVerdict(figure, "not-applicable", words=f"a card of compute capability {card.compute_capability} has no such product")
    if value is None:
        return BenchVerdict(figure, "reported" if reported else "unknown", reference, words=figure.why or "no figure")
    reference = reference or (None if reported else _fleet(figure, seen.past))
    share = value / reference.value if reference and reference.value else None
    signs: list[tuple[BenchOutcome, str]] = [_against(card, figure, reference, share) if not reported else ("reported", "")]
    signs += _right(figure)
    signs += _held(figure, reported=reported)
    if figure.key == "soak.last":
        signs = [*_soak(figure, seen.first.get(figure.gpu)), *signs[1:]]
    if not reported:
        signs += _beside(figure, seen.past, seen.best[figure.key, figure.alone])
    if figure.gpu in seen.users.get(figure.recipe, set()):
        signs = [("unknown", "another process used this GPU: busy")]
    outcome = min((sign for sign, _ in signs), key=WORST.index)
    words = "; ".join(text for text in (*(text for _, text in signs), state(gpu, figure)) if text)
    return BenchVerdict(figure, outcome, reference, share, words)


def _told(figure: Measured) -> BenchVerdict:
    """What a program of somebody else found, in the words that it has for it; unknown where it found nothing."""
    if figure.detail.get("absent") is True:
        return BenchVerdict(figure, "not-applicable", words=figure.why)
    outcomes: dict[bool | float | str | None, BenchOutcome] = {"Pass": "pass", "Warn": "warn", "Fail": "fail", "Skip": "reported"}
    return BenchVerdict(figure, outcomes.get(figure.detail.get("result"), "unknown"), words=figure.why)


def _fleet(figure: Measured, past: Past) -> Reference | None:
    """The fleet's own median, where there is no other reference and enough hosts."""
    gates = read.bench().gates
    median, hosts = past.fleet.get(figure.key, (0.0, 0))
    if hosts < gates.fleet_hosts:
        return None
    return Reference(median, f"{hosts} hosts of this fleet", gates.settled_warn, gates.settled_fail)


def _against(card: GpuRecord | None, figure: Measured, reference: Reference | None, share: float | None) -> tuple[BenchOutcome, str]:
    if reference is None or share is None or figure.value is None:
        return ("unknown", "no sourced figure of this card" if card else "the catalog does not have this card")
    if reference.most is not None and figure.value > reference.most * ABSURD:
        return ("unknown", f"more than the {reference.most:g} that it can do")
    if reference.warn is None:
        return ("reported", "")
    if reference.least:
        return ("warn", "the processor or the virtualisation is slow") if share > reference.warn else ("pass", "")
    if reference.fail is not None and share < reference.fail:
        return ("fail", f"{share:.0%} of {reference.value:g}")
    return ("warn", f"{share:.0%} of {reference.value:g}") if share < reference.warn else ("pass", "")


def _right(figure: Measured) -> list[tuple[BenchOutcome, str]]:
    """Whether the result was computed right."""
    off = figure.detail.get("error")
    most = OFF if not figure.name.startswith("fp8") else 1.0
    wrong = figure.detail.get("right") is False or (isinstance(off, float) and off > most)
    return [("fail", "WRONG result")] if wrong else []


def _held(figure: Measured, *, reported: bool) -> list[tuple[BenchOutcome, str]]:
    """What held the clocks down that should not."""
    load = figure.load
    if load is None or figure.recipe == "launch":
        return []
    hard = [text for bit, text in HARDWARE.items() if load.share(bit) > FLICKER]
    heat = [text for bit, text in THERMAL.items() if load.share(bit) > FLICKER]
    if hard:
        return [("fail", f"the hardware held it back: {', '.join(hard)}")]
    return [("warn", f"heat held it back: {', '.join(heat)}")] if heat and not reported else []


def _beside(figure: Measured, past: Past, best: float) -> list[tuple[BenchOutcome, str]]:
    """Against the GPUs of this host, this host's own runs, and the other hosts."""
    gates, value, signs = read.bench().gates, figure.value or 0.0, list[tuple[BenchOutcome, str]]()
    if figure.unit == "us":
        return signs
    if value < (1 - gates.spread) * best:
        signs.append(("warn", f"{1 - value / best:.1%} below the best GPU beside it"))
    own = past.own.get(figure.key)
    if own and value < (1 - gates.fleet) * own:
        signs.append(("warn", f"{1 - value / own:.1%} below this host's own median of {own:.5g}"))
    median, hosts = past.fleet.get(figure.key, (0.0, 0))
    if median and hosts >= gates.fleet_hosts and abs(value / median - 1) > gates.fleet:
        far = f"{abs(value / median - 1):.1%} {'below' if value < median else 'above'} the median of {hosts} hosts, {median:.5g}"
        signs.append(("warn" if value < median else "pass", f"outlier: {far}"))
    return signs


def _soak(figure: Measured, first: float | None) -> list[tuple[BenchOutcome, str]]:
    """Whether the rate held, and whether errors came."""
    signs = list[tuple[BenchOutcome, str]]()
    share = (figure.value or 0) / first if first else None
    holds = share is not None and share >= read.bench().gates.holds
    signs.append(("pass" if holds else "unknown" if share is None else "fail", f"{share or 0:.0%} of its first part"))
    counts: dict[str, BenchOutcome] = {"ecc_uncorrected": "fail", "rows_remapped": "fail", "ecc_corrected": "warn"}
    for name, outcome in counts.items():
        grown = figure.detail.get(name)
        if isinstance(grown, float | int) and grown > 0:
            signs.append((outcome, f"{grown:g} {name.replace('_', ' ')} came"))
    if figure.xids is None:
        signs.append(("pass", "Xids are not told here"))
    for xid in figure.xids or ():
        outcomes: dict[str, BenchOutcome] = {"hard": "fail", "soft": "warn", "ignored": "pass"}
        signs.append((outcomes[gravity(xid)], f"XID {xid}"))
    return signs
