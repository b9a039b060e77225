"""Packages and wheels of a lock are read back as they were written, and nothing else passes for one."""

import pytest

from provision.profile.pins import PackagePin, WheelPin

HASH = "0" * 64


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("libcudnn9-cuda-13=9.28.0.42*", "libcudnn9-cuda-13", "9.28.0.42*"),
        ("libcudnn9-cuda-13-9.28.0.42*", "libcudnn9-cuda-13", "9.28.0.42*"),
        ("cuda-toolkit-13-2", "cuda-toolkit-13-2", None),
        ("cuda-toolkit-13-2-0:13.2.2-1.el9", "cuda-toolkit-13-2", "0:13.2.2-1.el9"),
        ("nvidia-open=3:595.58.03-1", "nvidia-open", "3:595.58.03-1"),
        ("g++", "g++", None),
        ("a=1=2", "a", "1=2"),
    ],
)
def test_a_package_has_a_name_and_where_it_is_pinned_a_version(text: str, name: str, version: str | None) -> None:
    assert PackagePin.parse(text) == PackagePin(name, version)


@pytest.mark.parametrize(
    "pin", [PackagePin("libcudnn9-cuda-13", "9.28*"), PackagePin("cuda-toolkit-13-2"), PackagePin("g++", "4:12.2.0-3")]
)
def test_a_package_is_read_back_as_either_manager_takes_it(pin: PackagePin) -> None:
    assert PackagePin.parse(pin.text("apt")) == PackagePin.parse(pin.text("dnf")) == pin


def test_a_wheel_has_all_its_hashes() -> None:
    assert WheelPin.parse(f"a.b==1.0+cu13 --hash=sha256:{HASH} --hash=sha256:{'1' * 64}") == WheelPin("a.b", "1.0+cu13", (HASH, "1" * 64))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a==1",
        "a",
        "--extra-index-url http://x",
        f"a==1 --hash=sha256:{HASH} -e .",
        f"a==1 --hash=sha256:{HASH[1:]}",
        f"a==1\n --hash=sha256:{HASH}",
    ],
)
def test_a_line_that_pins_nothing_is_no_wheel(text: str) -> None:
    assert WheelPin.parse(text) is None
