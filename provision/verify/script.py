"""The probe as one readable Python file, for a host that nobody but its own administrators may enter.

It is the probe itself, module after module as they stand in `verify/probe/`, so that what is read is what runs; only the imports among
them are left out, because they stand in one file.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from typing import Final

from provision import __version__
from provision.verify.facts import SCHEMA
from provision.verify.observe import MODULES, PROBE

__all__ = ["script"]

_HEADER: Final = '''#!/usr/bin/env python3
"""gpuprov-probe.py, of gpuprov {version}: what a GPU host is, as a facts file.

How to run it, as root or as any user who may use the GPU:

    python3 gpuprov-probe.py > facts.json

and mail facts.json back. Whoever has the profile then judges it: gpuprov verify --facts facts.json --profile NAME

What it reads:
- files of /etc, /proc, /sys, /usr, /lib, /run, /opt and /var/lib/dpkg, and which files there are below /boot and /dev
- the kernel log of this boot (journalctl, or dmesg), where this user may read it: of it the driver's complaints (NVRM: Xid) are kept,
  a line for each kind
- of the environment of this session, of a login (bash -lc env), of services (systemctl show-environment) and of /etc/environment: PATH, and
{variables}
- what these tools say of versions and settings, where they are installed:
{tools}
- what each framework below /opt/gpuprov says: it computes one small known product, and where there is NVENC ffmpeg encodes one frame
As root it steps down (setpriv) to the user nobody for the one question what an ordinary user may do, and to one member of the group
gpuprov-counters, where there is one, for what a member may do; who is not root and may use sudo without a password does the latter by it.
What it does not do: it leaves no file (ncu gets a folder in /tmp, which is removed at once), changes no setting, opens no connection, and
needs no right that the user has not.
facts.json holds no keys and no contents of anybody's files; it names the users who can log in and the members of gpuprov-counters.

It needs Python 3.7 and nothing else. The settings of the GPU are read through pynvml (NVIDIA's nvidia-ml-py, one file that may lie
beside this one); where that is missing they are unknown, with that reason, and everything else is observed all the same.
"""

from __future__ import annotations
'''

_FOOTER: Final = """
# {line}
# Run all of it.
# {line}

if __name__ == "__main__":
    # What takes longest is started first.
    told = answer({{{facts}}}, {deadline_s})
    sys.stdout.write(json.dumps(dict(told, schema="{schema}"), indent=1, sort_keys=True) + "\\n")
    sys.stdout.flush()
    os._exit(0)  # a fact that hangs must not keep the others
"""
_LINE: Final = "=" * 118
# What the probe runs beside its own table of tools; tests/verify/test_script.py finds them in it.
_TOOLS: Final = (
    *("apt-config", "apt-mark", "dcgmi", "dnf", "ldconfig", "modinfo", "ncu", "nsys", "nvcc", "nvidia-smi", "nvprof", "rpm"),
    *("systemctl", "timedatectl", "unattended-upgrade", "with-counters"),
)
_DEADLINE_S: Final = 117  # of `gpuprov probe`


def script() -> str:
    """The text of the file; the same bytes for one version of gpuprov."""
    sections = "".join(_section(name) for name in MODULES)
    with_facts = [name for name in MODULES if "\ndef facts():" in (PROBE / f"{name}.py").read_text()]
    facts = ", ".join(f"**{name}_facts()" for name in reversed(with_facts))
    footer = _FOOTER.format(line=_LINE, facts=facts, deadline_s=_DEADLINE_S, schema=SCHEMA)
    read = {"variables": _listed(_constant("system", "VARIABLES")), "tools": _listed(sorted({*_constant("system", "TOOLS"), *_TOOLS}))}
    return _HEADER.format(version=__version__, **read) + sections + footer


def _constant(module: str, name: str) -> list[str]:
    """The names that a constant of a module holds, in its order; the modules themselves run on the host, and are not imported here."""
    for node in ast.parse((PROBE / f"{module}.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return list(ast.literal_eval(node.value))
    raise KeyError(name)


def _listed(names: Sequence[str]) -> str:
    return textwrap.fill(", ".join(names), 138, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _section(name: str) -> str:
    """One module under its heading: without its imports of the others, and with its `facts` called after it."""
    text = (PROBE / f"{name}.py").read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    for node in tree.body:
        among_us = isinstance(node, ast.ImportFrom) and node.module in {*MODULES, "__future__"}
        if among_us or node is tree.body[0]:
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
        elif isinstance(node, ast.FunctionDef) and node.name == "facts":
            lines[node.lineno - 1] = f"def {name}_facts():"
    about = "".join(f"# {line}".rstrip() + "\n" for line in (ast.get_docstring(tree) or "").splitlines())
    return f"\n\n# {_LINE}\n# {name}\n#\n{about}# {_LINE}\n\n" + "\n".join(lines).strip() + "\n"
