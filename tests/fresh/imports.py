"""Imports every module of gpuprov that runs on a client; run by `make fresh` with Debian's own Python."""

import importlib
from pathlib import Path

# What travels to a host imports its own modules by the names that they have there.
ON_HOSTS = {"onhost", "probe", "sampler", "sent", "recipes", "onsums", "sumworker", "__main__"}

names = [
    ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(Path("provision").rglob("*.py"))
    if not {*path.parts, path.stem} & ON_HOSTS
]
for name in names:
    importlib.import_module(name)
print(f"{len(names)} modules imported")
