"""The process of the embedded clouds: each cloud's API on a loopback port of its own, and the hosts behind all of them.

    python -m provision.rehearsal.server --folder DIR [--no-hosts]

It holds an exclusive lock on its folder, sweeps what a killed predecessor left, and says that it is ready by writing `server.json`. What
the clouds hold is in memory: when this process ends, its hosts end with it, and the next start begins empty.
"""

import argparse
import json
import logging
import os
import pkgutil
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from werkzeug import Request, Response
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from provision import paths
from provision.errors import GpuprovError
from provision.rehearsal import EMULATIONS, leftovers, rootfs
from provision.rehearsal.base import Emulation, Environ, Start, Traffic, Wsgi, is_bearer, serving
from provision.rehearsal.control import CAUSE as _CAUSE
from provision.rehearsal.control import HINT as _HINT
from provision.rehearsal.hosts import HostPark
from provision.rehearsal.network import HostNetwork
from provision.rehearsal.packages import Packages
from provision.structs import asdict

_OWN: Final = "/_rehearsal"


def controls(caller_address: str, emulations: list[Emulation], traffic: Traffic, status: Callable[[], Any]) -> Wsgi:
    """The rehearsal's own paths, which every cloud's address answers beside the cloud's."""
    every = [emulation.settings for emulation in emulations]
    answers: dict[str, Callable[[], Any]] = {
        "/faults": traffic.faults.as_data,
        "/calls": lambda: traffic.calls,
        "/status": status,
        "/settings": lambda: {key: value for settings in every for key, value in asdict(settings).items()},
        "/images": dict,
    }
    by_cloud = dict(zip(EMULATIONS, emulations, strict=False))

    def act(request: Request) -> Response:
        try:
            match request.method, request.path:
                case "PUT", "/faults":
                    traffic.faults.replace(json.loads(request.get_data()))
                case "PUT", "/settings":
                    for key, value in json.loads(request.get_data()).items():
                        setattr(next((s for s in every if hasattr(s, key)), every[0]), key, value)
                case "PUT", "/images":
                    for given in json.loads(request.get_data()):
                        by_cloud[given["cloud"]].offer_image(given["region"], given["image"], given["login"], given["system"])
                case "DELETE", "/calls":
                    traffic.calls.clear()
            return Response(json.dumps(answers[request.path](), default=str), mimetype="application/json")
        except (ValueError, TypeError, KeyError, AttributeError, re.error) as error:
            return Response(f"{type(error).__name__}: {error}\n", 400)

    application: Wsgi = Request.application(act)
    return _for_owner(application, caller_address, traffic.secret)


def _for_owner(application: Wsgi, caller_address: str, secret: str) -> Wsgi:
    """The same application for whoever has the secret; the address is for anybody, as of the services on the Internet that say one."""

    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/caller-address":
            return Response(f"{caller_address}\n")(environ, start)
        if not is_bearer(environ, secret):
            return Response("this needs the secret of server.json\n", 401)(environ, start)
        return application(environ, start)

    return answer


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__, prog="gpuprov-rehearsal")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--no-hosts", action="store_true")
    options = parser.parse_args()
    os.umask(0o022)  # a host's system is not root's alone, as it would be with the user's 077
    folder: Path = paths.private_dir(options.folder.resolve())
    try:
        # The lock of one that was killed ends a moment after its process seems to have.
        with FileLock(folder / "server.lock", timeout=2):
            _serve(folder, with_hosts=not options.no_hosts)
    except Timeout:
        sys.exit(f"another process serves {folder}")
    except GpuprovError as error:
        sys.exit(f"{error.detail}\n{_CAUSE}{error.message}\n{_HINT}{error.hint}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.stdout or ''}\n{error.stderr or ''}\n{_CAUSE}{error}")
    except OSError as error:  # a program that is missing, a full disk
        sys.exit(f"{_CAUSE}{error}")


def _serve(folder: Path, *, with_hosts: bool) -> None:
    state = folder / "server.json"
    state.unlink(missing_ok=True)
    clouds: dict[str, Emulation] = {}
    park, gateway = _hosts(folder, clouds) if with_hosts else (None, "127.0.0.1")
    traffic = Traffic()
    for cloud, path in EMULATIONS.items():
        _progress(f"starting the API of {cloud}")
        clouds[cloud] = pkgutil.resolve_name(path)(park, traffic)

    def status() -> dict[str, Any]:
        rows = [row for emulation in clouds.values() for row in emulation.instances()]
        return {"pid": os.getpid(), "hosts": with_hosts, "gateway": gateway, "instances": rows}

    own = {_OWN: controls(gateway, list(clouds.values()), traffic, status)}
    logging.getLogger("werkzeug").disabled = True  # the calls stand in `Traffic`
    servers = {cloud: serving("127.0.0.1", DispatcherMiddleware(emulation.api, own)) for cloud, emulation in clouds.items()}
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    _tell(state, traffic.secret, clouds, {cloud: f"http://127.0.0.1:{server.port}" for cloud, server in servers.items()})
    try:
        ended.wait()
    finally:
        state.unlink(missing_ok=True)
        for emulation in clouds.values():
            emulation.close()
        for server in servers.values():
            server.shutdown()
        if park:
            park.close()


def _tell(state: Path, secret: str, clouds: dict[str, Emulation], endpoints: dict[str, str]) -> None:
    """Write what `control.running` reads, in one step, for this user alone."""
    caller_address_url = f"{next(iter(endpoints.values()))}{_OWN}/caller-address"
    access, environment = {}, {"GPUPROV_CALLER_ADDRESS_URL": caller_address_url}
    for cloud, emulation in clouds.items():
        access[cloud] = {**emulation.access(endpoints[cloud]), "caller_address_url": caller_address_url}
        environment |= emulation.environment(endpoints[cloud])
    fresh = state.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(0o600)
    data = {"pid": os.getpid(), "secret": secret, "endpoints": endpoints, "access": access, "environment": environment}
    fresh.write_text(json.dumps(data))
    fresh.replace(state)


def _hosts(folder: Path, clouds: dict[str, Emulation]) -> tuple[HostPark, str]:
    """The park, whose emulations hear of hosts that end by themselves, and this machine's address on its network.

    The calling thread must live as long as the process: the package proxies die with it.
    """
    for leftover in leftovers.sweep(folder / "hosts"):
        _progress(f"swept from a killed rehearsal: {leftover}")
    cache = paths.cache_dir()
    root = rootfs.build(cache, _progress)
    _progress("starting the hosts' network and package proxies")
    network = HostNetwork(folder / "hosts")
    packages = Packages(cache, folder / "proxies")
    packages.start(network.gateway)

    def on_exit(instance_id: str, _how: str) -> None:
        # In threads of their own: the caller is the host's supervisor, which removing the host waits for.
        for emulation in clouds.values():
            threading.Thread(target=emulation.ended_by_itself, args=(instance_id,)).start()

    park = HostPark(
        folder / "hosts",
        rootfs=root,
        el_rootfs=lambda: rootfs.build(cache, _progress, like="el"),
        network=network,
        packages=packages,
        on_exit=on_exit,
    )
    return park, network.gateway


def _progress(text: str) -> None:
    print(f"progress: {text}", flush=True)  # noqa: T201 - the log that the client reads


if __name__ == "__main__":
    main()
