"""Training of ResNet-50 in FP32, in TF32 and in mixed precision, by the same step: how much faster each is.

A batch of synthetic pictures, channels last, stochastic gradient descent with momentum. cuDNN chooses its algorithms without trying
them: to try them took 20 s on an H100, for FP32 alone.

The batch is 256 where the GPU has memory for it (24 GB on an H100), and 64 elsewhere. With 64, mixed precision on an H100 waits for the
launches of its host: 24.7 of 24.8 ms of a step, 1.13 times as fast as TF32, where 256 gives 1.57. Smaller cards are slow enough for 64.
"""

from models import resnet50

LARGE_FROM = 32 << 30  # bytes of GPU memory


def batch_of(bench):
    """How many pictures a step has."""
    if not bench.cuda:
        return 2
    return 256 if bench.torch.cuda.get_device_properties(bench.device).total_memory >= LARGE_FROM else 64


def run(bench, seconds):
    """Pictures a second of each, and the ratios."""
    torch = bench.torch
    major = bench.capability[0]
    kind = torch.bfloat16 if major >= 8 or not bench.cuda else torch.float16
    batch, side = batch_of(bench), 224 if bench.cuda else 32
    model = resnet50(torch).to(bench.device, memory_format=torch.channels_last)
    pictures = torch.randn(batch, 3, side, side, device=bench.device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device=bench.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == torch.float16)

    def step(mixed):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(bench.device.type, dtype=kind, enabled=mixed):
            loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    rates = {}
    try:
        for name in ("fp32", "tf32", "mixed"):
            if name == "tf32" and major < 8:
                continue
            torch.backends.cudnn.allow_tf32 = name == "tf32"
            torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
            for _ in range(3):
                step(name == "mixed")
            timing = bench.timed(lambda name=name: step(name == "mixed"), seconds / 4)
            rates[name] = batch / timing.median
            bench.figure("resnet50.%s" % name, rates[name], "images/s", timing, batch=batch, precision=str(kind).rpartition(".")[2])
    finally:
        torch.backends.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("highest")
    bench.figure("speed_up.fp32", rates["mixed"] / rates["fp32"], "x")
    if "tf32" in rates:
        bench.figure("speed_up.tf32", rates["mixed"] / rates["tf32"], "x")
