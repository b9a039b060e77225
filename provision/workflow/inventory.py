"""The hosts of an Ansible inventory, reached as Ansible reaches them. What gpuprov cannot keep of that makes the one host unreachable.

Nothing that an inventory says runs a program here, whoever wrote it: no template, no other configuration of ssh, no command but ssh itself.
"""

import getopt
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from provision.errors import HostUnreachableError, UsageError
from provision.host.ssh import Target
from provision.paths import playbooks_dir

_HINT: Final = "`ansible-inventory -i FILE --list` shows what Ansible makes of it"
# In the order of Ansible's command line (ansible/plugins/connection/ssh.py): of two ports or users ssh takes the first.
_VARIABLES: Final = (
    "ansible_connection ansible_ssh_executable ansible_host ansible_ssh_host ansible_ssh_args ansible_ssh_port ansible_port "
    "ansible_ssh_private_key_file ansible_private_key_file ansible_ssh_user ansible_user ansible_ssh_common_args ansible_ssh_extra_args "
    "ansible_password ansible_ssh_pass ansible_ssh_password ansible_private_key ansible_ssh_private_key ansible_ssh_pkcs11_provider"
)
_WORD: Final = re.compile(r"(?!-)[\w.:@~+/,\[\]-]{1,1000}")  # no shell obeys any of it: ssh puts these words into a proxy's command line
_OPTION: Final = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*)")
# Of ssh(1) and ssh_config(5): what says how a host is reached and runs, loads or opens nothing here; then what gpuprov decides itself.
_FLAGS: Final = "46b:B:c:i:J:l:m:o:p:"
_KEYWORDS: Final = (
    "addressfamily bindaddress certificatefile ciphers connectionattempts globalknownhostsfile gssapiauthentication hostkeyalgorithms "
    "hostkeyalias hostname identitiesonly identityagent identityfile kexalgorithms macs port preferredauthentications proxycommand "
    "proxyjump pubkeyacceptedalgorithms pubkeyacceptedkeytypes pubkeyauthentication user userknownhostsfile"
)
_OWN_FLAGS: Final = "AaCkMqTtvXxYyS:"
_OWN_KEYWORDS: Final = (
    "addkeystoagent batchmode checkhostip compression connecttimeout controlmaster controlpath controlpersist forwardagent forwardx11 "
    "hashknownhosts loglevel requesttty serveralivecountmax serveraliveinterval stricthostkeychecking tcpkeepalive updatehostkeys"
)


def targets(path: Path) -> list[Target]:
    """Each host of an inventory, once.

    Raises:
        UsageError: it is a program, or Ansible finds no host in it.
    """
    inventory, said = _read(path)
    variables: dict[str, dict[str, Any]] = inventory.get("_meta", {}).get("hostvars", {})
    groups = [group for name, group in inventory.items() if name != "_meta" and isinstance(group, dict)]
    hosts = list(dict.fromkeys(host for group in groups for host in group.get("hosts", ())))
    if not hosts:
        msg = f"Ansible finds no host in {path}"
        raise UsageError(msg, hint=_HINT, detail=said[-1000:])
    return [_target(host, variables.get(host, {})) for host in hosts]


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """The inventory as `ansible-inventory` prints it, without the ansible.cfg of a folder or of the user, and what it said beside.

    Raises:
        UsageError: it is a program. In a folder of inventories none is run either: `yaml` and `ini` are all that Ansible may use.
    """
    if path.is_file() and os.access(path, os.X_OK):
        msg = f"{path} is a program, and gpuprov runs none to learn of hosts"
        hint = f"`ansible-inventory -i {path} --list --yaml > hosts.yml` runs it; then --inventory hosts.yml. A file of text needs no `x`"
        raise UsageError(msg, hint=hint)
    program = Path(sys.executable).parent / "ansible-inventory"
    command = str(program) if program.exists() else shutil.which("ansible-inventory") or "ansible-inventory"
    try:
        result = subprocess.run(
            [command, "-i", str(path), "--list"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "ANSIBLE_CONFIG": str(playbooks_dir() / "ansible.cfg"), "ANSIBLE_INVENTORY_ENABLED": "yaml,ini"},
        )
        return dict(json.loads(result.stdout)) if result.returncode == 0 and path.exists() else {}, result.stderr.strip()
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return {}, str(error)


