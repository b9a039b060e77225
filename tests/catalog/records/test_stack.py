"""What a record of the stack can tell about itself."""

import pytest

from provision.catalog import read
from provision.catalog.records.stack import ReleaseRecord


@pytest.mark.parametrize(
    ("capability", "sass", "ptx", "runs"),
    [
        ("7.5", [70], [], True),  # compiled code runs on later minors of its major
        ("7.0", [75], [], False),
        ("8.0", [70, 75], [], False),  # and on no other major
        ("9.0", [70], [80], True),  # PTX is compiled for anything newer
        ("7.5", [], [80], False),
        ("12.0", [120], [], True),
    ],
)
def test_a_wheel_runs_where_it_has_kernels(capability: str, sass: list[int], ptx: list[int], *, runs: bool) -> None:
    python = read.pytorch()[0].python
    release = ReleaseRecord("1.0", "default", "12.8", None, sass, ptx, python, "torch-wheels")
    assert release.runs_on(capability) is runs


def test_an_extra_has_one_entry_for_each_major_of_cuda_or_one_for_any() -> None:
    extra = read.extras()["dali"]
    assert extra.of_major({"12": "a", "13": "b"}, "13.2") == "b"
    assert extra.of_major({"any": "c"}, "12.8") == "c"
    assert extra.of_major({"12": "a"}, "11.8") is None


def test_the_key_of_a_system_is_name_and_version() -> None:
    assert {s.key for s in read.systems().systems} >= {"ubuntu 24.04", "debian 12", "rocky 9"}
    assert {t.major for t in read.toolkits().toolkits} == {11, 12, 13}
