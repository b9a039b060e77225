"""Locks of TensorRT, Transformer Engine and FlashAttention: one version of each, what is built how, and nothing in other locks."""

import datetime as dt
from typing import Any

import pytest

from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.pins import PackagePin, WheelPin
from tests.verify import good

TODAY = dt.date(2026, 11, 21)


def asked(*extras: str, gpu: str = "h100", **changes: Any) -> Profile:
    plain: dict[str, Any] = {"gpu__model": gpu, "gpu__application_clocks": "max", "places": [], "stack__extras": list(extras)}
    return good.profile(**(plain | changes))


def locked(*extras: str, **changes: Any) -> Lock:
    return build(asked(*extras, **changes), TODAY)


@pytest.mark.parametrize(
    ("changes", "soname", "version", "wheel"),
    [
        ({}, "11", "11.3.0.99-1+cuda13.4", "tensorrt-cu13-bindings==11.3.0.99 "),
        ({"stack__cuda": "12.9"}, "10", "10.16.1.11-1+cuda12.9", "tensorrt-cu12-bindings==10.16.1.11 "),
        ({"gpu": "v100", "gpu__counters": "admin-only"}, "10", "10.4.0.26-1+cuda12.6", "tensorrt-cu12-bindings==10.4.0 "),
        ({"os": {"name": "debian", "version": "12"}}, "11", "11.3.0.99-1+cuda13.4", "tensorrt-cu13-bindings==11.3.0.99 "),
        ({"os": {"name": "rocky", "version": "9"}}, "11", "0:11.3.0.99-1.cuda13.4", "tensorrt-cu13-bindings==11.3.0.99 "),
    ],
)
def test_every_package_of_tensorrt_and_its_wheel_are_of_one_release(changes: dict[str, Any], soname: str, version: str, wheel: str) -> None:
    profilers: dict[str, Any] = {"stack__profilers": []} if changes.get("gpu") == "v100" else {}
    lock = locked("tensorrt", **changes, **profilers)
    pins = [PackagePin.parse(name) for name in lock.packages["extras"]]
    assert {pin.version for pin in pins} == {version}
    of_soname = ("libnvinfer", "libnvinfer-plugin", "libnvonnxparsers", "libnvinfer-lean", "libnvinfer-dispatch", "libnvinfer-vc-plugin")
    assert {pin.name for pin in pins} == {f"{name}{soname}" for name in of_soname} | {"libnvinfer-bin"}
    made = lock.extras["tensorrt"]
    [line] = made.wheels
    assert line.startswith(wheel)
    assert WheelPin.parse(line)
    assert version.removeprefix("0:").startswith(f"{made.version}-")
    assert (made.environment, made.unit, made.build) == ("pytorch", None, None)
    assert {"libnvinfer*", "libnvonnxparsers*", "tensorrt*"} <= set(lock.hold)


def test_what_is_built_is_a_source_its_tools_and_its_variables_each_exact() -> None:
    lock = locked("flash-attn", "transformer-engine")
    for name in ("flash-attn", "transformer-engine"):
        made = lock.extras[name].build
        assert made is not None
        assert WheelPin.parse(made.source)
        assert all(WheelPin.parse(line) for line in (*made.tools.wheels, *lock.extras[name].wheels))
        assert not any("<" in value for value in made.variables.values())
        assert made.variables["CUDA_HOME"] == lock.cuda.home
        assert made.variables["CXX"] == "/usr/bin/g++-13"
        assert made.variables["PYTHONPATH"] == "/opt/gpuprov/venvs/pytorch/lib/python3.12/site-packages"
    attention, engine = (lock.extras[name].build for name in ("flash-attn", "transformer-engine"))
    assert attention is not None
    assert engine is not None
    # Without these two their setup.py fetch a wheel that is not in the lock.
    assert attention.variables["FLASH_ATTENTION_FORCE_BUILD"] == engine.variables["NVTE_PYTORCH_FORCE_BUILD"] == "TRUE"
    assert attention.variables["FLASH_ATTN_CUDA_ARCHS"] == "90"
    assert {line.partition("==")[0] for line in lock.extras["transformer-engine"].wheels} >= {"transformer-engine-cu13", "einops"}
    assert sum(line.startswith("whether ") and "nobody built it yet" in line for line in lock.unresolved) == 2


def test_the_key_of_what_is_built_depends_on_the_card_and_on_pytorch_and_on_nothing_else() -> None:
    def key(**changes: Any) -> str:
        made = locked("flash-attn", **changes).extras["flash-attn"].build
        assert made is not None
        return made.key

    first = key()
    assert key(purpose="another", stack__tools=["git"]) == first
    assert key(gpu="a100-80gb") != first
    assert key(gpu="a100-80gb") == key(gpu="l4")  # both run what is compiled for 8.0
    assert key(stack__frameworks={"pytorch": "2.12.1"}) != first
    assert key(os={"name": "debian", "version": "12"}) != first


def test_a_lock_without_them_has_nothing_of_them() -> None:
    lock = locked("nvtx", "dcgm")
    assert all("build" not in extra for extra in lock.as_dict()["extras"].values())
    assert "libnvinfer*" not in lock.hold