def _target(host: str, variables: Mapping[str, Any]) -> Target:
    name, destination, arguments = "its name", "", list[str]()
    try:
        for name in (each for each in _VARIABLES.split() if variables.get(each) is not None):
            text = _text(variables[name])
            match name.removeprefix("ansible_").removeprefix("ssh_"):
                case "connection" if text == "local":
                    return Target(host, "")
                case "connection" | "executable":
                    known = {"ssh", "smart", "ansible.builtin.ssh", shutil.which("ssh")}
                    _require(text in known, f"{text} is neither the ssh of PATH nor local")
                case "host":
                    destination = _word(text)
                case "port" | "user" as what:
                    arguments += ["-o", f"{what}={_word(text)}"]
                case "private_key_file":  # a quotation mark in it is an error of ssh's, which says so
                    arguments += ["-o", f'identityfile="{text}"']
                case "args" | "common_args" | "extra_args":
                    pairs, words = _parsed(text, _FLAGS)
                    _require(not words, f"{words} is what ssh would take for the host")
                    arguments += pairs
                case _:
                    _require(not text, "a secret, and gpuprov logs in by a key file or an agent")
        name = "its name"
        return Target(host, destination or _word(host), arguments=tuple(arguments))
    except (ValueError, getopt.GetoptError) as why:
        hint = f"write the value itself, or leave the variable out and say it under `Host {destination or host}` in ~/.ssh/config; {_HINT}"
        return Target(host, host, refused=HostUnreachableError(f"{host}: {name}: {why}", hint=hint))


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - as an assertion reads
    if not holds:
        raise ValueError(otherwise)


def _text(value: Any) -> str:
    _require(not (isinstance(value, dict) and "__ansible_vault" in value), "encrypted (!vault), and ansible-inventory decrypts nothing")
    text = str(value)
    _require(not isinstance(value, dict | list) and text.isprintable(), "no line of text")
    _require("{{" not in text and "{%" not in text, "a template, which ansible-inventory does not render")
    return text


def _word(text: str) -> str:
    _require(bool(_WORD.fullmatch(text)), f"{text!a} is where a host name, user or port belongs")
    return text


def _parsed(text: str, flags: str) -> tuple[list[str], list[str]]:
    """The arguments of ssh that say how the host is reached, and the words beside them."""
    pairs, words = getopt.gnu_getopt(shlex.split(text), flags + _OWN_FLAGS)
    return [part for flag, value in pairs if flag[1] not in _OWN_FLAGS for part in _kept(flag, value)], words


def _kept(flag: str, value: str) -> list[str]:
    """One argument; nothing where gpuprov decides it itself."""
    if flag != "-o":
        return [flag, value if flag in {"-i", "-W"} else _word(value)] if value else [flag]
    found = _OPTION.fullmatch(value)
    keyword, text = (found[1].lower(), found[2]) if found else (value, "")
    if keyword in _OWN_KEYWORDS.split() or (keyword, text) == ("userknownhostsfile", "/dev/null"):
        return []
    _require(keyword in _KEYWORDS.split(), f"gpuprov does not keep {keyword!a} of ssh")
    text = _hop(text) if keyword == "proxycommand" else text if keyword.endswith("file") else _word(text)
    return ["-o", f"{keyword}={text}"]


def _hop(command: str) -> str:
    """A ProxyCommand that is ssh to a host in between, whose key is checked too."""
    program, _, rest = command.partition(" ")
    kept, words = _parsed(rest, _FLAGS + "W:")
    to = [kept[index + 1] for index, word in enumerate(kept) if word == "-W"]
    holds = program == "ssh" and to in (["%h:%p"], ["[%h]:%p"]) and len(words) == 1 and not re.search(r"[$`]", rest)
    _require(holds, "gpuprov runs no program that an inventory names, and as a ProxyCommand `ssh -W %h:%p HOST` alone")
    return shlex.join(["ssh", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", *kept, "--", _word(words[0])])
