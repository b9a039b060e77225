"""`google.cloud.compute_v1` without its package's `__init__`, which imports 130 services where we speak to ten.

What stands in its place finds a name when it is asked for, and runs the package's own `__init__` for one that it cannot find. Types and two
clients are half the time of the whole; not collecting garbage meanwhile, and never what was made then, saves as much again at the exit.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import re
import sys
import threading
from types import ModuleType
from typing import Any, Final

_PACKAGE: Final = "google.cloud.compute_v1"
importing: Final = threading.RLock()
"""Held while anything of Google's is imported: two threads that come to `requests` from two sides stop each other with a deadlock error."""


def compute() -> ModuleType:
    """The package, loaded as far as it has been asked for."""
    with importing:
        if _PACKAGE in sys.modules:
            return sys.modules[_PACKAGE]
        spec = importlib.util.find_spec(_PACKAGE)
        if spec is None or spec.loader is None or not spec.submodule_search_locations:
            return importlib.import_module(_PACKAGE)
        module, run = importlib.util.module_from_spec(spec), spec.loader.exec_module

        def find(name: str) -> Any:
            if not name[0].isupper():  # `from package import submodule` looks here before it imports
                raise AttributeError(name)
            service = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix("Client")).lower()
            gc.disable()
            try:
                with importing:
                    home = importlib.import_module(f"{_PACKAGE}.services.{service}" if name.endswith("Client") else f"{_PACKAGE}.types")
                return module.__dict__.setdefault(name, getattr(home, name))
            except (ImportError, AttributeError):
                module.__dict__.pop("__getattr__", None)  # another layout than the one we know
                run(module)
                return getattr(module, name)
            finally:
                gc.enable()
                gc.freeze()

        module.__dict__["__getattr__"] = find
        sys.modules[_PACKAGE] = module
        importlib.import_module("google.cloud").compute_v1 = module  # type: ignore[attr-defined]  # what an import statement does
        return module


@functools.cache
def preload() -> None:
    """Load what a launch needs while the caller does something else, such as waiting for another answer; once."""
    threading.Thread(target=lambda: (compute().InstancesClient, compute().FirewallsClient), name="compute_v1", daemon=True).start()
