"""Products of two matrices of random numbers, in each precision that the card has: the fastest moment, and what it settles at.

Zeros draw less power and so run faster; inputs rotate through more memory than the L2 cache holds.
"""

import math
import time

QUICK = ("bf16", "fp16", "tf32", "fp32")
ALL = ("bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64")
SINCE = {"bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9), "int8": (7, 5)}


def pairs(bench, precision, size):
    """Pairs of matrices, twice the L2 cache in all, and the product of one pair."""
    torch = bench.torch
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}.get(precision, torch.float32)
    width = {"fp8": 1, "int8": 1, "bf16": 2, "fp16": 2, "fp64": 8}.get(precision, 4)
    made = []
    for _ in range(max(2, 1 + 2 * bench.cache // (2 * width * size * size))):
        one, other = (torch.randn(size, size, dtype=kind, device=bench.device) for _ in range(2))
        if precision == "int8":
            one, other = ((each * 40).clamp(-127, 127).to(torch.int8) for each in (one, other))
        elif precision == "fp8":
            one, other = (each.to(torch.float8_e4m3fn) for each in (one, other))
        made.append((one, other.t().contiguous().t() if width == 1 else other))
    return made


def product(bench, precision, size):
    """A call that does the next product, and the pairs it goes through."""
    torch, made, turn = bench.torch, pairs(bench, precision, size), [0]
    if precision == "fp8":
        scale = torch.ones((), device=bench.device)

        def multiply(one, other):
            return torch._scaled_mm(one, other, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)  # noqa: SLF001 - no other door

    elif precision == "int8":
        multiply = torch._int_mm  # noqa: SLF001 - no other door
    else:
        out = torch.empty_like(made[0][0])

        def multiply(one, other):
            return torch.matmul(one, other, out=out)

    def once():
        turn[0] = (turn[0] + 1) % len(made)
        return multiply(*made[turn[0]])

    return once, made


def error(precision, once, made):
    """How far 64 x 64 values of a product are off, of their norm, against double precision."""
    if precision == "fp8":
        return None
    out = once()
    one, other = made[1 % len(made)]
    exact = one[:64].double() @ other[:, :64].double()
    off = ((out[:64, :64].double() - exact).norm() / exact.norm()).item()
    return 1.0 if math.isnan(off) else off


def run(bench, seconds):
    """Each precision in its share of the time: a rest, half a second, warmer until the power settles, and then the measurement."""
    asked = bench.known.get("precisions") or QUICK
    chosen = [name for name in asked if bench.capability >= SINCE.get(name, (0, 0))]
    sizes = bench.known.get("sizes") or [8192]
    for precision in asked:
        if precision not in chosen:
            bench.missing("%s.%d.settled" % (precision, bench.size(sizes[0])), "TFLOPS", "no card before %d.%d has it" % SINCE[precision])
    share = seconds / (len(chosen) * len(sizes) or 1)
    for precision in chosen:
        for size in map(bench.size, sizes):
            bench.torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
            try:
                measure(bench, precision, size, share)
            except (RuntimeError, AttributeError) as problem:
                bench.missing("%s.%d.settled" % (precision, size), "TFLOPS", problem)
            bench.torch.set_float32_matmul_precision("highest")


def measure(bench, precision, size, seconds):
    """One precision and size."""
    once, made = product(bench, precision, size)
    off = error(precision, once, made)
    bench.block(once, 3)
    time.sleep(min(0.3, seconds / 10))
    burst = bench.timed(once, min(0.5, seconds / 6), 1)
    warm = bench.warmed(once, min(10, seconds / 2))
    settled = bench.timed(once, max(0.5, seconds - warm - 1.5))
    rate = 2 * size**3 / 1e12
    bench.figure("%s.%d.burst" % (precision, size), rate / burst.best, "TFLOPS", burst)
    detail = {} if off is None else {"error": round(off, 6)}
    bench.figure("%s.%d.settled" % (precision, size), rate / settled.median, "TFLOPS", settled, warm_s=round(warm, 1), **detail)
