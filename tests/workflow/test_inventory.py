"""How the hosts of an Ansible inventory are reached: as Ansible's own command line reaches them, or refused by host and variable."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.errors import HostKeyUnknownError, HostUnreachableError
from provision.host.ssh import Target, execute, ssh_argv
from provision.workflow import inventory
from tests.engines.proven import proven
from tests.verify.sshd import Endpoint, needed

VAULT = "$ANSIBLE_VAULT;1.1;AES256\n6231336539\n"
# What ssh makes of its arguments that says how a host is reached.
WAY = ("hostname", "user", "port", "proxyjump", "proxycommand", "hostkeyalias", "identityfile", "userknownhostsfile", "addressfamily")
KEPT: dict[str, dict[str, Any]] = {
    "plain": {},
    "address": {"ansible_host": "10.9.9.9", "ansible_port": 2222, "ansible_user": "ann"},
    "alias": {"ansible_host": "by-alias"},
    "old-names": {"ansible_ssh_host": "10.9.9.8", "ansible_ssh_port": "2223", "ansible_ssh_user": "old"},
    "both-names": {"ansible_host": "10.9.9.7", "ansible_ssh_host": "10.9.9.6", "ansible_user": "new", "ansible_ssh_user": "old"},
    "key": {"ansible_ssh_private_key_file": "~/.ssh/my key", "ansible_connection": "ssh"},
    "other-key": {"ansible_private_key_file": "/keys/a'b %d", "ansible_connection": "smart", "ansible_ssh_executable": "ssh"},
    "jump": {"ansible_ssh_extra_args": "-J ann@b:2200,c"},
    "jump-option": {"ansible_ssh_common_args": "-o ProxyJump=b -o 'HostKeyAlias some-alias' -4"},
    "order": {
        "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s -oPort=1",
        "ansible_port": 2,
        "ansible_ssh_extra_args": "-p 3",
    },
    "known": {"ansible_ssh_common_args": "-o UserKnownHostsFile='\"/some/my hosts\"' -i /keys/k -l ann"},
    "become": {"ansible_become": True, "ansible_become_user": "root", "ansible_become_password": "geheim", "ansible_ssh_pipelining": True},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a template": ({"ansible_host": "{{ inventory_hostname }}.lan"}, "ansible_host: a template"),
    "a template of Jinja's blocks": ({"ansible_port": "{% if x %}22{% endif %}"}, "ansible_port: a template"),
    "a template that would run a program": ({"ansible_user": "{{ lookup('pipe', 'touch ran') }}"}, "ansible_user: a template"),
    "an encrypted value": ({"ansible_user": VAULT}, "ansible_user: encrypted"),
    "a list": ({"ansible_host": ["a", "b"]}, "ansible_host: no line of text"),
    "a line too many": ({"ansible_host": "x\n  ProxyCommand touch ran"}, "ansible_host: no line of text"),
    "an escape": ({"ansible_ssh_common_args": "-o HostKeyAlias=\x1b[2J"}, "ansible_ssh_common_args: no line of text"),
    "a shell's words": ({"ansible_host": "$(touch ran)"}, "ansible_host: "),
    "an option as a host": ({"ansible_host": "-oProxyCommand=touch ran"}, "ansible_host: "),
    "a shell's words as a user": ({"ansible_user": "a;touch ran"}, "ansible_user: "),
    "a container": ({"ansible_connection": "community.docker.docker"}, "ansible_connection: community.docker.docker"),
    "windows": ({"ansible_connection": "winrm"}, "ansible_connection: winrm"),
    "a program instead of ssh": ({"ansible_ssh_executable": "./ssh"}, "ansible_ssh_executable: ./ssh is neither"),
    "a password": ({"ansible_password": "geheim"}, "ansible_password: a secret"),
    "an old password": ({"ansible_ssh_pass": "geheim"}, "ansible_ssh_pass: a secret"),
    "a key itself": ({"ansible_ssh_private_key": "geheim"}, "ansible_ssh_private_key: a secret"),
    "another host": ({"ansible_ssh_common_args": "bastion"}, "ansible_ssh_common_args: ['bastion']"),
    "an open quote": ({"ansible_ssh_extra_args": "-o 'x"}, "ansible_ssh_extra_args: No closing quotation"),
    "another configuration": ({"ansible_ssh_args": "-F ./evil.cfg"}, "ansible_ssh_args: option -F"),
    "a library": ({"ansible_ssh_args": "-I ./evil.so"}, "ansible_ssh_args: option -I"),
    "an open port": ({"ansible_ssh_args": "-L 1:localhost:2"}, "ansible_ssh_args: option -L"),
    **{
        f"{option} in {variable}": ({variable: f"-o {shlex.quote(f'{option}=touch ran')}"}, f"{variable}: gpuprov")
        for variable in ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
        for option in ("ProxyCommand", "LocalCommand", "PermitLocalCommand", "KnownHostsCommand", "Include", "PKCS11Provider", "Match")
    },
    **{
        f"the hop `{command}`": ({"ansible_ssh_common_args": f"-o {shlex.quote(f'ProxyCommand {command}')}"}, "ansible_ssh_common_args: ")
        for command in (
            "nc %h %p",
            "./ssh -W %h:%p b",
            "ssh b nc %h %p",
            "ssh -W other:22 b",
            "ssh -W %h:%p b; touch ran",
            "ssh -W %h:%p `touch ran`",
            "ssh -W %h:%p -i $(touch ran) b",
            "ssh -W %h:%p -F ./evil.cfg b",
            "ssh -W %h:%p -o ProxyCommand='touch ran' b",
            "ssh -W %h:%p",
        )
    },
}


def written(folder: Path, hosts: dict[str, dict[str, Any]]) -> Path:
    """An inventory with these hosts; the text of a vault is marked as one."""
    path = folder / "hosts.yml"
    text = yaml.safe_dump({"all": {"hosts": hosts}}, sort_keys=False)
    path.write_text(text.replace("ansible_user: '$ANSIBLE_VAULT", "ansible_user: !vault '$ANSIBLE_VAULT"))
    return path


def way(argv: list[str]) -> list[str]:
    """What ssh itself makes of a command line."""
    done = subprocess.run(["ssh", "-F", "/dev/null", "-G", *argv[1:]], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.replace(str(Path.home()), "~").splitlines() if line.split(" ")[0] in WAY]


def test_each_host_is_reached_as_ansible_s_own_command_line_reaches_it(tmp_path: Path) -> None:
    """Ansible runs a stand-in for ssh, which writes down its arguments."""
    path, program, said = written(tmp_path, KEPT), tmp_path / "bin" / "ssh", tmp_path / "said"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s\\0' ssh \"$@\" >>{said}\nprintf '\\n\\0' >>{said}\n")
    program.chmod(0o755)
    ansible = shutil.which("ansible", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert ansible
    subprocess.run(
        [ansible, "all", "-i", str(path), "-f", "1", "-m", "ansible.builtin.raw", "-a", "true"],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    calls = [part.strip("\0").split("\0") for part in said.read_text().split("\n\0") if part]
    theirs = [argv for argv in calls if len(argv) > 3]  # once it asks whether this ssh knows ControlPersist
    assert len(theirs) == len(KEPT)
    for target, argv in zip(inventory.targets(path), theirs, strict=True):
        assert target.refused is None
        assert way(ssh_argv(target)) == way([word for word in argv if word != "-tt"]), target.name


def test_host_keys_and_shared_connections_are_gpuprov_s_own_whatever_the_inventory_says(tmp_path: Path) -> None:
    off = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ControlMaster=auto -o ControlPath=none -A -o ForwardAgent=yes -tt"
    [target] = inventory.targets(written(tmp_path, {"a": {"ansible_ssh_common_args": off, "ansible_host_key_checking": False}}))
    assert (target.arguments, target.refused) == ((), None)
    assert "StrictHostKeyChecking=yes" in ssh_argv(target)


def test_a_host_of_this_machine_is_looked_at_without_ssh(tmp_path: Path) -> None:
    [target] = inventory.targets(written(tmp_path, {"a": {"ansible_connection": "local", "ansible_host": "10.9.9.9"}}))
    assert (target.name, target.is_local) == ("a", True)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    """A host of each kind that is refused, and one that is not, in one inventory."""
    hosts = {name: variables for name, (variables, _) in REFUSED.items()}
    return {target.name: target for target in inventory.targets(written(tmp_path_factory.mktemp("odd"), {**hosts, "well": {}}))}


@pytest.mark.parametrize(("name", "why"), [(name, why) for name, (_, why) in REFUSED.items()])
def test_what_cannot_be_kept_makes_the_one_host_unreachable_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: dict[str, Target], name: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (odd["well"].refused, odd["well"].destination) == (None, "well")
    with pytest.raises(HostUnreachableError) as caught:
        asyncio.run(execute(odd[name], "true", timeout_s=20))
    assert caught.value.message.startswith(f"{name}: {why}")
    assert not any(secret in f"{caught.value.message} {caught.value.hint}" for secret in ("geheim", "6231336539"))
    assert not (tmp_path / "ran").exists()


def test_a_name_that_is_no_host_refuses_itself_alone_and_is_none_where_ansible_host_is_there(tmp_path: Path) -> None:
    odd, named, well = inventory.targets(written(tmp_path, {"h 5": {}, "h 6": {"ansible_host": "h6"}, "well": {}}))
    assert odd.refused
    assert odd.refused.message.startswith("h 5: its name: 'h 5'")
    assert (named.name, named.destination, named.refused, well.refused) == ("h 6", "h6", None, None)


@pytest.mark.parametrize("between", ["", "  ProxyJump bastion.example\n"])
def test_what_gpuprov_exports_for_ansible_leads_to_the_same_host_by_the_same_key(own_home: Path, tmp_path: Path, between: str) -> None:
    made = proven(own_home, way=between)
    (tmp_path / "inventory.yml").write_text(made.file("ansible"))
    for target in inventory.targets(tmp_path / "inventory.yml"):
        own = made.session.target(target.name)
        said = subprocess.run(["ssh", "-F", str(own.config), "-G", own.destination], capture_output=True, text=True, check=True).stdout
        assert [line for line in said.replace(str(Path.home()), "~").splitlines() if line.split(" ")[0] in WAY] == way(ssh_argv(target))


@needed
def test_the_hop_of_an_inventory_is_gone_through_and_its_key_is_checked(tmp_path: Path) -> None:
    folder, me = tmp_path / "sshd", getpass.getuser()
    folder.mkdir()
    with contextlib.closing(Endpoint(folder)) as server:
        of_both = f"-o HostKeyAlias=lying -o UserKnownHostsFile={folder}/known_hosts -i {folder}/user -p {server.port}"

        def reached(known: Path) -> bytes:
            hop = f"ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile={known} {of_both} -W %h:%p -q {me}@127.0.0.1"
            variables = {"ansible_host": "127.0.0.1", "ansible_user": me, "ansible_ssh_common_args": f'-o ProxyCommand="{hop}" {of_both}'}
            [target] = inventory.targets(written(tmp_path, {"h1": variables}))
            return asyncio.run(execute(target, "echo here", timeout_s=20)).stdout

        assert reached(folder / "known_hosts") == b"here\n"
        assert (folder / "log").read_text().count("Accepted publickey") == 2
        with pytest.raises(HostKeyUnknownError):
            reached(tmp_path / "of_nobody")
