"""`python -m provision`, and where the `gpuprov` command enters."""

import gc
import os

# gpuprov has no plugin of pydantic. Looking for one takes 10 ms of CPU.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# Nothing of what is imported can go, and looking for what can takes a tenth of the CPU time of `plan`.
gc.set_threshold(100_000, 20, 20)

from provision import cli  # noqa: E402 - as said above

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with the code of the contract."""
    try:
        cli.main()
    finally:
        # At its end Python looks for cycles among everything that was imported, a quarter of the CPU time of `verify --facts`. Memory
        # goes back to the system without that, and files are closed where they are used.
        gc.freeze()


if __name__ == "__main__":
    main()
