"""The ids of all checks, one a line, which waivers may name.

The checks themselves belong to a later room (`provision.verify.checks`); a test holds that the two are the same.
"""

from typing import Final

_IDS: Final = """
    os
    machine
    python3
    gcc
    build-tools
    tmux
    ffmpeg
    users
    data-disk
    root-grown
    root-room
    cuda-environment
    gpu
    driver-on-disk
    driver
    secure-boot
    signed-modules
    counters-on-disk
    counters
    mig-at-boot
    mig
    persistence-at-boot
    persistence
    clocks-at-boot
    application-clocks
    clocks-held
    gpu-health
    xid
    gsp
    throttling
    device-nodes
    pcie
    nvlink
    fabric-on-disk
    fabric
    nvcc
    nvcc-runs
    cudnn
    cupti
    profilers
    pytorch-installed
    pytorch
    tensorflow-installed
    tensorflow
    jax-installed
    jax
    extras
    nvenc
    opencv
    opencv-cuda
    python-packages
    containers-installed
    containers
    ray
    cutlass
    opencl
    skew
    environment
    pynvml
    initramfs
    every-kernel
    upgrades
    egress
    gemm
    memory-bandwidth
    host-copies
    all-reduce
    data-parallel
    amp
    triton
    tensorrt
    transformer-engine
    flash-attention
    bench
"""
CHECK_IDS: Final = tuple(_IDS.split())
