#!/usr/bin/env bash
# The real thing on one rehearsal host (Debian 12). `bash tests/full.sh` runs every part, `bash tests/full.sh python opencl` those two:
#   stack    Debian's own driver, built by DKMS against a real kernel's headers, CUDA toolkit, CUPTI, Nsight Systems and Nsight Compute, nvprof,
#            the wheels of PyTorch, TensorFlow, JAX and DALI. About 10 GB of downloads the first time.
#   python   a requirements file, resolved and hashed against the package index, and installed into PyTorch's environment. About 3 GB.
#   opencl   Debian's POCL, an OpenCL driver for processors: the loader finds it, and the check does not take it for a GPU.
#   sources  the files that parts of the stack are built from: the index has them, with the hashes of the lock. Nothing is built.
#   refused  what cannot be had from Debian alone, each with its reason: containers with GPUs, TensorRT, signed modules.
# Every check that needs no GPU must pass; those that need one are unknown, so that the last verify exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."
. /etc/os-release
[ "$ID $VERSION_ID" = "debian 12" ] || { echo "this needs a Debian 12 machine, whose packages the profile names; this is $PRETTY_NAME"; exit 2; }
known="stack python opencl sources refused"
read -ra parts <<<"${*:-$known}"
for part in "${parts[@]}"; do
  grep -qw -- "$part" <<<"$known" || { echo "there is no part $part; the parts are: $known"; exit 2; }
done
interpreter=$(command -v python)
home=$(mktemp -d)
export GPUPROV_HOME=$home/state GPUPROV_SSH_CONFIG=$home/ssh_config
trap 'gpuprov rehearse stop >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
on_host() { gpuprov ssh full -- "$@"; }
expect() { # EXIT_CODE COMMAND…
  local expected=$1 code=0
  shift
  "$@" || code=$?
  [ "$code" = "$expected" ] || { echo "exit code $code instead of $expected: $*"; exit 1; }
}
host() { # the one host of all parts
  [ -n "${launched:-}" ] || gpuprov up --profile t4-train --rehearse --name full --without-gpu
  launched=1
}
variant() { # NAME SED_EXPRESSION: the profile t4-debian under another name, with lines changed
  sed -e "s/^name: .*/name: $1/" -e "$2" profiles/t4-debian.yml > "$home/$1.yml"
  echo "$home/$1.yml"
}
refusal() { # WORDS PROFILE: the lock is refused with exit code 2, these words and a hint
  local code=0 said
  said=$(gpuprov lock "$2" -o - 2>&1 >/dev/null) || code=$?
  [ "$code" = 2 ] && grep -qF "$1" <<<"$said" && grep -q '^hint: .' <<<"$said" || { echo "exit code $code, no refusal with '$1': $said"; exit 1; }
  grep '^error' <<<"$said"
}
role() { # PROFILE ROLE…: set up these roles alone. What the rest of the profile asks for may be missing, or unknown
  local code=0 words=()
  for each in "${@:2}"; do words+=(--role "$each"); done
  gpuprov apply full --profile "$1" "${words[@]}" > "$home/role.txt" 2>&1 || code=$?
  [ "$code" = 1 ] || [ "$code" = 3 ] || { cat "$home/role.txt"; echo "exit code $code"; exit 1; }
  tail -1 "$home/role.txt"
}
versions() { # LOCK: whether the environment on the host has every package of stack.python in the version of the lock
  on_host '/opt/gpuprov/venvs/pytorch/bin/python -m pip list --disable-pip-version-check --format freeze' > "$home/versions.txt"
  "$interpreter" - "$1" "$home/versions.txt" <<'PY'
import re, sys, yaml

lock, listed = (open(path).read() for path in sys.argv[1:])
here = {re.sub(r"[-_.]+", "-", name).lower(): version for name, _, version in (line.partition("==") for line in listed.split())}
pins = dict(line.split(" ")[0].split("==") for line in yaml.safe_load(lock)["python"]["wheels"])
wrong = {name: here.get(name) for name, version in pins.items() if here.get(name) != version}
print(f"{len(pins)} packages, of another version: {wrong or 'none'}")
sys.exit(bool(wrong))
PY
}

