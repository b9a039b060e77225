"""Operations a byte of usual layers, and what they reach: linear layers from a batch of 1 to 4096, activation, pooling, normalisation.

The roof is measured by the same recipe: a product for the arithmetic, a copy for the memory. All in half precision.
"""

BATCHES = tuple(1 << n for n in range(13))


def run(bench, seconds):
    """TFLOPS of each, with its operations a byte beside it; rotating buffers, so that the cache does not help."""
    torch = bench.torch
    kind = torch.float16 if bench.cuda else torch.float32
    inputs, outputs = bench.size(1024), bench.size(4096)
    batches = BATCHES if bench.cuda else BATCHES[:3]
    share = seconds / (len(batches) + 6)
    roof(bench, kind, share)
    width = 2 if bench.cuda else 4
    many = 2 + 2 * bench.cache // (width * inputs * outputs)
    weights = [torch.randn(outputs, inputs, dtype=kind, device=bench.device) for _ in range(many)]
    for batch in batches:
        given = [torch.randn(batch, inputs, dtype=kind, device=bench.device) for _ in range(many)]
        work = bench.graphed(lambda given=given: [torch.nn.functional.linear(each, weight) for each, weight in zip(given, weights)])  # noqa: B905
        timing = bench.timed(work, share)
        operations = 2.0 * batch * inputs * outputs
        moved = width * (batch * inputs + inputs * outputs + batch * outputs)
        say(bench, "linear.%d" % batch, timing, many, operations=operations, moved=moved)
    layers(bench, kind, width, share)


def roof(bench, kind, seconds):
    """The arithmetic and the memory that this card really has."""
    torch = bench.torch
    side = bench.size(8192)
    one, other = (torch.randn(side, side, dtype=kind, device=bench.device) for _ in range(2))
    product = bench.timed(lambda: torch.matmul(one, other), seconds)
    bench.figure("roof.arithmetic", 2 * side**3 / product.median / 1e12, "TFLOPS", product)
    big = torch.randn(bench.bytes(1 << 30) // 2, dtype=kind, device=bench.device)
    target = torch.empty_like(big)
    copied = bench.timed(lambda: target.copy_(big), seconds)
    bench.figure("roof.memory", 2 * big.nbytes / copied.median / 1e9, "GB/s", copied)


def layers(bench, kind, width, seconds):
    """Layers that do little with each number: 64 x 256 x 56 x 56 of them, eight times what the cache holds."""
    torch = bench.torch
    shape = (64, 256, 56, 56) if bench.cuda else (2, 16, 8, 8)
    given = torch.randn(shape, dtype=kind, device=bench.device)
    count, functions = given.numel(), torch.nn.functional
    weight, bias = (torch.ones(shape[1], dtype=kind, device=bench.device) for _ in range(2))
    last = shape[2:]
    # Operations a number of the input, and how many numbers are written for each that is read.
    kinds = (
        ("activation", lambda: functions.relu(given), 1, 1.0),
        ("pooling", lambda: functions.max_pool2d(given, 3, 1, 1), 9, 1.0),
        ("batch_norm", lambda: functions.batch_norm(given, None, None, weight, bias, training=True), 8, 1.0),
        ("layer_norm", lambda: functions.layer_norm(given, last), 8, 1.0),
    )
    for name, work, operations, written in kinds:
        timing = bench.timed(work, seconds)
        say(bench, name, timing, 1, operations=operations * count, moved=width * count * (1 + written))


def say(bench, name, timing, many, *, operations, moved):
    """A point of the roofline."""
    took = timing.median / many
    detail = {"intensity": round(operations / moved, 3), "gb_s": round(moved / took / 1e9, 1), "us": round(1e6 * took, 2)}
    bench.figure(name, operations / took / 1e12, "TFLOPS", timing, **detail)
