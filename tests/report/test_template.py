"""Jinja as it is set up here: HTML is escaped, and an undefined name is an error."""

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from provision.report.template import environment


def test_html_is_escaped_and_an_undefined_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("{% if True %}\n{{ text }}\n{% endif %}\n")
    assert environment(tmp_path).get_template("page").render(text="<b>") == "&lt;b&gt;\n"
    assert environment(tmp_path, autoescape=False).get_template("page").render(text="<b>") == "<b>\n"
    with pytest.raises(UndefinedError):
        environment(tmp_path).get_template("page").render()
