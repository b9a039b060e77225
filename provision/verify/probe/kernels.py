"""Kernels that are not PyTorch's: a product of CUTLASS's, and a sum that OpenCL compiles and runs."""

import glob
import json
import os
import shutil
import sys

from device import selected
from run import command, output, read
from stack import VENVS, compiled, ordinary

# Half-precision input on tensor cores, added up in FP32. The numbers are whole and small, so that every sum is exact in any order.
PRODUCT = """
#include <cstdio>
#include <vector>
#include "cutlass/gemm/device/gemm.h"
#include "cutlass/version.h"
using Rows = cutlass::layout::RowMajor;
using Columns = cutlass::layout::ColumnMajor;
using Product = cutlass::gemm::device::Gemm<cutlass::half_t, Rows, cutlass::half_t, Columns, float, Rows, float,
                                            cutlass::arch::OpClassTensorOp, cutlass::arch::GPUPROV_ARCH>;
#define TRY(call) if (error == cudaSuccess) error = (call)
__global__ void built_for(int *answer) {
#ifdef __CUDA_ARCH__
  *answer = __CUDA_ARCH__ / 10;
#endif
}
int main() {
  const int m = 256, n = 128, k = 192;
  std::vector<cutlass::half_t> a(m * k), b(k * n);
  std::vector<int> one(m * k), other(k * n);
  unsigned drawn = 1;
  for (int at = 0; at < m * k; at++) a[at] = cutlass::half_t(one[at] = int((drawn = drawn * 1664525u + 1013904223u) >> 16) % 7 - 3);
  for (int at = 0; at < k * n; at++) b[at] = cutlass::half_t(other[at] = int((drawn = drawn * 1664525u + 1013904223u) >> 16) % 7 - 3);
  int count = 0, major = 0, minor = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) count = 0;
  std::printf("gpuprov-json={\\"release\\": \\"%d.%d.%d\\", \\"error\\": \\"%s\\", \\"devices\\": [", CUTLASS_MAJOR, CUTLASS_MINOR,
              CUTLASS_PATCH, error == cudaSuccess ? "" : cudaGetErrorName(error));
  for (int index = 0; index < count; index++) {
    cutlass::half_t *left = 0, *right = 0;
    float *out = 0;
    int *code = 0, here = 0, wrong = 0;
    const char *said = "";
    std::vector<float> c(m * n, -1e9f);
    error = cudaSetDevice(index);
    TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    TRY(cudaMalloc((void **)&left, a.size() * sizeof a[0]));
    TRY(cudaMalloc((void **)&right, b.size() * sizeof b[0]));
    TRY(cudaMalloc((void **)&out, c.size() * sizeof c[0]));
    TRY(cudaMalloc((void **)&code, sizeof here));
    TRY(cudaMemset(code, 0, sizeof here));
    TRY(cudaMemcpy(left, a.data(), a.size() * sizeof a[0], cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(right, b.data(), b.size() * sizeof b[0], cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(out, c.data(), c.size() * sizeof c[0], cudaMemcpyHostToDevice));
    if (error == cudaSuccess) {
      built_for<<<1, 1>>>(code);
      Product product;
      cutlass::Status status = product({{m, n, k}, {left, k}, {right, k}, {out, n}, {out, n}, {1.0f, 0.0f}});
      if (status != cutlass::Status::kSuccess) said = cutlass::cutlassGetStatusString(status);
    }
    TRY(cudaGetLastError());
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(c.data(), out, c.size() * sizeof c[0], cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(&here, code, sizeof here, cudaMemcpyDeviceToHost));
    for (int row = 0; row < m; row++)
      for (int column = 0; column < n; column++) {
        int sum = 0;
        for (int at = 0; at < k; at++) sum += one[row * k + at] * other[column * k + at];
        wrong += c[row * n + column] != float(sum);
      }
    if (error != cudaSuccess) said = cudaGetErrorName(error);
    std::printf("%s{\\"capability\\": \\"sm_%d%d\\", \\"code\\": \\"sm_%d\\", \\"sums\\": %d, \\"wrong\\": %d, \\"error\\": \\"%s\\"}",
                index ? ", " : "", major, minor, here, m * n, wrong, said);
    cudaFree(left), cudaFree(right), cudaFree(out), cudaFree(code);
  }
  std::printf("]}\\n");
  return 0;
}
"""


def tensor_cores(targets):
    """The newest of CUTLASS's plain products for tensor cores that all of these architectures run: Volta's, Turing's or Ampere's."""
    oldest = min(int(name[3:].rstrip("af")) for name in targets)
    return "Sm80" if oldest >= 80 else "Sm75" if oldest >= 75 else "Sm70"


def cutlass():
    """A product of CUTLASS's headers that nvcc compiles for the GPU's own architecture, run on every GPU; None without the headers."""
    places = sorted(glob.glob(VENVS + "/*/lib/python3*/site-packages/cutlass_library/source/include"))
    places = [place for place in places if os.path.exists(place + "/cutlass/gemm/device/gemm.h")]
    if not places:
        return {"found": None}
    # Warnings about headers that are not ours would hide what went wrong.
    own = ["-std=c++17", "-w", "--expt-relaxed-constexpr", "-I" + places[0]]
    return {"found": dict({"release": ""}, **compiled(PRODUCT, lambda targets: own + ["-DGPUPROV_ARCH=" + tensor_cores(targets)], 80, 70))}


