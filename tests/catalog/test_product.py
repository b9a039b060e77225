"""Every combination of GPU, system, framework and toolkit demand is resolved or refused with a reason, and each answer is checked.

The checks of a stack are written from docs/sources/stack.md a second time, without the resolver's rules: the two must agree.
`pytest tests/catalog/test_product.py -s` prints the counts.
"""

import datetime as dt
import itertools
from collections import Counter, defaultdict

import pytest

from provision.catalog import read
from provision.catalog.conflict import Conflict
from provision.catalog.resolve import StackRequest, _demands, _problem, resolve
from provision.errors import StackConflictError
from tests import sample

TODAY = dt.date(2026, 11, 21)
GPUS = {g.model: tuple(map(int, g.compute_capability.split("."))) for g in read.gpus().gpus}
SYSTEMS = [s.key for s in read.systems().systems]
FRAMEWORKS = [
    (None, None),
    *((name, v) for name, releases in read.frameworks().items() for v in ["auto", *(r.version for r in releases)]),
]
TOOLKITS = ["auto", *(t.version for t in read.toolkits().toolkits)]


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+", maxsplit=1)[0].split("."))


def check_stack(v: dict[str, str]) -> None:
    """What must be true of any stack that works, from docs/sources/stack.md alone."""
    capability, driver, cuda, cudnn = GPUS[v["gpu"]], int(v["driver"]), numbers(v["cuda"]), numbers(v["cudnn"])
    volta_or_older, blackwell = capability < (7, 5), capability >= (10, 0)
    assert not volta_or_older or driver <= 580  # §4.3
    assert v["flavour"] == ("proprietary" if volta_or_older else "open") or (not blackwell and not volta_or_older)
    assert cuda < (13,) or capability >= (7, 5)  # §4.2
    assert cuda >= (12, 8) or not blackwell
    assert driver >= {11: 450, 12: 525, 13: 580}[cuda[0]]  # §4.1
    assert cudnn <= (9, 10, 2, 21) or capability >= (7, 5)  # §4.4
    assert cuda[0] != 13 or cudnn >= (9, 12)  # the first wheels of nvidia-cudnn-cu13
    newer = dict.fromkeys(("ubuntu 26.04", "rocky 10", "alma 10", "rhel 10"), 14)
    gcc = {"ubuntu 22.04": 11, "ubuntu 24.04": 12, "debian 12": 11, "debian 13": 12, **newer}.get(v["os"], 11)
    assert v["os"] != "ubuntu 26.04" or (driver >= 595 and cuda >= (13, 3))
    assert gcc <= (12 if cuda < (12, 4) else 13 if cuda < (12, 8) else 14 if cuda < (13,) else 15)  # the oldest it has; §4.2
    python = {
        "22.04": (3, 10),
        "24.04": (3, 12),
        "12": (3, 11),
        "13": (3, 13),
        "9": (3, 12),
        "10": (3, 12),
        "2023": (3, 12),
        "26.04": (3, 14),
    }[v["os"].split()[1]]
    if v["pytorch"] != "none":
        check_pytorch(v["pytorch"], capability, driver, python)
    if v["tensorflow"] != "none":
        release = numbers(v["tensorflow"])
        assert capability >= (6, 0) or release < (2, 17)  # §4.6: sm_60 is the oldest since 2.17
        assert not blackwell or release >= (2, 20), "cuDNN 9.3 does not know Blackwell"
        assert python <= ((3, 11) if release < (2, 16) else (3, 12) if release < (2, 20) else (3, 13))
        assert driver >= 525
    if v["jax"] != "none":
        release = numbers(v["jax"])
        assert driver >= 525
        assert python >= (3, 12) or release < (0, 11)
        assert python >= (3, 11) or release < (0, 7)
        assert python < (3, 14) or release >= (0, 8)


