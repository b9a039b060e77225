"""The embedded clouds' process: moto's EC2 and our GCP on loopback, in front of them the faults and the call log, behind them the hosts.

    python -m provision.rehearsal.server --folder DIR [--no-hosts]

It holds an exclusive lock on its folder, sweeps what a killed predecessor left, and says that it is ready by writing `server.json`. What
moto knows is in memory: when this process ends, its hosts end with it, and the next start begins empty.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from provision import paths
from provision.errors import GpuprovError
from provision.rehearsal import gce, hosts, iam, rootfs
from provision.rehearsal.faults import Fault, Faults, error_body, hang_up, wait
from provision.rehearsal.network import Network
from provision.rehearsal.packages import Packages

__all__ = ["main", "start_ticks"]

_LOGGED: Final = ("InstanceType", "ClientToken", "ImageId", "DryRun", "Name", "KeyName", "GroupId", "GroupName")
_OWN: Final = "/_rehearsal/"
_MAX_CALLS: Final = 10_000

Start = Callable[..., Any]
Environ = dict[str, Any]


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks after boot: with the pid it names one process and never a later one of the same pid."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


class Front:
    """WSGI in front of moto: own paths, call log, faults.

    Args:
        app: moto's application.
        caller_address: what `/_rehearsal/caller-address` answers.
        settings: `ec2.Settings` and `gce`'s, changed by `/_rehearsal/settings`.
        status: called for `/_rehearsal/status`.
        tags_of: (region, id) → tags, for the conditions of `settings.allowed`.
    """

    def __init__(
        self,
        app: Callable[[Environ, Start], Iterable[bytes]],
        caller_address: str,
        settings: Sequence[Any],
        status: Callable[[], Any],
        tags_of: iam.TagsOf,
    ) -> None:
        self._app = app
        self._caller_address = caller_address
        self._settings = settings
        self._status = status
        self._tags_of = tags_of
        self.faults = Faults()
        self.calls: list[dict[str, Any]] = []

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if environ["PATH_INFO"].startswith(_OWN):
            return self.own(environ, body, start)
        params = dict(urllib.parse.parse_qsl(body.decode("latin-1")))
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        action = params.get("Action") or target.rpartition(".")[2]
        if target:
            params = {key: value for key, value in json.loads(body or b"{}").items() if isinstance(value, str)}
        scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        region, service = scope.groups() if scope else ("", "")
        call = {"time": time.time(), "action": action, "region": region, **{k: params[k] for k in _LOGGED if k in params}}
        self.calls.append(call)
        del self.calls[:-_MAX_CALLS]
        fault = self.faults.next_for(action, region, params) or self._refused(iam.Call(service, action, region, params))
        try:
            return self._failing(fault, environ, start, json_protocol=bool(target)) if fault else self._app(environ, start)
        finally:
            call["seconds"] = time.time() - call["time"]

    def _refused(self, call: iam.Call) -> Fault | None:
        """The answer to a call that these credentials may not make, as a fault."""
        settings = self._settings[0]  # EC2's
        if call.region in settings.not_opted_in:
            words = "AWS was not able to validate the provided access credentials"
            return Fault("error", code="AuthFailure", message=words, http=401)
        said = iam.refusal(settings.allowed, call, self._tags_of) if settings.allowed is not None else ""
        if not said:
            return None
        if call.service != "ec2":
            return Fault("error", code="AccessDeniedException", message=said)
        return Fault("error", code="UnauthorizedOperation", message=f"You are not authorized to perform this operation. {said}", http=403)

    def _failing(self, fault: Fault, environ: Environ, start: Start, *, json_protocol: bool) -> Iterable[bytes]:
        wait(fault)
        if fault.kind == "delay":
            return self._app(environ, start)
        if fault.kind == "lost":
            b"".join(self._app(environ, lambda *_a, **_k: None))
        if fault.kind in {"lost", "drop"}:
            hang_up(environ["werkzeug.socket"], fault)
        kind, answer = error_body(fault, json_protocol=json_protocol)
        start(f"{502 if fault.kind == 'html' else fault.http} Fault", [("Content-Type", kind)])
        return [answer]

    def own(self, environ: Environ, body: bytes, start: Start) -> Iterable[bytes]:
        """The rehearsal's own paths; loopback only, like everything here."""
        what, method = environ["PATH_INFO"].removeprefix(_OWN), environ["REQUEST_METHOD"]
        answer: Any = None
        try:
            if what == "caller-address":
                start("200 OK", [("Content-Type", "text/plain")])
                return [f"{self._caller_address}\n".encode()]
            if what == "faults" and method == "PUT":
                self.faults.replace(json.loads(body))
            if what == "settings" and method == "PUT":
                for key, value in json.loads(body).items():
                    setattr(next((s for s in self._settings if hasattr(s, key)), self._settings[0]), key, value)
            if what == "calls" and method == "DELETE":
                self.calls.clear()
            answers: dict[str, Callable[[], Any]] = {
                "faults": self.faults.listed,
                "calls": lambda: self.calls,
                "status": self._status,
                "settings": lambda: {key: value for s in self._settings for key, value in asdict(s).items()},
            }
            answer = answers[what]()
        except (ValueError, TypeError, KeyError, AttributeError, re.error) as error:
            start("400 Bad Request", [("Content-Type", "text/plain")])
            return [f"{type(error).__name__}: {error}\n".encode()]
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer, default=str).encode()]


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__, prog="gpuprov-rehearsal")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--no-hosts", action="store_true")
    asked = parser.parse_args()
    folder: Path = paths.private_dir(asked.folder.resolve())
    try:
        with FileLock(folder / "server.lock", timeout=0):
            _serve(folder, with_hosts=not asked.no_hosts)
    except Timeout:
        sys.exit(f"another process serves {folder}")
    except GpuprovError as error:
        sys.exit(f"{error.message}\n{error.detail}\nhint: {error.hint}")


