"""Names that the catalog knows and refuses: each has its own sentence, and no name that a profile may have is among them."""

from typing import get_args

import pytest

from provision.catalog import read
from provision.catalog.refused import refused_name, refused_system
from provision.profile.stack import Extra


@pytest.mark.parametrize(
    ("word", "why", "instead"),
    [
        ("k80", "R470 is the last driver for it, and CUDA 11 the last toolkit", "t4"),
        ("Tesla K40m", "R470 is the last driver for Kepler", "t4"),
        ("k520", "CUDA 10 the last toolkit", "t4"),
        ("m60", "R580 is the last driver for Maxwell, CUDA 12 the last toolkit", "t4"),
        ("gh200", "Arm processor", "h200"),
        ("GB200 NVL72", "Arm processor", "b200"),
        ("GeForce GTX 1080 Ti", "license", "l4"),
        ("rtx-4090", "license", "l4"),
        ("rtx3080ti", "license", "l4"),
        ("hip", "AMD", "NVIDIA"),
        ("ROCm", "AMD", "NVIDIA"),
        ("mi300x", "AMD", "NVIDIA"),
        ("tpu-v5e", "Google's own processor", "jax"),
        ("caffe", "Caffe2 followed it", "pytorch"),
        ("caffe2", "became a part of PyTorch", "pytorch"),
        ("CNTK", "2.7 was its last main release", "pytorch"),
        ("mxnet-cu112", "retired", "jax"),
        ("torch7", "moved to PyTorch", "pytorch"),
    ],
)
def test_a_name_that_is_known_and_refused_says_why_and_what_to_take(word: str, why: str, instead: str) -> None:
    refusal = refused_name(word)
    assert refusal is not None
    assert why in refusal.why
    assert instead in refusal.instead


@pytest.mark.parametrize(
    ("name", "version", "why", "instead"),
    [
        ("ubuntu", "18.04", "ended in 2023", "22.04"),
        ("ubuntu", "20.04", "ended in 2025", "22.04"),
        ("centos", "7", "ended on 2024-06-30", "rocky 9"),
        ("CentOS", "7.9", "ended on 2024-06-30", "rocky 9"),
        ("centos", "8", "ended on 2021-12-31", "rocky 9"),
        ("debian", "11", "NVIDIA's list", "debian 12"),
        ("rocky", "8", "Python 3.6", "rocky 9"),
    ],
)
def test_a_system_that_has_ended_says_when_and_what_to_take(name: str, version: str, why: str, instead: str) -> None:
    refusal = refused_system(name, version)
    assert refusal is not None
    assert why in refusal.why
    assert instead in refusal.instead


def test_nothing_that_a_profile_may_have_is_refused_by_name() -> None:
    names = [*(gpu.model for gpu in read.gpus().gpus), *read.frameworks(), *get_args(Extra)]
    assert [name for name in names if refused_name(name)] == []
    assert [system.key for system in read.systems().systems if refused_system(system.name, system.version)] == []
    assert refused_system("centos", "70") is None


def test_what_is_named_instead_exists() -> None:
    """A suggestion that would be refused itself helps nobody."""
    systems = {system.key for system in read.systems().systems}
    for record in read.refused().systems:
        assert any(key in record.instead for key in systems), record.instead
    known = {*(gpu.model for gpu in read.gpus().gpus), *read.frameworks()}
    for entry in (*read.refused().hardware, *read.refused().software):
        words = set(entry.instead.replace(",", "").replace(";", "").split())
        assert words & known or "NVIDIA's" in words, entry.instead


def test_no_two_records_claim_one_name() -> None:
    names = [name for record in (*read.refused().hardware, *read.refused().software) for name in record.names]
    assert len(names) == len(set(names))
