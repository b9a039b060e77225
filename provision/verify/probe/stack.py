"""What is installed for the GPU, and the Python environments: each is used, not only found (docs/sources/verification.md §2.9)."""

import ctypes
import glob
import importlib
import json
import os
import re
import shutil

from device import gpus, loader_cache, present, selected
from run import Unknown, asked, command, output, own_folder, read

VENVS = "/opt/gpuprov/venvs"
NVINFER = ("/usr/lib/x86_64-linux-gnu/libnvinfer.so.*", "/usr/lib64/libnvinfer.so.*")

# Each framework multiplies two matrices of ones on every GPU: the product sums to 256 ** 3.
TORCH = """
import json, torch
answer = {"version": torch.__version__, "cuda": torch.version.cuda, "arch_list": []}
if torch.version.cuda:
    answer["arch_list"] = torch._C._cuda_getArchFlags().split()  # get_arch_list() is empty where no GPU is
answer["devices"] = []
for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
    device = {}
    try:
        device["capability"] = "sm_%d%d" % torch.cuda.get_device_capability(index)
        one = torch.ones(256, 256, device="cuda:%d" % index)
        device["product"] = float((one @ one).sum().item())
    except RuntimeError as error:
        device["error"] = str(error).splitlines()[0][:200]
    answer["devices"].append(device)
answer["cudnn"] = torch.backends.cudnn.version()
print("gpuprov-json=" + json.dumps(answer))
"""

TENSORFLOW = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import tensorflow as tf
info = tf.sysconfig.get_build_info()
gpus = tf.config.list_physical_devices("GPU")
answer = {"version": tf.__version__, "cuda": info.get("cuda_version") if info.get("is_cuda_build") else None, "devices": []}
for index in range(len(gpus)):
    try:
        with tf.device("/GPU:%d" % index):
            one = tf.ones((256, 256))
            product = tf.matmul(one, one)
            answer["devices"].append({"product": float(tf.reduce_sum(product)), "device": product.device})
    except tf.errors.OpError as error:
        answer["devices"].append({"error": str(error).splitlines()[0][:200]})
print("gpuprov-json=" + json.dumps(answer))
"""


JAX = """
import json, os, sys
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import importlib.metadata
import jax, jax.numpy
try:
    cuda = importlib.metadata.version("nvidia-cuda-runtime-cu12").rpartition(".")[0]
    importlib.metadata.version("jax-cuda12-plugin")
except importlib.metadata.PackageNotFoundError:
    cuda = None
try:
    gpus = jax.devices("gpu")
except RuntimeError as error:
    gpus = []
    print(error, file=sys.stderr)
answer = {"version": jax.__version__, "cuda": cuda, "devices": []}
for gpu in gpus:
    try:
        one = jax.device_put(jax.numpy.ones((256, 256)), gpu)
        answer["devices"].append({"product": float((one @ one).sum()), "device": str(gpu)})
    except RuntimeError as error:
        answer["devices"].append({"error": str(error).splitlines()[0][:200]})
print("gpuprov-json=" + json.dumps(answer))
"""


def home_of(name):
    """The folder of an environment; that of PyTorch may be the image's own."""
    return asked("prefix").rstrip("/") if name == "pytorch" and asked("prefix") else "%s/%s" % (VENVS, name)


def in_venv(name, script, timeout_s):
    """Run a script with an environment's own python; {"found": None} where there is no such environment. `home` is its folder."""
    home = home_of(name)
    if not os.path.exists(home + "/bin/python"):
        return {"found": None, "home": home}
    return dict(run_in(home + "/bin/python", script, timeout_s), home=home)


# What frameworks write to stderr about GPUs that they cannot use, before they go on without; CUDA's own words come first.
COMPLAINTS = (
    r"Error \d+: .*|\bCUDA_ERROR_\w+.*|\bcudaError[A-Z]\w+.*",
    r"CUDA initialization: .*|failed call to cuInit.*|Cannot dlopen some GPU libraries.*|Unable to initialize backend.*",
)


