"""Signed repositories of small packages that carry the real names: what the roles install where NVIDIA's servers cannot be reached.

A package holds what a check looks at (a module file, a unit, a command that says its version), and nothing that computes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import gzip
import hashlib
import http.server
import os
import subprocess
import threading
from email.utils import format_datetime
from pathlib import Path
from typing import ClassVar

__all__ = ["KERNEL", "Package", "Repository", "RpmRepository", "packages"]

KERNEL = "6.1.0-99-cloud-amd64"
SHELL = "#!/bin/sh\n"
# As Ubuntu ships it: active, and told to leave the mode off.
PERSISTENCED = """[Unit]
Description=NVIDIA Persistence Daemon

[Service]
Type=simple
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose

[Install]
WantedBy=multi-user.target
"""
FABRIC = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


@dataclasses.dataclass(frozen=True)
class Package:
    """One package: a name, a version, files by path; a content that begins with #! is executable."""

    name: str
    version: str
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    needs: tuple[str, ...] = ()  # of dnf alone


def packages(names: list[str], branch: str, cuda: str) -> list[Package]:
    """A package for every name, with the version that the lock asks for and the files that the checks look at."""
    home = f"usr/local/cuda-{cuda}"
    files = {
        "nvidia-open": {
            f"lib/modules/{KERNEL}/extra/nvidia.ko": "module",
            "usr/bin/nvidia-persistenced": f"{SHELL}exec sleep infinity\n",
            "usr/lib/systemd/system/nvidia-persistenced.service": PERSISTENCED,
        },
        "kernel-devel": {f"lib/modules/{KERNEL}/build/Makefile": "all:\n"},
        "kernel-open-dkms": {f"lib/modules/{KERNEL}/updates/dkms/nvidia.ko": "module"},
        "kernel-dkms": {f"lib/modules/{KERNEL}/updates/dkms/nvidia.ko": "module"},
        "linux-headers": {f"lib/modules/{KERNEL}/build/Makefile": "all:\n"},
        "nvidia-driver-cuda": {
            "usr/bin/nvidia-persistenced": f"{SHELL}exec sleep infinity\n",
            "lib/systemd/system/nvidia-persistenced.service": PERSISTENCED,
        },
        "cuda-toolkit": {
            f"{home}/bin/nvcc": f"{SHELL}case $* in *--list-gpu-code*) echo sm_70; echo sm_75; exit;; esac\n"
            f"echo 'Cuda compilation tools, release {cuda}, V{cuda}.0'\n"
        },
        "datacenter-gpu-manager-4-core": {
            "usr/bin/dcgmi": f"{SHELL}echo 'dcgmi  version: 4.5.2'\n",
            "lib/systemd/system/nvidia-dcgm.service": "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
        },
        "nvidia-fabricmanager": {"usr/lib/systemd/system/nvidia-fabricmanager.service": FABRIC},
        "nsight-systems": {f"{home}/bin/nsys": f"{SHELL}echo 'NVIDIA Nsight Systems version 2025.6.3.0'\n"},
        "nsight-compute": {f"{home}/bin/ncu": f"{SHELL}echo 'Version 2026.1.1.0'\n"},
    }
    made = []
    for asked in names:
        # apt asks for name=version*, dnf for name-version*.
        name, _, wanted = asked.partition("=") if "=" in asked else asked.rpartition("-") if asked.endswith("*") else (asked, "", "")
        version = wanted.replace("*", "-1") if wanted else f"99.{branch}.1" if "linux-headers" in name else f"{branch}.1"
        if "fabricmanager" in name:  # locked by its branch, and then installed at the driver's version without revision
            version = f"{branch}.1-1"
        own = "" if name == "nvidia-opencl-icd" else name  # its name has that of nvidia-open in it, and none of its files
        made.append(Package(name, version, {p: c for part, held in files.items() if part in own for p, c in held.items()}))
    return made


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; a path that a test put into `broken` answers as that says."""

    broken: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        for part, (status, body) in self.broken.items():
            if part in self.path:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


class _Served:
    """A folder with a signing key of its own, served on an address.

    Args:
        folder: where it is built.
        address: of the bridge that the hosts are on.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder / "repository"
        self.folder.mkdir(parents=True)
        self._gpg = folder / "gpg"
        self._gpg.mkdir(mode=0o700)
        self.fingerprint = self._key("packages of a test")
        (self.folder / "key.asc").write_bytes(self._run("gpg", "--batch", "--armor", "--export", self.fingerprint))
        self._server = http.server.ThreadingHTTPServer((address, 0), functools.partial(_Quiet, directory=str(self.folder)))
        self.url = f"http://{address}:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @staticmethod
    def breaks(broken: dict[str, tuple[int, bytes]]) -> None:
        """Answer paths that hold a text with a status and a body instead; nothing, to be whole again."""
        _Quiet.broken = broken

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._run("gpgconf", "--kill", "all")  # gpg's agent would outlive the test

    def _run(self, *argv: str) -> bytes:
        return subprocess.run(argv, check=True, capture_output=True, env={**os.environ, "GNUPGHOME": str(self._gpg)}).stdout

    def _key(self, name: str) -> str:
        self._run("gpg", "--batch", "-q", "--passphrase", "", "--quick-gen-key", name, "rsa2048", "sign", "never")
        listed = self._run("gpg", "--batch", "--with-colons", "--list-keys", name).decode()
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))

    def dearmored(self) -> bytes:
        """The public key as a keyring of apt has it."""
        return self._run("gpg", "--batch", "--export", self.fingerprint)

    def _lay_out(self, package: Package) -> Path:
        """The package's files below a folder."""
        root = self.folder.parent / "build" / package.name
        for path, content in package.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
            (root / path).chmod(0o755 if content.startswith("#!") else 0o644)
        root.mkdir(parents=True, exist_ok=True)
        return root


