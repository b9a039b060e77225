"""What it costs when a matrix's side is not a multiple of 4, 8, 16 or 64: a product beside that of a side one larger.

The two of a pair take turns, so that clocks and heat meet both alike.
"""

MULTIPLES = (4, 8, 16, 64)
VOCABULARY = (33712, 33708)  # outputs of a language model, and the next multiple of 8


def run(bench, seconds):
    """Per cent that the multiple is faster, a call's work counted: above 0 it is."""
    torch = bench.torch
    bases = (512, 4096) if bench.cuda else (32,)
    kinds = [("fp16", torch.float16 if bench.cuda else torch.float32)]
    if bench.capability >= (8, 0):
        kinds.append(("tf32", torch.float32))
    share = seconds / (len(kinds) * len(bases) * len(MULTIPLES) + 1)
    for name, kind in kinds:
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        for base in bases:
            for multiple in MULTIPLES:
                side = base + (0 if multiple == 64 else multiple)  # a multiple of this, and of no larger one but 64
                pair(bench, "%s.%d.%d" % (name, base, multiple), kind, [(n, n, n) for n in (side, side + 1)], share)
    torch.set_float32_matmul_precision("highest")
    tokens = 4096 if bench.cuda else 8
    shapes = [(tokens, bench.size(1024), bench.size(outputs) if not bench.cuda else outputs) for outputs in VOCABULARY]
    pair(bench, "fp16.vocabulary", kinds[0][1], shapes, share)


def pair(bench, name, kind, shapes, seconds):
    """Both products in turn, each as a CUDA graph of ten."""
    torch = bench.torch
    calls = []
    for rows, inner, columns in shapes:
        one = torch.randn(rows, inner, dtype=kind, device=bench.device)
        other, out = torch.randn(inner, columns, dtype=kind, device=bench.device), None
        out = torch.empty(rows, columns, dtype=kind, device=bench.device)
        calls.append(bench.graphed(lambda one=one, other=other, out=out: [torch.matmul(one, other, out=out) for _ in range(10)]))
    took = [[], []]
    for _ in range(3):
        for which, call in enumerate(calls):
            took[which].append(bench.timed(call, seconds / 6, 1))
    rates = []
    for timings, (rows, inner, columns) in zip(took, shapes):  # noqa: B905 - the host's Python may be older than the keyword
        median = sorted(timing.median for timing in timings)[1]
        rates.append(10 * 2 * rows * inner * columns / median / 1e12)
    sides = {"side": shapes[0][2], "beside": shapes[1][2]}
    bench.figure(
        name, 100 * (rates[0] / rates[1] - 1), "%", took[0][-1], tflops=round(rates[0], 2), beside_tflops=round(rates[1], 2), **sides
    )
