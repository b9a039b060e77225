"""A cluster file for `ray up` on hosts that exist (https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html).

Ray's launcher turns the check of host keys off (ray/autoscaler/_private/command_runner.py, class SSHOptions). The proxy command that is
written here connects to each host by its pinned key first, and Ray's own connection goes through that, so that nobody in between can show
another host. The head connects to the workers by itself later, and does not check them.
"""

import re

from provision.engines.base import HostPool, yaml_text
from provision.errors import UsageError
from provision.host.sshconfig import alias_of


def render(pool: HostPool) -> dict[str, str]:
    """Provider `local`, with all hosts as members from the start."""
    addresses = pool.private_addresses
    data = {
        "cluster_name": pool.name,
        "max_workers": len(addresses) - 1,
        "provider": {"type": "local", "head_ip": addresses[0], "worker_ips": list(addresses[1:])},
        "auth": {
            "ssh_user": pool.common("their login", [host.ssh("User") for host in pool.hosts]),
            "ssh_private_key": pool.common("their key", [host.ssh("IdentityFile") for host in pool.hosts]),
            "ssh_proxy_command": _through(pool),
        },
    }
    note = "`ray up` copies the private key to the head, and the head does not check the host keys of the workers."
    return {"cluster.yaml": pool.header(note) + yaml_text(data)}


def _through(pool: HostPool) -> str:
    """The proxy command. It has no double quotes, because rsync, which gets it from Ray, knows no escape for them."""
    if not re.fullmatch(r"[A-Za-z0-9/._+-]+", str(pool.config)):
        msg = f"{pool.config} cannot be in the command line that Ray makes"
        raise UsageError(msg, hint="GPUPROV_HOME names another folder; use letters, digits and /._+- alone")
    cases = " ".join(f"{address}) n={alias_of(host.name)};;" for address, host in zip(pool.private_addresses, pool.hosts, strict=True))
    return f"sh -c 'case $1 in {cases} *) exit 255;; esac; exec ssh -F {pool.config} -o BatchMode=yes -W $1:$2 $n' proxy %h %p"
