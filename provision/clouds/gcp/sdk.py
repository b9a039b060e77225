"""Client classes of `google.cloud.compute_v1` without that package's `__init__`, which imports 130 services where we use ten.

`python -m tests.bench.launch 7` on an idle machine with two cores: `up` on the embedded GCP is accepted after 1.27 s with this (median of 7
runs, 1.24 to 1.37), and after 2.19 s (2.06 to 2.50) with a plain import.
"""

import importlib
import importlib.util
import re
import sys
import threading
from typing import Any, Final

_PACKAGE: Final = "google.cloud.compute_v1"
_LOCK: Final = threading.RLock()  # two threads that import parts of the package from two sides would find each other's half done


def client_class(name: str) -> Any:
    """A client class of the package, such as `InstancesClient`, with nothing imported that it does not need."""
    with _LOCK:
        if _PACKAGE not in sys.modules:
            _put_package()
        service = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix("Client")).lower()
        return getattr(importlib.import_module(f"{_PACKAGE}.services.{service}"), name)


def _put_package() -> None:
    """Make the package known to Python without running its `__init__`; it still runs for anybody who asks the package for a name."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(_PACKAGE)
    module, run = importlib.util.module_from_spec(spec), spec.loader.exec_module

    def find(name: str) -> Any:
        if not name[0].isupper():  # `from package import submodule` looks here before it imports
            raise AttributeError(name)
        with _LOCK:
            module.__dict__.pop("__getattr__", None)
            run(module)
        return getattr(module, name)

    module.__dict__["__getattr__"] = find
    sys.modules[_PACKAGE] = module
    importlib.import_module("google.cloud").compute_v1 = module  # type: ignore[attr-defined]  # as an import statement does
