"""What a machine has cost so far, and would cost until its deadline: by the catalogue's price of its place."""

from __future__ import annotations