def _serve(folder: Path, *, with_hosts: bool) -> None:
    ready = folder / "server.json"
    ready.unlink(missing_ok=True)
    park = _hosts(folder) if with_hosts else None
    gateway = park[1] if park else "127.0.0.1"
    _progress("starting the EC2 API")
    # moto reads these when it is imported; without a home it would read the user's AWS configuration.
    os.environ.update(MOTO_EC2_LOAD_DEFAULT_AMIS="true", AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - 0.4 s, after the sweep and the build
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415

    from provision.rehearsal import cloudformation, ec2  # noqa: PLC0415
    from provision.rehearsal.ec2_model import tags_of  # noqa: PLC0415

    settings = ec2.Settings()
    ec2.patch(settings, park[0] if park else None)
    cloudformation.patch()
    _progress("starting the GCP API")
    gcp = gce.new_world(gce.Settings(), park[0] if park else None)
    if park:
        ended.extend([lambda instance_id: ec2.ended_by_itself(park[0], instance_id), lambda host: gce.ended_by_itself(gcp, host)])

    def status() -> dict[str, Any]:
        alive = [i for i in ec2.instances() if i.state != "terminated"]
        ours = [{"id": i.id, "state": i.state, "type": i.instance_type, "address": i.public_ip} for i in alive]
        return {"pid": os.getpid(), "hosts": with_hosts, "gateway": gateway, "instances": [*ours, *gce.shown(gcp)]}

    front = Front(DomainDispatcherApplication(create_backend_app), gateway, [settings, gcp.settings], status, tags_of)
    server = make_server("127.0.0.1", 0, front, threaded=True, request_handler=MotoRequestHandler)
    second = make_server("127.0.0.1", 0, gce.Api(gcp, front.faults, front.calls, front.own), threaded=True, request_handler=gce.Quiet)
    threading.Thread(target=second.serve_forever, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    fresh = ready.with_suffix(".new")
    endpoints = {"endpoint": f"http://127.0.0.1:{server.port}", "gcp_endpoint": f"http://127.0.0.1:{second.port}"}
    fresh.write_text(json.dumps({"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), **endpoints}))
    fresh.replace(ready)
    try:
        server.serve_forever()
    finally:
        ready.unlink(missing_ok=True)
        gcp.clock.close()
        second.shutdown()
        if park:
            park[0].close()


ended: list[Callable[[str], None]] = []
"""Who is told that a host ended by itself: known only once moto is imported, after the hosts' park is made."""


def _hosts(folder: Path) -> tuple[hosts.HostPark, str]:
    """The park, with its root file system, network and package proxies; this thread lives as long as the process."""
    for what in hosts.sweep(folder / "hosts"):
        _progress(f"swept from a killed rehearsal: {what}")
    root = rootfs.build(paths.cache_dir(), _progress)
    _progress("starting the hosts' network and package proxies")
    network = Network(folder / "hosts")
    packages = Packages(paths.cache_dir(), folder / "proxies")
    packages.start(network.gateway)

    def on_exit(instance_id: str, _how: str) -> None:
        # In a thread of its own: the caller is the host's supervisor, which removing the host waits for.
        for tell in ended:
            threading.Thread(target=tell, args=(instance_id,)).start()

    return hosts.HostPark(folder / "hosts", rootfs=root, network=network, packages=packages, on_exit=on_exit), network.gateway


def _progress(text: str) -> None:
    print(f"progress: {text}", flush=True)  # noqa: T201 - the log that the client reads


if __name__ == "__main__":
    main()