def complaint(text):
    """Why a framework sees no GPU, in its own words; empty where it does not say."""
    return next((found[0][:300] for found in (re.findall(words, text) for words in COMPLAINTS) if found), "")


def run_in(python, script, timeout_s):
    """What a script answers; an error where it ends without an answer."""
    code, out, err = command([python, "-c", script], timeout_s, env=dict(selected(), **os.environ))
    lines = [line[len("gpuprov-json=") :] for line in out.splitlines() if line.startswith("gpuprov-json=")]
    if code == 0 and lines:
        found = json.loads(lines[-1])
        if found.get("devices") == []:
            found["said"] = complaint(err)
        return {"found": found}
    last = [line for line in err.strip().splitlines() if line.strip()][-1:]
    return {"found": {"error": last[0][:300] if last else "exit %d" % code}}


def extras():
    """Which packages each environment has, by their metadata, and the versions of DCGM and of TensorRT's library."""
    environments = {}
    homes = {os.path.basename(home): home for home in sorted(glob.glob(VENVS + "/*"))}
    homes.update({"pytorch": home_of("pytorch")} if asked("prefix") else {})
    for environment, home in homes.items():
        for path in sorted(glob.glob(home + "/lib/python3*/site-packages/*.dist-info")):
            name, _, version = os.path.basename(path)[: -len(".dist-info")].rpartition("-")
            environments.setdefault(environment, {})[re.sub("[-_.]+", "-", name).lower()] = version
    version = re.search(r"version:\s*(\d+(?:\.\d+)+)", output(["dcgmi", "--version"]) or "")
    dcgm = version.group(1) if version else "unreadable" if shutil.which("dcgmi") else None
    files = [re.search(r"so\.(\d+\.\d+\.\d+)$", path) for pattern in NVINFER for path in sorted(glob.glob(pattern))]
    return {"environments": environments, "dcgm": dcgm, "nvinfer": next((file.group(1) for file in files if file), None)}


def binary(name):
    """A tool of the CUDA toolkit: on PATH, or where the toolkit puts it."""
    return shutil.which(name) or next(iter(sorted(glob.glob("/usr/local/cuda/bin/" + name))), None)


def nvcc():
    """The toolkit's compiler: nvidia-smi's "CUDA Version" is the driver's maximum and says nothing of it."""
    path = binary("nvcc")
    if path is None:
        return {"found": None}
    code, out, err = command([path, "--version"], 20)
    version = re.search(r"release (\d+\.\d+)", out)
    if code or not version:
        raise Unknown("%s --version: %s" % (path, (out + err).strip()[:200]))
    link = os.path.realpath("/usr/local/cuda") if os.path.isdir("/usr/local/cuda") else ""
    return {"found": {"path": path, "version": version.group(1), "link": link}}


# Every thread adds its number: 0 + 1 + ... + 65535. The kernel also says for which architecture the code that runs was compiled.
KERNEL = """
#include <cstdio>
__global__ void add(unsigned long long *answer) {
  atomicAdd(answer, (unsigned long long)(blockIdx.x * blockDim.x + threadIdx.x));
#ifdef __CUDA_ARCH__
  answer[1] = __CUDA_ARCH__ / 10;
#endif
}
#define TRY(call) if (error == cudaSuccess) error = (call)
int main() {
  int count = 0, major = 0, minor = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) count = 0;
  std::printf("gpuprov-json={\\"error\\": \\"%s\\", \\"devices\\": [", error == cudaSuccess ? "" : cudaGetErrorName(error));
  for (int index = 0; index < count; index++) {
    unsigned long long *there = 0, here[2] = {0, 0};
    error = cudaSetDevice(index);
    TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    TRY(cudaMalloc((void **)&there, sizeof here));
    TRY(cudaMemset(there, 0, sizeof here));
    if (error == cudaSuccess) add<<<256, 256>>>(there);
    TRY(cudaGetLastError());
    TRY(cudaMemcpy(here, there, sizeof here, cudaMemcpyDeviceToHost));
    std::printf("%s{\\"capability\\": \\"sm_%d%d\\", \\"code\\": \\"sm_%llu\\", \\"sum\\": %llu, \\"error\\": \\"%s\\"}", index ? ", " : "",
                major, minor, here[1], here[0], error == cudaSuccess ? "" : cudaGetErrorName(error));
  }
  std::printf("]}\\n");
  return 0;
}
"""


