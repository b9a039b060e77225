"""A libcuda.so.1 that does on the processor what a launch asks for, so that a CUDA program can be followed on a machine without a GPU."""

import subprocess
from pathlib import Path

__all__ = ["build_driver"]

_SOURCE = (
    "#include <string.h>\ntypedef unsigned long long u64;\n"
    "int cuInit(unsigned f) { return 0; }\nint cuDeviceGetCount(int *n) { *n = GPUS; return 0; }\n"
    "int cuDeviceGet(int *d, int i) { *d = i; return 0; }\nstatic int now;\n"
    "int cuCtxCreate_v2(void **c, unsigned f, int d) { now = d; *c = (void *)1; return 0; }\n"
    "int cuCtxDestroy_v2(void *c) { return 0; }\n"
    'int cuModuleLoadData(void **m, const char *t) { *m = (void *)1; return strstr(t, ".entry add(") ? 0 : 218; }\n'
    'int cuModuleGetFunction(void **f, void *m, const char *n) { *f = (void *)1; return strcmp(n, "add") ? 500 : 0; }\n'
    "int cuMemAlloc_v2(u64 *p, u64 n) { static u64 memory; *p = (u64)&memory; return n == 8 ? 0 : 2; }\n"
    "int cuMemsetD8_v2(u64 p, unsigned char v, u64 n) { memset((void *)p, v, n); return 0; }\n"
    "int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned s, void *q,\n"
    "                   void **arguments, void *more) {\n  if (now == FAILS) return 700;\n"
    "  u64 *there = *(u64 **)arguments[0];\n  for (u64 i = 0; i < x * bx; i++) *there += i;\n  return 0;\n}\n"
    "int cuMemcpyDtoH_v2(void *h, u64 p, u64 n) { memcpy(h, (void *)p, n); return 0; }\n"
)


def build_driver(folder: Path, *, gpus: int = 1, fails: int = -1) -> Path:
    """The library, with so many GPUs, of which one may fail at the launch."""
    source, library = folder / "driver.c", folder / "libcuda.so.1"
    source.write_text(_SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DGPUS={gpus}", f"-DFAILS={fails}", "-o", library, source], check=True)
    return library
