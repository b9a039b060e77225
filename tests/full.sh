#!/usr/bin/env bash
# The real thing on one rehearsal host (Debian 12): Debian's own driver, built by DKMS against a real kernel's headers, CUDA toolkit, CUPTI,
# Nsight Systems and Nsight Compute, nvprof, the wheels of PyTorch, TensorFlow, JAX and DALI. About 10 GB of downloads the first time.
# Every check that needs no GPU must pass; those that need one are unknown, so that the last verify exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."
. /etc/os-release
[ "$ID $VERSION_ID" = "debian 12" ] || { echo "this needs a Debian 12 machine, whose packages the profile names; this is $PRETTY_NAME"; exit 2; }
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

echo "== the exact versions of Debian's packages, from its signed indices"
export GPUPROV_OVERLAY=$home/overlay.json
cp profiles/t4-debian.yml "$home"
profile=$home/t4-debian.yml
gpuprov catalog refresh --only packages --profile "$profile"
gpuprov lock "$profile"
grep -E 'nvidia-smi=|nvidia-cuda-toolkit=' "$home/t4-debian.lock.yml"
gpuprov up --profile t4-train --rehearse --name full --without-gpu
echo "== the whole stack of t4-debian"
expect 3 gpuprov apply full --profile "$profile"
echo "== again: nothing is run"
expect 3 gpuprov apply full --profile "$profile" --json > "$home/again.json"
python - "$home/again.json" <<'PY'
import json, sys

answer = json.load(open(sys.argv[1]))
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
gpuprov down full --yes
