"""What the clouds' own tools on this machine are set to, by variables and by files in the form of INI. No cloud is asked."""

import configparser
import os
from pathlib import Path

from provision.paths import text_of


def setting(variables: tuple[str, ...], path: Path, section: str, key: str) -> tuple[str, str]:
    """A setting and where it is made: in the first variable that has a value, or in the file; two empty texts where it is not made.

    Raises:
        UsageError: the file cannot be read.
    """
    for name in variables:
        if value := os.environ.get(name):
            return value, name
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text_of(path.expanduser()))
    except configparser.Error:
        return "", ""
    value = parser.get(section, key, fallback="")
    return value, str(path) if value else ""