class Repository(_Served):
    """A flat apt repository, signed; `more` are further lines of its index."""

    more = ""

    def add(self, made: list[Package]) -> None:
        """Build the packages, and the index that lists all of them."""
        for package in made:
            root = self._lay_out(package)
            (root / "DEBIAN").mkdir(parents=True, exist_ok=True)
            (root / "DEBIAN/control").write_text(
                f"Package: {package.name}\nVersion: {package.version}\nArchitecture: amd64\nMaintainer: test <test@example.com>\n"
                "Description: a small package that carries a real name\n"
            )
            target = self.folder / f"{package.name}_{package.version.rpartition(':')[2]}_amd64.deb"
            self._run("dpkg-deb", "--build", "--root-owner-group", "-Znone", str(root), str(target))
        self._index()

    def _index(self) -> None:
        """Packages, Release and InRelease."""
        entries = []
        for deb in sorted(self.folder.glob("*.deb")):
            control = self._run("dpkg-deb", "--field", str(deb)).decode().rstrip()
            digest = hashlib.sha256(deb.read_bytes()).hexdigest()
            entries.append(f"{control}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
        listed = "\n".join(entries).encode()
        now = format_datetime(dt.datetime.now(dt.UTC), usegmt=True)
        release = f"Origin: test\nSuite: /\nDate: {now}\nArchitectures: amd64\n{self.more}SHA256:\n"
        for name, content in (("Packages", listed), ("Packages.gz", gzip.compress(listed, mtime=0))):
            (self.folder / name).write_bytes(content)
            release += f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        (self.folder / "Release").write_text(release)
        self._run("gpg", "--batch", "-q", "--yes", "--clearsign", "-o", str(self.folder / "InRelease"), str(self.folder / "Release"))


class RpmRepository(_Served):
    """A dnf repository of signed packages, with module streams."""

    def add(self, made: list[Package], streams: dict[str, list[str]]) -> None:
        """Build and sign the packages, and the index that lists all of them.

        Args:
            made: the packages.
            streams: `nvidia-driver:595-open` → the packages that are seen when it is enabled.
        """
        for package in made:
            self._build(package)
        self._run("createrepo_c", "--quiet", "--general-compress-type=gz", str(self.folder))
        documents = [self._stream(name, names) for name, names in streams.items()]
        (self.folder.parent / "modules.yaml").write_text("".join(documents))
        self._list_streams()

    def resign(self, name: str, by: str | None) -> None:
        """Sign a package anew: with a key that nobody trusts, or with the repository's own; and index it as it is now."""
        key = self._key(by) if by else self.fingerprint
        (built,) = self.folder.glob(f"{name}-[0-9]*.rpm")
        self._run("rpmsign", "--define", f"_gpg_name {key}", "--define", "__gpg /usr/bin/gpg", "--resign", str(built))
        self._run("createrepo_c", "--quiet", "--general-compress-type=gz", "--update", str(self.folder))
        self._list_streams()

    def _list_streams(self) -> None:
        """Add the streams to the index, and sign it."""
        self._run("modifyrepo_c", "--mdtype=modules", str(self.folder.parent / "modules.yaml"), str(self.folder / "repodata"))
        self.sign()

    def other_key(self) -> Path:
        """A file with the public key of somebody else."""
        path = self.folder.parent / "other.asc"
        path.write_bytes(self._run("gpg", "--batch", "--armor", "--export", self._key("a stranger")))
        return path

    def sign(self) -> None:
        """Sign the index as it is now."""
        self._run("gpg", "--batch", "-q", "--yes", "--armor", "--detach-sign", str(self.folder / "repodata/repomd.xml"))

    def _build(self, package: Package) -> None:
        root, top = self._lay_out(package), self.folder.parent / "rpmbuild"
        top.mkdir(exist_ok=True)
        version, _, release = package.version.partition("-")
        spec = top / f"{package.name}.spec"
        listed, needs = "".join(f'"/{path}"\n' for path in package.files), "".join(f"Requires: {name}\n" for name in package.needs)
        spec.write_text(
            f"Name: {package.name}\nVersion: {version}\nRelease: {release or '1'}\nSummary: a small package that carries a real name\n"
            f"License: none\nBuildArch: x86_64\nAutoReqProv: no\n{needs}%description\nSmall.\n"
            f"%install\nmkdir -p %{{buildroot}}\ncp -a {root}/. %{{buildroot}}/\n%files\n{listed}"
        )
        fixed = {"_topdir": top, "_rpmdir": self.folder, "_rpmfilename": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"}
        defined = [word for name, value in fixed.items() for word in ("--define", f"{name} {value}")]
        defined += ["--define", "__os_install_post %{nil}", "--define", "debug_package %{nil}"]
        self._run("rpmbuild", "-bb", "--quiet", *defined, str(spec))
        built = self.folder / f"{package.name}-{version}-{release or '1'}.x86_64.rpm"
        self._run("rpmsign", "--define", f"_gpg_name {self.fingerprint}", "--define", "__gpg /usr/bin/gpg", "--addsign", str(built))

    def _stream(self, named: str, names: list[str]) -> str:
        name, _, stream = named.partition(":")
        parts = [path.stem.rsplit("-", 2) for path in sorted(self.folder.glob("*.rpm"))]
        listed = [f"{package}-0:{version}-{rest}" for package, version, rest in parts if package in names]
        return (
            f"---\ndocument: modulemd\nversion: 2\ndata:\n  name: {name}\n  stream: '{stream}'\n  version: 1\n  context: c0ffee00\n"
            f"  arch: x86_64\n  summary: s\n  description: d\n  license:\n    module: [MIT]\n"
            f"  artifacts:\n    rpms: [{', '.join(listed)}]\n...\n"
        )