stack() {
  echo "== the exact versions of Debian's packages, from its signed indices"
  export GPUPROV_OVERLAY=$home/overlay.json
  cp profiles/t4-debian.yml "$home"
  profile=$home/t4-debian.yml
  gpuprov catalog refresh --only packages --profile "$profile"
  gpuprov lock "$profile"
  grep -E 'nvidia-smi=|nvidia-cuda-toolkit=' "$home/t4-debian.lock.yml"
  host
  echo "== the whole stack of t4-debian"
  expect 3 gpuprov apply full --profile "$profile"
  echo "== again: nothing is run"
  expect 3 gpuprov apply full --profile "$profile" --json > "$home/again.json"
  "$interpreter" - "$home/again.json" <<'PY'
import json, sys

[answer] = json.load(open(sys.argv[1]))["hosts"]
assert answer["roles"] == [], answer["roles"]
outcomes = {f["check"]: f["outcome"] for f in answer["report"]["findings"]}
on_disk = ["driver-on-disk", "counters-on-disk", "persistence-at-boot", "clocks-at-boot", "nvcc", "cupti", "profilers", "pytorch-installed",
           "tensorflow-installed", "jax-installed", "extras", "opencv", "cuda-environment", "ffmpeg", "gcc", "environment", "pynvml", "upgrades"]
assert {c: outcomes[c] for c in on_disk} == dict.fromkeys(on_disk, "pass"), outcomes
compiled = next(f["observed"] for f in answer["report"]["findings"] if f["check"] == "nvcc-runs")
assert compiled.startswith("compiled for ") and "sm_75" in compiled, compiled
print(compiled)
print(answer["report"]["summary"])
PY
  echo "== DKMS, and the version in the module itself"
  on_host 'dkms status; modinfo -F version /lib/modules/*/updates/dkms/nvidia-current.ko; apt-mark showhold'
  echo "== what sudo finds"
  on_host 'sudo nvcc --version | tail -2; sudo ncu --version | tail -1; sudo nsys --version'
  echo "== a kernel compiled with the installed nvcc for the T4, and CUPTI loaded by a program"
  on_host 'bash -lc "cat > /tmp/k.cu" && bash -lc "nvcc -arch=sm_75 -o /tmp/k /tmp/k.cu && nvcc -arch=sm_75 -ptx -o /tmp/k.ptx /tmp/k.cu && grep -m1 target /tmp/k.ptx && /tmp/k"' <<'CU'
#include <cstdio>
#include <cuda_runtime.h>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() {
  int count = -1;
  cudaError_t error = cudaGetDeviceCount(&count);
  std::printf("built; the runtime says: %s\n", cudaGetErrorString(error));
  return 0; // whatever the error: this host has no GPU
}
CU
  on_host "python3 -c 'import ctypes; v = ctypes.c_uint32(); print(\"cuptiGetVersion\", ctypes.CDLL(\"libcupti.so.11.8\").cuptiGetVersion(ctypes.byref(v)), v.value)'"
  on_host 'nsys --version; ncu --version | tail -1; /opt/gpuprov/venvs/pytorch/bin/python -c "import torch; print(torch.__version__, torch.ones(2) @ torch.ones(2))"; nvprof --version | tail -1; with-pytorch python -c "import nvidia.dali, nvtx, triton; print(\"dali\", nvidia.dali.__version__, \"triton\", triton.__version__)"; with-jax python -c "import jax; print(\"jax\", jax.__version__, jax.numpy.ones(2) @ jax.numpy.ones(2))" 2>/dev/null; /opt/gpuprov/venvs/tensorflow/bin/python -c "import tensorflow as tf; print(tf.__version__, tf.sysconfig.get_build_info()[\"cuda_version\"])" 2>/dev/null'
  echo "== after a reboot"
  before=$(on_host cat /proc/sys/kernel/random/boot_id)
  on_host 'sudo systemctl reboot' || true
  for _ in $(seq 60); do sleep 1; now=$(on_host cat /proc/sys/kernel/random/boot_id 2>/dev/null || true); [ -n "$now" ] && [ "$now" != "$before" ] && break; done
  expect 3 gpuprov verify full --profile "$profile" | tail -1
  echo "== undone"
  gpuprov undo full | tail -3
}