def check_pytorch(wheel: str, capability: tuple[int, ...], driver: int, python: tuple[int, ...]) -> None:
    """§4.5."""
    release = numbers(wheel)
    if "+cu126" in wheel:
        assert capability < (10, 0)
    else:
        assert capability >= (7, 5) or release <= (2, 10, 0)
        assert capability >= (7, 0) or release <= (2, 7, 1)
        assert capability < (10, 0) or release >= (2, 8)
        assert driver >= (580 if release >= (2, 11) else 525)
    assert python >= (3, 11) or release < (2, 15)
    assert python < (3, 14) or release >= (2, 9)


def check_refusal(request: StackRequest, refusal: StackConflictError) -> None:
    """The demands at fault conflict, and without any one of them they do not; each remedy works."""
    conflict = refusal.conflict
    assert isinstance(conflict, Conflict)
    problem = _problem(TODAY, request.clocks)
    hard = [rule for rule in problem.rules if not rule.soft]
    core = list(conflict.core)
    assert not problem.satisfiable(core, hard)
    for demand in core:
        assert problem.satisfiable([d for d in core if d is not demand], hard), f"{demand.text} is not needed"
    assert conflict.reasons
    assert refusal.hint
    everything = _demands(request, problem)
    for remedy in conflict.remedies:
        demand = next(d for d in core if d.key == remedy.key)
        changed = type(demand)(demand.key, demand.variable, frozenset({remedy.to}), remedy.to)
        assert problem.satisfiable([changed, *(d for d in everything if d.key != remedy.key)], hard), remedy


def alike() -> list[list[str]]:
    """The GPUs, by what the rules say of them: the resolver knows a GPU by its rules alone, so those of one group get one answer."""
    problem, groups = _problem(TODAY, StackRequest(gpu="", os="").clocks), defaultdict(list)
    rules = [rule for rule in problem.rules if "gpu" in rule.over]
    for gpu in GPUS:
        values = {**problem.variables, "gpu": {gpu: problem.variables["gpu"][gpu]}}
        groups[tuple(rule.holds(*some) for rule in rules for some in itertools.product(*(values[n].values() for n in rule.over)))].append(
            gpu
        )
    return list(groups.values())


def request_of(gpu: str, system: str, framework: str | None, release: str | None, cuda: str) -> StackRequest:
    return StackRequest(gpu=gpu, os=system, cuda=cuda, **({framework: release} if framework else {}))  # type: ignore[arg-type]


@pytest.mark.matrix
@pytest.mark.parametrize("gpus", alike(), ids=" ".join)
def test_every_combination_is_resolved_or_refused_with_a_proof(gpus: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    cases = sample.part(itertools.product(SYSTEMS, FRAMEWORKS, TOOLKITS))
    for system, (framework, release), cuda in cases:
        request = request_of(gpus[0], system, framework, release, cuda)
        try:
            resolution = resolve(request, TODAY, explain=False)
        except StackConflictError as refusal:
            counts[f"refused ({len(refusal.conflict.core)} demands)"] += len(gpus)
            check_refusal(request, refusal)
        else:
            counts["resolved against advice" if resolution.advice else "resolved"] += len(gpus)
            for gpu in gpus:
                check_stack({**resolution.values, "gpu": gpu})
            assert cuda in {"auto", resolution.values["cuda"]}
            assert framework is None or release in {"auto", resolution.values[framework]}
    assert sum(counts.values()) == len(gpus) * len(cases)
    with capsys.disabled():
        print(f"\n{' '.join(gpus)}: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())), end="")  # noqa: T201 - the counts are asked for


@pytest.mark.matrix
@pytest.mark.parametrize("gpus", [group for group in alike() if len(group) > 1], ids=" ".join)
def test_gpus_of_which_the_rules_say_the_same_get_the_same(gpus: list[str]) -> None:
    everything = list(itertools.product(SYSTEMS, FRAMEWORKS, TOOLKITS))
    for system, (framework, release), cuda in sample.part(everything[:: len(everything) // 40]):
        answers = []
        for gpu in gpus:
            try:
                answers.append(resolve(request_of(gpu, system, framework, release, cuda), TODAY, explain=False).values | {"gpu": ""})
            except StackConflictError as refusal:
                answers.append({demand.key: demand.variable for demand in refusal.conflict.core})
        assert all(answer == answers[0] for answer in answers)
