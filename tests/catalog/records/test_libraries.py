"""A release that fits a part of a stack, and the architecture of a build."""

import pytest

from provision.catalog import read

NEW, MIDDLE, VOLTA = read.extras()["tensorrt"].releases


@pytest.mark.parametrize(
    ("part", "value", "fitting"),
    [
        ("capability", "7.0", [VOLTA]),
        ("capability", "6.1", []),
        ("capability", "9.0", [NEW, MIDDLE, VOLTA]),
        ("capability", "12.0", [NEW, MIDDLE]),
        ("repository", "debian12", [NEW, MIDDLE]),
        ("repository", "debian13", []),
        ("repository", "rhel10", [NEW]),
        ("cuda", "13.0", [NEW]),
        ("cuda", "12.4", [MIDDLE, VOLTA]),
        ("driver", "570", [MIDDLE, VOLTA]),
        ("driver", "580", [NEW, MIDDLE, VOLTA]),
    ],
)
def test_a_release_fits_a_part_of_a_stack(part: str, value: str, fitting: list[object]) -> None:
    assert [release for release in (NEW, MIDDLE, VOLTA) if release.runs(**{part: value})] == fitting


def test_the_libraries_carry_the_major_version_in_their_names() -> None:
    assert [release.soname for release in (NEW, MIDDLE, VOLTA)] == ["11", "10", "10"]


def test_a_build_without_architectures_takes_none_and_its_wheels_are_those_of_its_cuda() -> None:
    build = read.extras()["transformer-engine"].build
    assert build is not None
    assert build.architecture("9.0") == ""
    assert build.of_major("13.2")[0] == f"transformer-engine-cu13=={build.version}"
    assert build.of_major("12.8") == []