def architectures():
    """The architectures of this host's GPUs, as NVML knows them; none without a GPU."""
    signs = present()
    if not (signs["pci"] or signs["nodes"] or signs["module"]):
        return []
    pynvml = importlib.import_module("pynvml")
    try:
        pynvml.nvmlInit()
        handles, lost = gpus(pynvml)  # the program runs on those that are reached
        found = {"sm_%d%d" % tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles.values()}
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise Unknown("NVML: %s" % error) from None
    if not found:
        raise Unknown("NVML reaches no device: %s" % next(iter(lost.values())) if lost else "NVML lists no device")
    return sorted(found)


def ordinary():
    """The start of a command that root runs as the user nobody; nothing where that user may not use the GPU, or this is not root."""
    open_to_all = all(mode & 0o006 == 0o006 for mode in present()["modes"].values())
    if os.geteuid() != 0 or not open_to_all or not shutil.which("setpriv"):
        return []
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]


def nvcc_runs():
    """A kernel that nvcc compiles for the GPU's own architecture, run on every GPU; without one for nvcc's first, and not run."""
    return compiled(KERNEL, lambda _: [], 40)


def compiled(text, options, compile_s, oldest=0):
    """A program that nvcc compiles for the architecture of each GPU, and its answer; `options` makes more arguments of the architectures.

    Each step is one command, so that exit codes say which of them failed. Without a GPU there is one architecture, from `oldest` on.
    """
    path = binary("nvcc")
    answer = {"step": "find", "code": 0, "said": "", "lists": [], "gpus": [], "built": [], "as_root": False, "devices": []}
    if path is None:
        return answer
    answer["gpus"], step_down = architectures(), ordinary()
    answer["as_root"] = os.geteuid() == 0 and not step_down
    with own_folder() as folder:  # its owner's alone: what is compiled there is run
        env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        env.update(selected(), TMPDIR=folder, HOME=folder)
        source, program = folder + "/add.cu", folder + "/add"
        with open(source, "w") as file:
            file.write(text)
        for owned in (source, folder) if step_down else ():
            os.chown(owned, 65534, 65534)

        def take(step, argv, timeout_s):
            answer["step"] = step
            code, out, err = command(step_down + argv, timeout_s, env=env, cwd=folder)  # nvcc looks for headers where it stands
            answer.update(code=code, said=" ".join((err + out).split())[:400] if code else "")
            return None if code else out

        out = take("list", [path, "--list-gpu-code"], 10)
        answer["lists"] = re.findall(r"^sm_\d+[a-z]?$", out or "", re.MULTILINE)
        if out is None or not answer["lists"] or not set(answer["gpus"]) <= set(answer["lists"]):
            return answer
        # Preprocessing an empty file reads the headers that refuse a compiler of the host (crt/host_config.h), and nothing of ours.
        if take("host-compiler", [path, "-E", "-x", "cu", "/dev/null", "-o", folder + "/empty"], 20) is None:
            return answer
        targets = answer["gpus"] or [name for name in answer["lists"] if int(name[3:].rstrip("af")) >= oldest][:1]
        # Machine code only: the driver could compile PTX for any later architecture.
        kinds = [word for name in targets for word in ("-gencode", "arch=compute_%s,code=%s" % (name[3:], name))]
        if take("compile", [path] + kinds + options(targets) + ["-o", program, source], compile_s) is None:
            return answer
        answer["built"] = targets
        if not answer["gpus"]:
            return answer
        try:
            out = take("run", [program], 20)
        except OSError as error:  # a temporary folder that is mounted noexec
            answer.update(code=126, said=str(error)[:400])
            return answer
    lines = [line for line in (out or "").splitlines() if line.startswith("gpuprov-json=")]
    if lines:
        answer.update(json.loads(lines[-1][len("gpuprov-json=") :]))
    return answer


