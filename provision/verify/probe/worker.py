"""What one process a GPU runs in the PyTorch of the host: `perf` names the parts on its standard input, and reads the answers.

Random data throughout: zeros take less power, and so run faster than any real work (docs/sources/verification.md §2.11).
"""

from libraries import LIBRARIES

WORKER = (
    """
import json, os, signal, statistics, sys
rank, world = int(sys.argv[1]), int(sys.argv[2])
signal.alarm(int(sys.argv[3]))  # a kernel that hangs does not see the end of standard input

def say(**answer):
    print("gpuprov-json=" + json.dumps(answer), flush=True)

def timed(work, seconds):
    # Seconds of one call: as the median of the later half of blocks of about 20 ms between two events, and in the fastest block.
    def block(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000
    block(2)
    calls = max(1, int(0.02 / max(block(2) / 2, 1e-6)))
    say(part="loaded")
    took = []
    while sum(took) < seconds or len(took) < 4:
        took.append(block(calls))
    return statistics.median(took[len(took) // 2 :]) / calls, min(took) / calls

def drawn(count, seed):
    source = torch.Generator(device).manual_seed(seed)
    return torch.randint(-(2**31), 2**31 - 1, (count,), dtype=torch.int32, device=device, generator=source)

def gemm():
    major = torch.cuda.get_device_capability(device)[0]
    precision, kind = {7: ("fp16", torch.float16)}.get(major, ("bf16", torch.bfloat16) if major >= 8 else ("fp32", torch.float32))
    size, free = 8192, torch.cuda.mem_get_info(device)[0]
    while 3 * size * size * 4 > free / 2 and size > 1024:
        size //= 2
    one, other = (torch.randn(size, size, dtype=kind, device=device) for _ in range(2))
    product = torch.empty_like(one)
    took, fastest = timed(lambda: torch.matmul(one, other, out=product), 5)
    exact = one[:64].double() @ other[:, :64].double()
    off = ((product[:64, :64].double() - exact).norm() / exact.norm()).item()
    rates = {"tflops": round(2 * size**3 / fastest / 1e12, 2), "sustained_tflops": round(2 * size**3 / took / 1e12, 2)}
    return dict(rates, precision=precision, size=size, error=off if off == off else 1.0)

def memory():
    count = int(min(2 << 30, torch.cuda.mem_get_info(device)[0] // 6)) // 4
    source = drawn(count, 1)
    target = torch.empty_like(source)
    took, _ = timed(lambda: target.copy_(source), 1.5)
    return {"gb_s": round(2 * 4 * count / took / 1e9, 1), "bytes": 4 * count, "right": torch.equal(source, target)}

def copies():
    count = int(min(512 << 20, torch.cuda.mem_get_info(device)[0] // 6)) // 4
    there = drawn(count, 2)
    here = torch.empty(count, dtype=torch.int32, pin_memory=True)
    down, _ = timed(lambda: here.copy_(there, non_blocking=True), 0.4)
    back = torch.empty_like(there)
    up, _ = timed(lambda: back.copy_(here, non_blocking=True), 0.4)
    rates = {"to_device_gb_s": round(4 * count / up / 1e9, 2), "to_host_gb_s": round(4 * count / down / 1e9, 2)}
    return dict(rates, bytes=4 * count, right=torch.equal(there, back))

def all_reduce(port):
    import datetime
    import torch.distributed as group
    where = "tcp://127.0.0.1:" + port
    group.init_process_group("nccl", init_method=where, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=20))
    room = torch.tensor([torch.cuda.mem_get_info(device)[0] // 6], device=device)
    group.all_reduce(room, op=group.ReduceOp.MIN)
    count = int(min(1 << 30, room.item())) // 4
    def numbers(seed):  # whole, so that their sum is the same in any order
        return torch.empty(count, device=device).random_(0, 1000, generator=torch.Generator(device).manual_seed(seed))
    mine, expected = numbers(rank), numbers(0)
    for other in range(1, world):
        expected += numbers(other)
    group.all_reduce(mine)
    right = torch.tensor([float(torch.equal(mine, expected))], device=device)
    group.all_reduce(right, op=group.ReduceOp.MIN)
    def once():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        group.all_reduce(mine)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000
    once()
    often = torch.tensor([min(20, max(3, int(3 / once())))], device=device)
    group.broadcast(often, 0)
    took = torch.tensor([statistics.median(once() for _ in range(int(often.item())))], device=device)
    group.all_reduce(took, op=group.ReduceOp.MAX)
    rate = 4 * count / took.item() / 1e9
    version = torch.cuda.nccl.version()
    group.destroy_process_group()
    return {
        "gpus": world, "bus_gb_s": round(rate * 2 * (world - 1) / world, 2), "algorithm_gb_s": round(rate, 2), "bytes": 4 * count,
        "right": bool(right.item()), "nccl": ".".join(map(str, version)),
    }

def data_parallel():
    # The whole crew's GPUs from one process: a batch is split over them, each computes its part, and the parts are gathered.
    seen = set()
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(256, 256)
        def forward(self, batch):
            seen.add((batch.device.index, len(batch)))
            return self.linear(batch)
    layer = Layer().to(device)
    batch = torch.randn(32 * world, 256, device=device)
    exact = layer.linear(batch)
    gathered = torch.nn.DataParallel(layer, device_ids=list(range(world)))(batch)
    gathered.sum().backward()
    right = gathered.shape == exact.shape and bool(torch.allclose(gathered, exact, rtol=1e-3, atol=1e-4))
    bias = layer.linear.bias.grad  # of a sum: the number of rows, whichever GPU had them
    right = right and bias is not None and bool(torch.allclose(bias, torch.full_like(bias, 32.0 * world)))
    return {"gpus": len({index for index, _ in seen}), "right": right}

def amp():
    # A step of training in FP32, without TF32, and in mixed precision: how much faster, and whether it computes the same.
    torch.set_float32_matmul_precision("highest")
    kind = torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
    model = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)).to(device)
    batch = torch.randn(4096, 4096, device=device)
    def step(mixed):
        model.zero_grad()
        with torch.autocast("cuda", dtype=kind, enabled=mixed):
            out = model(batch)
        out.float().pow(2).mean().backward()
        return out.detach().float()
    exact, mixed = step(False), step(True)
    off = ((mixed - exact).norm() / exact.norm()).item()
    slow, fast = timed(lambda: step(False), 0.5)[0], timed(lambda: step(True), 0.5)[0]
    return {"speed_up": round(slow / fast, 2), "precision": str(kind).rpartition(".")[2], "error": off if off == off else 1.0}

def triton():
    # Compiled on this host, by its own compiler and against Python's headers, as torch.compile does it.
    import importlib.util, shutil, sysconfig, tempfile
    header = sysconfig.get_paths()["include"] + "/Python.h"
    if not os.path.exists(header):
        raise FileNotFoundError("no %s, against which Triton and torch.compile compile" % header)
    if not os.environ.get("CC") and not any(map(shutil.which, ("gcc", "clang"))):
        raise FileNotFoundError("no gcc and no clang, with which Triton and torch.compile compile")
    folder = tempfile.mkdtemp(prefix="gpuprov-")
    os.environ["TRITON_CACHE_DIR"] = folder + "/cache"
    try:
        with open(folder + "/gpuprov_kernel.py", "w") as file:  # Triton reads a kernel's source from its file
            file.write(KERNEL)
        found = importlib.util.spec_from_file_location("gpuprov_kernel", folder + "/gpuprov_kernel.py")
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        one, other = torch.arange(100000, device=device), torch.arange(100000, device=device) * 3
        return {"right": torch.equal(module.total(one, other), one + other), "version": module.triton.__version__}
    finally:
        shutil.rmtree(folder, ignore_errors=True)

KERNEL = '''
import torch, triton
import triton.language as tl

@triton.jit
def add(one, other, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(one + at, mask=inside) + tl.load(other + at, mask=inside), mask=inside)

def total(one, other):
    out = torch.empty_like(one)
    add[(triton.cdiv(len(out), 1024),)](one, other, out, len(out), BLOCK=1024)
    return out
'''
"""
    + LIBRARIES
    + """
import torch
device = torch.device("cuda", rank)
built = {"version": torch.__version__, "cuda": torch.version.cuda}
say(part="start", answer=built if built["cuda"] else {"reason": "missing", "unknown": "PyTorch is built without CUDA"})
for line in iter(sys.stdin.readline, ""):
    part, *words = line.split()
    try:
        torch.cuda.set_device(device)  # events are recorded on the current device
        parts = {"gemm": gemm, "memory": memory, "copies": copies, "all_reduce": all_reduce, "data_parallel": data_parallel}
        parts.update(amp=amp, triton=triton)
        parts.update(tensorrt=tensorrt, transformer_engine=transformer_engine, flash_attention=flash_attention)
        answer = parts[part](*words)
    except Exception as error:
        kinds = ((torch.cuda.OutOfMemoryError, "no-memory"), (FileNotFoundError, "missing"), (Exception, "failed"))
        reason = next(word for kind, word in kinds if isinstance(error, kind))
        answer = {"reason": reason, "unknown": (str(error) or repr(error)).strip().splitlines()[0][:300]}
    torch.cuda.empty_cache()
    say(part=part, answer=answer)
"""
)
