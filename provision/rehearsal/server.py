"""The process of the embedded clouds: each cloud's API on a loopback port of its own, and the hosts behind all of them.

    python -m provision.rehearsal.server --folder DIR [--no-hosts]

It holds an exclusive lock on its folder, sweeps what a killed predecessor left, and says that it is ready by writing `server.json`. What
the clouds hold is in memory: when this process ends, its hosts end with it, and the next start begins empty.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from werkzeug.serving import make_server

from provision import paths
from provision.errors import GpuprovError
from provision.rehearsal import EMULATIONS, leftovers, rootfs
from provision.rehearsal.base import Emulation, Environ, QuietHandler, Start, Traffic, Wsgi
from provision.rehearsal.hosts import HostPark
from provision.rehearsal.network import HostNetwork
from provision.rehearsal.packages import Packages

_OWN: Final = "/_rehearsal/"


class Controls:
    """The rehearsal's own paths, which every cloud's address answers beside the cloud's.

    Args:
        caller_address: what `caller-address` answers.
        emulations: whose settings are shown and changed.
        traffic: whose calls and faults are shown and changed.
        status: what `status` answers.
    """

    def __init__(self, caller_address: str, emulations: list[Emulation], traffic: Traffic, status: Callable[[], Any]) -> None:
        self._caller_address = caller_address
        self._settings = [emulation.settings for emulation in emulations]
        self._traffic = traffic
        self._status = status

    def in_front_of(self, api: Wsgi) -> Wsgi:
        """A cloud's API with these paths beside its own."""

        def answer(environ: Environ, start: Start) -> Iterable[bytes]:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            if environ["PATH_INFO"].startswith(_OWN):
                return self._answer(environ["PATH_INFO"].removeprefix(_OWN), environ["REQUEST_METHOD"], body, start)
            return api({**environ, "wsgi.input": io.BytesIO(body)}, start)

        return answer

    def _answer(self, path: str, method: str, body: bytes, start: Start) -> list[bytes]:
        if path == "caller-address":
            start("200 OK", [("Content-Type", "text/plain")])
            return [f"{self._caller_address}\n".encode()]
        try:
            answer = self._act(path, method, body)
        except (ValueError, TypeError, KeyError, AttributeError, re.error) as error:
            start("400 Bad Request", [("Content-Type", "text/plain")])
            return [f"{type(error).__name__}: {error}\n".encode()]
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer, default=str).encode()]

    def _act(self, path: str, method: str, body: bytes) -> Any:
        match method, path:
            case "PUT", "faults":
                self._traffic.faults.replace(json.loads(body))
            case "PUT", "settings":
                for key, value in json.loads(body).items():
                    setattr(next((s for s in self._settings if hasattr(s, key)), self._settings[0]), key, value)
            case "DELETE", "calls":
                self._traffic.calls.clear()
        answers: dict[str, Callable[[], Any]] = {
            "faults": self._traffic.faults.as_data,
            "calls": lambda: self._traffic.calls,
            "status": self._status,
            "settings": lambda: {key: value for settings in self._settings for key, value in asdict(settings).items()},
        }
        return answers[path]()


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__, prog="gpuprov-rehearsal")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--no-hosts", action="store_true")
    options = parser.parse_args()
    folder: Path = paths.private_dir(options.folder.resolve())
    try:
        with FileLock(folder / "server.lock", timeout=0):
            _serve(folder, with_hosts=not options.no_hosts)
    except Timeout:
        sys.exit(f"another process serves {folder}")
    except GpuprovError as error:
        sys.exit(f"{error.message}\n{error.detail}\nhint: {error.hint}")


def _serve(folder: Path, *, with_hosts: bool) -> None:
    state = folder / "server.json"
    state.unlink(missing_ok=True)
    clouds: dict[str, Emulation] = {}
    park, gateway = _hosts(folder, clouds) if with_hosts else (None, "127.0.0.1")
    traffic = Traffic()
    for cloud, path in EMULATIONS.items():
        _progress(f"starting the API of {cloud}")
        clouds[cloud] = _class(path)(park, traffic)

    def status() -> dict[str, Any]:
        rows = [row for emulation in clouds.values() for row in emulation.instances()]
        return {"pid": os.getpid(), "hosts": with_hosts, "gateway": gateway, "instances": rows}

    controls = Controls(gateway, list(clouds.values()), traffic, status)
    servers = {
        cloud: make_server("127.0.0.1", 0, controls.in_front_of(emulation.api), threaded=True, request_handler=QuietHandler)
        for cloud, emulation in clouds.items()
    }
    first, *others = servers.values()
    for server in others:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=first.shutdown).start())
    _tell(state, clouds, {cloud: f"http://127.0.0.1:{server.port}" for cloud, server in servers.items()})
    try:
        first.serve_forever()
    finally:
        state.unlink(missing_ok=True)
        for emulation in clouds.values():
            emulation.close()
        for server in others:
            server.shutdown()
        if park:
            park.close()


def _class(path: str) -> type[Emulation]:
    module, _, name = path.partition(":")
    emulation: type[Emulation] = getattr(importlib.import_module(module), name)
    return emulation


def _tell(state: Path, clouds: dict[str, Emulation], endpoints: dict[str, str]) -> None:
    """Write what `control.running` reads, in one step."""
    caller_address_url = f"{next(iter(endpoints.values()))}{_OWN}caller-address"
    access, environment = {}, {"GPUPROV_CALLER_ADDRESS_URL": caller_address_url}
    for cloud, emulation in clouds.items():
        access[cloud] = {**emulation.access(endpoints[cloud]), "caller_address_url": caller_address_url}
        environment |= emulation.environment(endpoints[cloud])
    fresh = state.with_suffix(".new")
    fresh.write_text(json.dumps({"pid": os.getpid(), "endpoints": endpoints, "access": access, "environment": environment}))
    fresh.replace(state)


def _hosts(folder: Path, clouds: dict[str, Emulation]) -> tuple[HostPark, str]:
    """The park, with its root file system, network and package proxies; this thread lives as long as the process.

    Args:
        folder: of the rehearsal.
        clouds: are told when a host ends by itself.

    Returns:
        The park, and the address of this machine on its network.
    """
    for leftover in leftovers.sweep(folder / "hosts"):
        _progress(f"swept from a killed rehearsal: {leftover}")
    root = rootfs.build(paths.cache_dir(), _progress)
    _progress("starting the hosts' network and package proxies")
    network = HostNetwork(folder / "hosts")
    packages = Packages(paths.cache_dir(), folder / "proxies")
    packages.start(network.gateway)

    def on_exit(instance_id: str, _how: str) -> None:
        # In threads of their own: the caller is the host's supervisor, which removing the host waits for.
        for emulation in clouds.values():
            threading.Thread(target=emulation.ended_by_itself, args=(instance_id,)).start()

    return HostPark(folder / "hosts", rootfs=root, network=network, packages=packages, on_exit=on_exit), network.gateway


def _progress(text: str) -> None:
    print(f"progress: {text}", flush=True)  # noqa: T201 - the log that the client reads


if __name__ == "__main__":
    main()