# A sum over NVIDIA's platform, by the loader's own interface (cl.h of OpenCL 1.2, which every driver here has): each element is its number
# times four, which is exact in FP32. Constants: platform name 0x0902 and vendor 0x0903, GPU 4, device name 0x102B, build log 0x1183.
SUM = """
import ctypes, json
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulong, c_void_p

class Failed(Exception):
    pass

def ok(code, what):
    if code != 0:
        raise Failed("%s: error %d" % (what, code))

def text(function, *where):
    size = c_size_t()
    ok(function(*where, c_size_t(0), None, byref(size)), "an answer's size")
    said = ctypes.create_string_buffer(size.value)
    ok(function(*where, size, said, None), "an answer")
    return said.value.decode("utf-8", "replace").strip()

def made(function, what, *arguments):
    code = c_int()
    function.restype = c_void_p
    handle = function(*arguments, byref(code))
    ok(code.value, what)
    return c_void_p(handle)

KERNEL = b"__kernel void add(__global const float *one, __global float *out) { size_t at = get_global_id(0); out[at] = 3 * one[at] + at; }"
COUNT = 4096

def run(device):
    context = made(cl.clCreateContext, "clCreateContext", None, c_uint(1), byref(device), None, None)
    queue = made(cl.clCreateCommandQueue, "clCreateCommandQueue", context, device, c_ulong(0))
    program = made(cl.clCreateProgramWithSource, "clCreateProgramWithSource", context, c_uint(1), byref(c_char_p(KERNEL)), None)
    if cl.clBuildProgram(program, c_uint(1), byref(device), None, None, None) != 0:
        raise Failed("clBuildProgram: " + text(cl.clGetProgramBuildInfo, program, device, c_uint(0x1183))[:200])
    kernel = made(cl.clCreateKernel, "clCreateKernel", program, c_char_p(b"add"))
    here, size = (c_float * COUNT)(*range(COUNT)), c_size_t(4 * COUNT)
    one = made(cl.clCreateBuffer, "clCreateBuffer", context, c_ulong(4 | 32), size, here)
    out = made(cl.clCreateBuffer, "clCreateBuffer", context, c_ulong(2), size, None)
    for at, buffer in enumerate((one, out)):
        ok(cl.clSetKernelArg(kernel, c_uint(at), c_size_t(8), byref(buffer)), "clSetKernelArg")
    ok(cl.clEnqueueNDRangeKernel(queue, kernel, c_uint(1), None, byref(c_size_t(COUNT)), None, 0, None, None), "clEnqueueNDRangeKernel")
    back = (c_float * COUNT)(*[-1.0] * COUNT)
    ok(cl.clEnqueueReadBuffer(queue, out, c_uint(1), c_size_t(0), size, back, 0, None, None), "clEnqueueReadBuffer")
    return sum(value != 4.0 * at for at, value in enumerate(back))

answer = {"loader": False, "platforms": [], "devices": [], "error": ""}
try:
    cl = ctypes.CDLL("libOpenCL.so.1")
    answer["loader"] = True
    count = c_uint()
    code = cl.clGetPlatformIDs(0, None, byref(count))
    ok(0 if code == -1001 else code, "clGetPlatformIDs")  # the loader's own: it knows no platform
    handles = (c_void_p * count.value)()
    if count.value:
        ok(cl.clGetPlatformIDs(count, handles, None), "clGetPlatformIDs")
    for platform in map(c_void_p, handles):
        answer["platforms"].append(text(cl.clGetPlatformInfo, platform, c_uint(0x0902)))
        if "NVIDIA" not in text(cl.clGetPlatformInfo, platform, c_uint(0x0903)):
            continue
        ok(cl.clGetDeviceIDs(platform, c_ulong(4), 0, None, byref(count)), "clGetDeviceIDs")
        devices = (c_void_p * count.value)()
        ok(cl.clGetDeviceIDs(platform, c_ulong(4), count, devices, None), "clGetDeviceIDs")
        for device in map(c_void_p, devices):
            part = {"name": text(cl.clGetDeviceInfo, device, c_uint(0x102B)), "sums": COUNT, "wrong": COUNT, "error": ""}
            try:
                part["wrong"] = run(device)
            except Failed as error:
                part["error"] = str(error)
            answer["devices"].append(part)
except (Failed, OSError) as error:
    answer["error"] = str(error)[:300]
print("gpuprov-json=" + json.dumps(answer))
"""

VENDORS = "/etc/OpenCL/vendors"


def opencl():
    """The drivers that OpenCL's loader is given, NVIDIA's own library, and a kernel compiled and run on each GPU of NVIDIA's platform.

    It runs in a process of its own, as an ordinary user where it can: a driver that crashes takes nothing else along.
    """
    named = {path: (read(path, 4096) or "").strip() for path in sorted(glob.glob(VENDORS + "/*.icd"))}
    cache = output([shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin") or "ldconfig", "-p"]) or ""
    libraries = sorted({line.split()[-1] for line in cache.splitlines() if "libnvidia-opencl.so" in line})
    hidden = (
        "CUDA_VISIBLE_DEVICES",
        "OCL_ICD_VENDORS",
        "OCL_ICD_FILENAMES",
        "OPENCL_VENDOR_PATH",
    )  # what a session may have set for itself
    env = dict({name: value for name, value in os.environ.items() if name not in hidden}, **selected())
    code, out, err = command(ordinary() + [sys.executable, "-I", "-c", SUM], 25, env=env, cwd="/")
    lines = [line[len("gpuprov-json=") :] for line in out.splitlines() if line.startswith("gpuprov-json=")]
    answer = {"named": named, "libraries": libraries, "code": code, "said": " ".join(err.split())[-300:] if code else ""}
    answer["run"] = json.loads(lines[-1]) if code == 0 and lines else None
    return answer


FACTS = {"cutlass": cutlass, "opencl": opencl}
