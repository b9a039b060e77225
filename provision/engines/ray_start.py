"""A script that starts Ray on each host (https://docs.ray.io/en/latest/cluster/cli.html#ray-start), over gpuprov's own connections.

No key is copied and every host key is checked. Each host says how many CPUs and GPUs it has by what was observed on it.
"""

import shlex
from typing import Final

from provision.engines.base import EngineHost, HostPool
from provision.host.sshconfig import alias_of

_PORT: Final = 6379  # Ray's own default
_SCRIPT: Final = """\
# `sh ray.sh start` starts Ray on all of them, `sh ray.sh stop` ends it, `sh ray.sh status` asks the head.
# RAY is where the program lies on the hosts; whoever reaches port {port} of the head can run programs on all hosts.
set -eu
RAY=${{RAY:-ray}}
on() {{ alias=$1; shift; ssh -F {config} -o BatchMode=yes "$alias" "$@" </dev/null; }}
case "${{1:-}}" in
start)
{start}
  ;;
stop)
{stop}
  ;;
status) on {head} "$RAY status --address={address}:{port}" ;;
*) echo "usage: sh ray.sh start|stop|status" >&2; exit 2 ;;
esac
"""


def render(pool: HostPool) -> dict[str, str]:
    """The head first, then the workers; they end in the other order."""
    addresses = pool.private_addresses
    start = [_start(host, address, addresses[0]) for host, address in zip(pool.hosts, addresses, strict=True)]
    stop = [f'  on {alias_of(host.name)} "$RAY stop"' for host in reversed(pool.hosts)]
    body = _SCRIPT.format(
        port=_PORT,
        config=shlex.quote(str(pool.config)),
        start="\n".join(start),
        stop="\n".join(stop),
        head=alias_of(pool.hosts[0].name),
        address=addresses[0],
    )
    return {"ray.sh": "#!/bin/sh\n" + pool.header() + body}


def _start(host: EngineHost, address: str, head: str) -> str:
    role = f"--head --port={_PORT}" if address == head else f"--address={head}:{_PORT}"
    size = f"--num-cpus={host.machine.cpus} --num-gpus={host.gpus}"
    return f'  on {alias_of(host.name)} "$RAY start {role} --node-ip-address={address} {size} --disable-usage-stats"'
