"""One product again and again, on all GPUs at once: whether clocks, power, temperature and rate hold, and whether errors come."""

import time

from gemm import product


def run(bench, seconds):
    """The rate in the first and the last fifth, what it was between them, and the errors that came."""
    precision = "bf16" if bench.capability >= (8, 0) else "fp16" if bench.cuda else "fp32"
    size = bench.size(8192)
    once, _ = product(bench, precision, size)
    bench.meter.listen()
    before = bench.meter.errors(bench.index) if not bench.meter.why else {}
    bench.warmed(once, seconds / 10)
    parts, began = [], time.monotonic()
    step = max(0.1, seconds * 0.9 / 120)
    while time.monotonic() < began + seconds * 0.85:
        parts.append(bench.timed(once, step, 1))
        if hot(bench, parts[-1]):
            break  # the hardware slows itself down: more heat would tell nothing more
    rate = 2 * size**3 / 1e12
    series = [row(bench, part, began, rate) for part in parts[:200]]
    fifth = max(1, len(parts) // 5)
    after = bench.meter.errors(bench.index) if not bench.meter.why else {}
    grown = {name: after[name] - before[name] for name in after if name in before}
    xids = bench.meter.xids()
    whole = parts[-1]
    whole.since = parts[0].since
    first, last = (sum(part.median for part in some) / len(some) for some in (parts[:fifth], parts[-fifth:]))
    bench.figure("first", rate / first, "TFLOPS", parts[fifth - 1], precision=precision)
    bench.figure("last", rate / last, "TFLOPS", whole, {"series": series, "xids": xids}, precision=precision, **grown)


def hot(bench, part):
    """Whether the hardware itself held the clocks down."""
    reasons = bench.meter.load(bench.index, part.since, part.until).get("reasons") or {}
    return any(int(bit) & (0x8 | 0x40 | 0x80) and share > 0.5 for bit, share in reasons.items())


def row(bench, part, began, rate):
    """Seconds, TFLOPS, clock, power, temperature, and the bits of the reasons."""
    load = bench.meter.load(bench.index, part.since, part.until)
    bits = sum(int(bit) for bit in load.get("reasons") or {})
    return [
        round(part.until - began, 1),
        round(rate / part.median, 2),
        *(load.get(key) for key in ("sm_mhz", "power_w", "temperature_c")),
        bits,
    ]
