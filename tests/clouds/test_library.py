"""A cloud whose library is not installed, as where `uv tool install --excludes` left it out, counts as one that is not set up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Python finds nothing of the package then, as where it was never installed.
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
GCP, AWS = ("google", "grpc", "proto"), ("boto3", "botocore")


def without(names: tuple[str, ...], program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", WITHOUT.format(names=names) + program]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "GPUPROV_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=120)


@pytest.mark.parametrize(
    ("names", "cloud", "region", "library"),
    [(GCP, "gcp", "us-central1-a", "google"), (AWS, "aws", "us-east-1", "boto")],
)
def test_it_is_not_set_up_here(tmp_path: Path, names: tuple[str, ...], cloud: str, region: str, library: str) -> None:
    program = f"""
from provision import clouds
from provision.clouds.base import NotSetUpError
try:
    clouds.connect({cloud!r}, {region!r})
except NotSetUpError as error:
    print(error.message, "|", error.hint)
"""
    done = without(names, program, tmp_path)
    assert done.stdout.startswith(library), done.stderr
    assert f"is not installed, without which gpuprov cannot ask {cloud} | install gpuprov" in done.stdout


@pytest.mark.parametrize(
    "words", [["plan", "t4-train"], ["review", "t4-train"], ["render", "t4-train", "--as", "terraform-gcp", "-o", "out"]], ids=" ".join
)
def test_what_asks_no_cloud_needs_no_library(tmp_path: Path, words: list[str]) -> None:
    done = without((*GCP, *AWS), f"from provision.cli import main\nmain({words!r})", tmp_path)
    assert done.returncode == 0, done.stderr
