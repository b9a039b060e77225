"""Formats of a report. One module each; none of them decides the verdict."""

from __future__ import annotations

from provision.report import json, text

__all__ = ["FORMATS", "json", "text"]

FORMATS = {"text": text.render, "json": json.render}
