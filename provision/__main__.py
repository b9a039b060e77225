"""`python -m provision`, and where the `gpuprov` command enters."""

from provision.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