python() {
  local profile
  echo "== a requirements file, resolved against the index"
  printf 'einops==0.8.0\nsafetensors>=0.4\nrich\n' > "$home/requirements.txt"
  profile=$(variant own-python 's/^  ffmpeg: .*/  ffmpeg: false\n  python: {requirements: requirements.txt}/; /tensorflow:/d; /jax:/d; s/extras: .*/extras: []/')
  gpuprov lock "$profile"
  "$interpreter" - "$home/own-python.lock.yml" <<'PY'
import sys, yaml

lock = yaml.safe_load(open(sys.argv[1]))["python"]
names = {line.partition("==")[0] for line in lock["wheels"]}
assert {"einops", "safetensors", "rich", "markdown-it-py", "pygments"} <= names, names
assert lock["environment"] == "pytorch" and all(" --hash=sha256:" in line for line in lock["wheels"]), lock
print(f"{len(names)} packages with hashes, where the file names 3: {', '.join(sorted(names))}")
PY
  host
  role "$profile" pytorch python
  on_host 'with-pytorch python -c "import einops, safetensors, rich, torch; print(\"einops\", einops.__version__, \"safetensors\", safetensors.__version__, \"torch\", torch.__version__); print(einops.rearrange(torch.ones(2, 3), \"a b -> b a\").shape)"'
  echo "== another version, installed by hand, is seen and put right"
  versions "$home/own-python.lock.yml"
  on_host 'sudo /opt/gpuprov/venvs/pytorch/bin/python -m pip install --quiet --disable-pip-version-check --no-deps einops==0.8.1'
  ! versions "$home/own-python.lock.yml" || { echo "the other version was not seen"; exit 1; }
  role "$profile" pytorch python
  versions "$home/own-python.lock.yml"
}

opencl() {
  local profile
  profile=$(variant opencl-only 's/^  ffmpeg: .*/  ffmpeg: false/; /tensorflow:/d; /jax:/d; s/extras: .*/extras: [opencl]/')
  gpuprov lock "$profile"
  host
  echo "== the file that names NVIDIA's library, and beside it Debian's OpenCL driver for processors"
  role "$profile" extras
  on_host 'cat /etc/OpenCL/vendors/nvidia.icd; sudo apt-get -qq update; sudo apt-get -qq install --no-install-recommends pocl-opencl-icd ocl-icd-libopencl1 >/dev/null 2>&1; cat /etc/OpenCL/vendors/pocl.icd'
  "$interpreter" -m tests.full.opencl full "$profile" "$home"
}

sources() {
  local profile
  echo "== what OpenCV, FlashAttention and Transformer Engine are built from, and TensorRT's Python part, are at the index, with the lock's hashes"
  profile=$(variant h100-sources '/^places:/,/market:/c\places: []
s/model: t4/model: h100/; s/driver: "535".*/driver: auto/; s/cudnn: none.*/cudnn: auto/; s/pytorch: 2.5.1.*/pytorch: auto/; /tensorflow:/d; /jax:/d
s/opencv: wheel/opencv: cuda/; s/profilers: .*/profilers: [nsys, ncu]/; /application_clocks:/,+2d; s/packages: distribution/packages: nvidia/
s/extras: .*/extras: [flash-attn, transformer-engine, tensorrt]/')
  gpuprov lock "$profile"
  "$interpreter" -m tests.full.sources "$home/h100-sources.lock.yml"
}

refused() {
  echo "== what Debian's archive alone does not give"
  refusal "NVIDIA's Container Toolkit is in NVIDIA's repositories" "$(variant podman 's/^  ffmpeg: .*/  containers: podman/')"
  refusal "TensorRT is in NVIDIA's repositories and in no distribution's own" "$(variant tensorrt 's/extras: .*/extras: [tensorrt]/')"
  refusal "FlashAttention serves compute capability 8.0 and later" "$(variant flash 's/extras: .*/extras: [flash-attn]/')"
  refusal "Transformer Engine serves compute capability 8.9 and later" "$(variant engine 's/extras: .*/extras: [transformer-engine]/')"
  refusal "debian 12 has no signed kernel modules" "$(variant signed 's/^  ffmpeg: .*/  driver_build: signed/')"
}

for part in "${parts[@]}"; do "$part"; done
[ -z "${launched:-}" ] || gpuprov down full --yes
