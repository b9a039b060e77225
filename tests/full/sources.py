"""Whether the index has what a lock builds from, and TensorRT's wheel, with the lock's hashes: `python -m tests.full.sources LOCK`."""

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

import requests
import yaml


def pins(node: Any) -> Iterator[str]:
    """Every source distribution of a lock: OpenCV's, and those below `build` of an optional component."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "source" and isinstance(value, str):
                yield value
            yield from pins(value)


def downloaded(index: str, line: str) -> str:
    """Download a source distribution, which pip would also prepare, and compare its hash."""
    match = re.fullmatch(r"([^=]+)==(\S+) --hash=sha256:(\w+)", line)
    assert match, line
    name, version, digest = match.groups()
    page = f"{index.rstrip('/')}/{name}/"
    links = [urldefrag(link).url for link in re.findall(r'href="([^"]+)"', requests.get(page, timeout=60).text)]
    end = f"-{version}.tar.gz"
    link = next(link for link in links if re.sub(r"[-_.]+", "-", link.rpartition("/")[2].removesuffix(end)) == name and link.endswith(end))
    content = requests.get(urljoin(page, link), timeout=600).content
    assert hashlib.sha256(content).hexdigest() == digest, f"{link} has another hash than the lock says"
    return f"{name} {version}: {len(content) / 1e6:.1f} MB"


def main() -> None:
    """Compare every file, from the index that pip is configured for."""
    pip = [sys.executable, "-m", "pip"]
    configured = subprocess.run([*pip, "config", "get", "global.index-url"], capture_output=True, text=True, check=False).stdout.strip()
    lock = yaml.safe_load(Path(sys.argv[1]).read_text())
    lines = sorted(set(pins(lock)))
    assert lines, "the lock builds nothing from source"
    for line in lines:
        print(downloaded(configured or "https://pypi.org/simple", line))  # noqa: T201 - asked for
    wheels = [line for line in lock["extras"]["tensorrt"]["wheels"] if line.startswith("tensorrt")]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "wheels.txt").write_text("\n".join(wheels))
        words = ["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", folder]
        subprocess.run([*pip, *words, "--requirement", f"{folder}/wheels.txt"], check=True)
        for path in Path(folder).glob("*.whl"):
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - asked for


if __name__ == "__main__":
    main()
