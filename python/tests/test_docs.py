# SPDX-License-Identifier: Apache-2.0
"""The Python code of README.md and docs/python.md runs as it stands there."""

import pathlib
import re

import megaconv

ROOT = pathlib.Path(__file__).parents[2]


def blocks(file):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / file).read_text(), re.M | re.S)


def test_the_code_of_the_documentation_runs(capsys):
    names = {}
    for code in blocks("docs/python.md"):
        exec(compile(code, "docs/python.md", "exec"), names)  # one block goes on where one ended
    printed = capsys.readouterr().out
    assert "(1, 64, 56, 56)" in printed
    assert re.search(r"^custom \d", printed, re.M)


def test_the_code_of_the_readme_runs():
    names = {}
    codes = [code for code in blocks("README.md") if "import megaconv" in code]
    assert len(codes) == 1
    exec(codes[0], names)
    assert names["y"].shape == (1, 64, 56, 56)


def test_public_names_have_docstrings():
    for name in megaconv.__all__:
        value = getattr(megaconv, name)
        assert isinstance(value, bool) or value.__doc__, name
