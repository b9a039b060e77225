"""Where rehearsal hosts get packages: two caching proxies on the bridge, and no other way out.

apt goes through apt-cacher-ng, run by us with a configuration, cache and port of its own; pip goes through proxpi. Both run as children
that die with the embedded cloud. What they fetched stays in the cache folder, so that the second host takes it from this machine.
"""

import contextlib
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from provision.errors import RehearsalFailedError

_START_S: Final = 20
# proxpi answers when it has the whole file, and redirects a client to the origin after this long. Hosts have no way to the origin, so
# their pip waits as long: its own limit of 15 s is too short for a wheel of 60 MB over a slow line.
_DOWNLOAD_S: Final = 900
_KEPT_GB: Final = 8


class _Wheels:
    """The files of pip's proxy: a folder of its own for each rehearsal, of hard links to what all of them keep.

    Two proxpis cannot share a folder: one that starts deletes the unfinished downloads of the other, and one that makes room deletes files
    that the other is about to serve.
    """

    def __init__(self, cache: Path) -> None:
        self._kept = cache / "proxpi"
        self._lock = FileLock(cache / "proxpi.lock")
        self._kept.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._clear(cache)
            self.folder = Path(tempfile.mkdtemp(prefix="proxpi-", dir=cache))
            self._in_use = FileLock(f"{self.folder}.lock")
            self._in_use.acquire()
            for file in _files(self._kept):
                _link(file, self.folder / file.relative_to(self._kept))

    def close(self) -> None:
        """Keep what was fetched, up to a bound, and remove the folder."""
        with self._lock:
            for file in _files(self.folder):
                if file.suffix != ".proxpi-partial":
                    _link(file, self._kept / file.relative_to(self.folder))
            by_use = sorted(_files(self._kept), key=lambda file: file.stat().st_atime)
            excess = sum(file.stat().st_size for file in by_use) - _KEPT_GB * 10**9
            for file in by_use:
                if excess > 0:
                    excess -= file.stat().st_size
                    file.unlink()
            shutil.rmtree(self.folder)
            self._in_use.release()
            Path(self._in_use.lock_file).unlink(missing_ok=True)

    @staticmethod
    def _clear(cache: Path) -> None:
        """Remove the folders of rehearsals that were killed."""
        for folder in [path for path in cache.glob("proxpi-*") if path.is_dir()]:
            lock = f"{folder}.lock"
            with contextlib.suppress(Timeout), FileLock(lock, timeout=0):
                shutil.rmtree(folder)
                Path(lock).unlink()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _link(file: Path, name: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.link(file, name)


class Packages:
    """The proxies of one rehearsal, with logs and configuration in its folder; the cache is kept between rehearsals."""

    def __init__(self, cache: Path, folder: Path) -> None:
        self._cache = cache
        self._folder = folder
        self._children: list[subprocess.Popen[bytes]] = []
        self._wheels: _Wheels | None = None
        self._address = ""
        self._apt_port = self._pip_port = 0

    def start(self, address: str) -> None:
        """Start both on the bridge's address. The calling thread must live as long as the rehearsal: the children die with it."""
        self._address = address
        self._apt_port, self._pip_port = _free_ports(address)
        self._start_apt()
        self._start_pip()
        for name, port in (("apt-cacher-ng", self._apt_port), ("proxpi", self._pip_port)):
            self._wait(name, port)

    def _start_apt(self) -> None:
        configuration, cache = self._folder / "apt-cacher-ng", self._cache / "apt-cacher-ng"
        for folder in (configuration, cache):
            folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "CacheDir": cache,
            "LogDir": configuration,
            "BindAddress": self._address,
            "Port": self._apt_port,
            "SocketPath": "",  # none: the path of one has at most 107 characters, and the folder may be deep
            "PidFile": configuration / "pid",
            "ForeGround": 1,
            "ExThreshold": 30,
        }
        (configuration / "acng.conf").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
        self._spawn("apt-cacher-ng", ["apt-cacher-ng", "-c", str(configuration), "ForeGround=1"], {})

    def _start_pip(self) -> None:
        self._wheels = _Wheels(self._cache)
        upstream = _index()
        environment = {
            "PROXPI_CACHE_DIR": str(self._wheels.folder),
            "PROXPI_CACHE_SIZE": str(2 * _KEPT_GB * 10**9),  # so that it deletes nothing while a host may ask for it
            "PROXPI_DOWNLOAD_TIMEOUT": str(_DOWNLOAD_S),
            **({"PROXPI_INDEX_URL": upstream} if upstream else {}),
        }
        serve = [sys.executable, "-m", "flask", "--app", "proxpi.server", "run", "--host", self._address, "--port", str(self._pip_port)]
        self._spawn("proxpi", serve, environment)

    def _spawn(self, name: str, argv: list[str], environment: dict[str, str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
                start_new_session=True,
            )
        self._children.append(child)

    def _wait(self, name: str, port: int) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection((self._address, port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        log = self._folder / f"{name}.log"
        msg = f"the package proxy {name} did not start"
        raise RehearsalFailedError(msg, hint=f"see {log}", detail=log.read_text(errors="replace")[-1000:])

    def host_files(self) -> dict[str, str]:
        """Path in a host → content: how its apt and pip find the proxies. Empty until started."""
        if not self._address:
            return {}
        return {
            "etc/apt/apt.conf.d/01-rehearsal-proxy": f'Acquire::http::Proxy "http://{self._address}:{self._apt_port}";\n'
            'Acquire::https::Proxy "false";\n',
            "etc/pip.conf": f"[global]\nindex-url = http://{self._address}:{self._pip_port}/index/\ntrusted-host = {self._address}\n"
            f"disable-pip-version-check = true\ntimeout = {_DOWNLOAD_S}\n",
        }

    def close(self) -> None:
        """End both."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children.clear()
        if self._wheels:
            self._wheels.close()
            self._wheels = None


@functools.cache
def _index() -> str:
    """What this machine's pip is configured to use, so that hosts get packages from where this machine does; empty for its default."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _free_ports(address: str) -> tuple[int, int]:
    """Two ports that nothing listens on; below 32768, because apt-cacher-ng 3.7 reads its port as a signed short."""
    ports: list[int] = []
    for port in range(20_000, 32_768):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind((address, port))
            ports.append(port)
        if len(ports) == 2:  # noqa: PLR2004 - two proxies
            break
    return ports[0], ports[1]