def cudnn():
    """cuDNN: what the header says and what the loader gives."""
    header = None
    for folder in ("/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/cuda/include"):
        text = read(folder + "/cudnn_version.h")
        parts = [re.search(r"#define CUDNN_%s (\d+)" % part, text or "") for part in ("MAJOR", "MINOR", "PATCHLEVEL")]
        if all(parts):
            header = ".".join(part.group(1) for part in parts)
    return {"header": header, "library": dlopened(["libcudnn.so.9", "libcudnn.so.8"], "cudnnGetVersion")}


def cupti():
    """CUPTI: whether its file exists, whether the loader's cache knows it, and whether it loads and answers."""
    patterns = (
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so*",
        "/usr/local/cuda/targets/*/lib/libcupti.so*",
        "/usr/lib/x86_64-linux-gnu/libcupti.so*",
    )
    files = sorted(path for pattern in patterns for path in glob.glob(pattern))
    return {
        "files": files,
        "cached": sorted({line.split()[-1] for line in loader_cache() if "libcupti.so" in line}),
        "version": dlopened(["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"], "cuptiGetVersion"),
    }


def dlopened(names, function):
    """The version that a library answers when the loader finds it by name; None where it finds none of the names."""
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if function == "cuptiGetVersion":
            value = ctypes.c_uint32()
            return value.value if library.cuptiGetVersion(ctypes.byref(value)) == 0 else None
        library.cudnnGetVersion.restype = ctypes.c_size_t
        return library.cudnnGetVersion()
    return None


def profilers():
    """Versions of the profilers; None for one that is not there."""
    answer = {}
    for name in ("nsys", "ncu", "nvprof"):
        answer[name] = None
        places = glob.glob("/opt/nvidia/nsight-*/*/" + name) + glob.glob("/opt/nvidia/nsight-*/*/bin/" + name)
        path = binary(name) or next(iter(sorted(places)), None)
        if path:
            code, out, err = command([path, "--version"], 20)
            version = re.search(r"(\d{4}\.\d+(?:\.\d+)*|Release version \d+\.\d+)", out)
            answer[name] = version.group(1).rpartition(" ")[2] if code == 0 and version else "unreadable: " + (out + err).strip()[:100]
    return answer


def encoders():
    """Which NVENC encoders ffmpeg was built with; and, where there is a GPU, one frame encoded for real and thrown away."""
    path = shutil.which("ffmpeg")
    if path is None:
        return {"nvenc": None, "encode": None}
    _, out, _ = command([path, "-hide_banner", "-encoders"], 20)
    answer = {"nvenc": sorted(set(re.findall(r"\b\w+_nvenc\b", out))), "encode": None}
    if "h264_nvenc" in answer["nvenc"] and glob.glob("/dev/nvidia[0-9]*"):
        # Healthy encoders refuse a frame below 145 x 145 (docs/sources/verification.md §2.10).
        frame = ["-f", "lavfi", "-i", "color=black:s=256x256:r=1", "-frames:v", "1"]
        code, _, err = command([path, "-hide_banner", "-v", "error"] + frame + ["-c:v", "h264_nvenc", "-f", "null", "-"], 25)
        answer["encode"] = {"code": code, "said": " ".join(err.split())[:400]}
    return answer


FACTS = {
    "pytorch": lambda: in_venv("pytorch", TORCH, 45),
    "tensorflow": lambda: in_venv("tensorflow", TENSORFLOW, 55),
    "jax": lambda: in_venv("jax", JAX, 55),
    "extras": extras,
    "nvcc": nvcc,
    "nvcc_runs": nvcc_runs,
    "cudnn": cudnn,
    "cupti": cupti,
    "profilers": profilers,
    "encoders": encoders,
}
