"""TensorRT, Transformer Engine and FlashAttention, which tier perf runs on every GPU: each computes what it should."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from provision.profile.model import Profile
from provision.verify.checks.base import (
    BROKEN,
    MEASURE,
    Check,
    Verdict,
    apply,
    dotted,
    fails,
    no_extra,
    over_all,
    passes,
    unknown,
)
from provision.verify.facts import Facts
from provision.verify.facts.gpu import require_gpu
from provision.verify.facts.perf import (
    FlashAttentionFacts,
    PartFacts,
    PerfDeviceFacts,
    PerfFacts,
    TensorRtFacts,
    TransformerEngineFacts,
)

# How far a result may be off, relative to its norm; what is nearer than the first figure was not computed in that precision. Rounding alone
# makes 0.0005 in FP16, 0.020 in INT8 and 0.038 in FP8 (docs/sources/verification.md §2.12).
_ENGINE: Final[Mapping[str, tuple[float, float]]] = {"fp32": (0, 1e-4), "fp16": (1e-5, 0.005), "int8": (0.002, 0.05)}
_LAYER: Final[Mapping[str, tuple[float, float]]] = {"bf16": (0, 0.01), "fp8": (0.01, 0.1)}
_ATTENTION: Final[Mapping[str, tuple[float, float]]] = {"forward": (0, 0.02), "backward": (0, 0.02)}
_WORDS: Final = {"forward": "output", "backward": "gradient"}
# What to do where there is a reason that is the host's own.
_HINTS: Final[Mapping[str | None, str]] = {
    "missing": apply("extras", "installs it"),
    "failed": "see the error; the usual cause is a driver that is too old for the library",
}


def _off(part: PartFacts, limits: Mapping[str, tuple[float, float]]) -> tuple[str, str]:
    """How far each result is off in words, and what is wrong with the first that is not within its limits."""
    said, wrong = [], ""
    for name, (least, most) in limits.items():
        figure = getattr(part, name)
        word = _WORDS.get(name, name.upper())
        if figure is None or figure > most:
            wrong = wrong or f"WRONG result, {word} is off by {'an unknown amount' if figure is None else f'{figure:.2g}'}"
        elif figure < least:
            wrong = wrong or f"{word} was not computed in {word}, it is off by {figure:.2g} only"
        said.append(f"{word} off by {figure:.2g}" if figure is not None else f"{word} unknown")
    return ", ".join(said), wrong


def _one(part: PartFacts, limits: Mapping[str, tuple[float, float]], version: str) -> Verdict:
    if part.reason in _HINTS:
        return fails("", part.unknown or "no word on it", _HINTS[part.reason])
    if part.reason is not None:
        return unknown("", f"not tried, {part.reason}: {part.unknown}", MEASURE)
    said, wrong = _off(part, limits)
    return fails("", wrong, BROKEN) if wrong else passes("", f"{version}: {said}")


def _tensorrt(device: PerfDeviceFacts) -> Verdict:
    part: TensorRtFacts = device.tensorrt
    if part.reason is None:
        wheel = dotted(part.version)[:3]
        library = (part.library // 10_000, part.library // 100 % 100, part.library % 100)
        if wheel != library:
            words = f"the Python part is {part.version}, and the library {'.'.join(map(str, library))}"
            return fails("", words, apply("extras", "installs both in one version"))
    return _one(part, _ENGINE, part.version)


def _transformer_engine(device: PerfDeviceFacts) -> Verdict:
    part: TransformerEngineFacts = device.transformer_engine
    return _one(part, _LAYER, part.version)


def _flash_attention(device: PerfDeviceFacts) -> Verdict:
    part: FlashAttentionFacts = device.flash_attention
    return _one(part, _ATTENTION, part.version)


def _judge(expected: str, look: Callable[[PerfDeviceFacts], Verdict]) -> Callable[[Facts, Profile], Verdict]:
    def judge(facts: Facts, profile: Profile) -> Verdict:
        require_gpu(facts)
        perf = facts.read(PerfFacts)
        results = []
        for number, device in perf.numbered.items():
            one = look(device)
            results.append(Verdict(one.outcome, "", f"GPU {number}: {one.observed}", one.hint))
        return over_all(facts, perf, profile, expected, results)

    return judge


_check = partial(Check, needs_gpu=True, tier="perf", role="extras")
CHECKS = (
    _check(
        "tensorrt",
        "TensorRT builds and runs engines in FP32, FP16 and INT8",
        _judge("a small network in FP32 as exact as FP32, in FP16 and INT8 as near to that as rounding allows", _tensorrt),
        unasked=no_extra("tensorrt"),
    ),
    _check(
        "transformer-engine",
        "Transformer Engine computes a layer in FP8",
        _judge("a layer in BF16 and in FP8, each as near to the exact product as rounding allows", _transformer_engine),
        unasked=no_extra("transformer-engine"),
    ),
    _check(
        "flash-attention",
        "FlashAttention computes what PyTorch's attention does",
        _judge("attention and its gradient, within 2 % of PyTorch's own in double precision", _flash_attention),
        unasked=no_extra("flash-attn"),
    ),
)
