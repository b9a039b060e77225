"""The probe as one readable Python file, for a host that only its own administrators may enter.

It is the probe itself, module after module as they stand in `verify/probe/`, so that what a person reads is what runs. Only the imports
among them are left out, because they stand in one file.
"""

import ast
import textwrap
from collections.abc import Sequence
from typing import Final

from provision import __version__
from provision.verify.facts import SCHEMA
from provision.verify.observe import MODULES, PROBE

_HEADER: Final = '''#!/usr/bin/env python3
"""gpuprov-probe.py, of gpuprov {version}: what a GPU host is, as a facts file.

How to run it, as root or as any user who may use the GPU:

    python3 gpuprov-probe.py > facts.json

and mail facts.json back. It is then judged against the profile: gpuprov verify --facts facts.json --profile NAME

What it reads:
- files of /etc, /proc, /sys, /usr, /lib, /run, /opt and /var/lib/dpkg, and which files there are below /boot and /dev
- the kernel log of this boot (journalctl, or dmesg), if this user may read it; only the driver's messages (NVRM: Xid) are kept,
  one line for each kind
- PATH and the variables below, from this session's environment, a login's (bash -lc env), that of services (systemctl show-environment),
  that of sudo (sudo -n env, which never asks for a password) and /etc/environment:
{variables}
- versions and settings, from those of these tools that are installed:
{tools}
- each framework below /opt/gpuprov: it computes one small known product; if there is NVENC, ffmpeg encodes one frame; if there is nvcc, it
  compiles a kernel of 25 lines, which is below and is run on each GPU
As root it steps down (setpriv): to the user nobody, to see what an ordinary user may do and to compile, and to a member of the group
gpuprov-counters, if it has one, to see what a member may do, and that the helper takes neither options nor variables of hers while it is
root. Another user who may use sudo without a password does the second with sudo.
It starts no container: only `gpuprov verify` does, where a profile asks for containers, with the code below.
What it does not do: it leaves no file (ncu and nvcc get a folder in /tmp, which is removed at once, also where you press Ctrl-C; the
member's, where sudo gave it to her, stays then), changes no setting, opens no connection, and needs no right beyond the user's own.
facts.json holds no keys and no contents of anybody's files; it names the users who can log in and the members of gpuprov-counters.

It needs Python 3.7 and nothing else. The settings of the GPU are read through pynvml (NVIDIA's nvidia-ml-py, one file that may lie
beside this one). Without it they are unknown, with that reason, and everything else is observed all the same.
"""
'''

_FOOTER: Final = """
# {line}
# Run all of it.
# {line}

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    observed = answer({{{facts}
    }}, {deadline_s})
    sys.stdout.write(json.dumps(dict(observed, schema="{schema}"), indent=1, sort_keys=True) + "\\n")
    sys.stdout.flush()
    leave(code=0)  # a fact that hangs must not keep the others, nor begin another command
"""
_LINE: Final = "=" * 118
# What the probe runs beside its own table of tools; tests/verify/test_script.py finds them in it.
_TOOLS: Final = (
    *("apt-config", "apt-mark", "dcgmi", "dnf", "dpkg-query", "ldconfig", "ldd", "modinfo", "ncu", "nsys", "nvcc"),
    *("nvidia-ctk", "nvidia-smi", "nvprof", "rpm"),
    *("systemctl", "timedatectl", "unattended-upgrade", "with-counters"),
)
_DEADLINE_S: Final = 117  # of `gpuprov probe`


def script() -> str:
    """The text of the file; the same bytes for one version of gpuprov."""
    sections = "".join(_section(name) for name in MODULES)
    facts = "".join(f"\n        **{name.upper()}_FACTS," for name in MODULES if f"\n{name.upper()}_FACTS = " in sections)
    footer = _FOOTER.format(line=_LINE, facts=facts, deadline_s=_DEADLINE_S, schema=SCHEMA)
    tools = sorted({*_constant("system", "TOOLS"), *_TOOLS})
    header = _HEADER.format(version=__version__, variables=_filled(_constant("surroundings", "VARIABLES")), tools=_filled(tools))
    return header + sections + footer


def _constant(module: str, name: str) -> list[str]:
    """The names that a constant of a module holds, in its order; the modules themselves run on the host, and are not imported here."""
    for node in ast.parse((PROBE / f"{module}.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return list(ast.literal_eval(node.value))
    raise KeyError(name)


def _filled(names: Sequence[str]) -> str:
    return textwrap.fill(", ".join(names), 138, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _section(name: str) -> str:
    """One module under its heading: without its imports of the others, and with its `FACTS` called after it."""
    text = (PROBE / f"{name}.py").read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    for node in tree.body:
        if node is tree.body[0] or (isinstance(node, ast.ImportFrom) and node.module in MODULES):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
        elif isinstance(node, ast.Assign) and lines[node.lineno - 1].startswith("FACTS = "):
            lines[node.lineno - 1] = f"{name.upper()}_{lines[node.lineno - 1]}"
    about = "".join(f"# {line}".rstrip() + "\n" for line in (ast.get_docstring(tree) or "").splitlines())
    return f"\n\n# {_LINE}\n# {name}\n#\n{about}# {_LINE}\n\n" + "\n".join(lines).strip() + "\n"
