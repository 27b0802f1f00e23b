# SPDX-License-Identifier: Apache-2.0
"""The Python code of README.md and docs/python.md runs as it stands there."""

import pathlib
import re

import pytest

import megaconv

ROOT = pathlib.Path(__file__).parents[2]


def blocks(file, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / file).read_text(), re.M | re.S)


def run_all(file, language="python"):
    names = {}
    for code in blocks(file, language):
        exec(compile(code, file, "exec"), names)  # one block goes on where one ended


def test_the_code_of_the_documentation_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes tuned.db
    run_all("docs/python.md")
    printed = capsys.readouterr().out
    assert "(1, 64, 56, 56)" in printed
    assert re.search(r"^custom \d", printed, re.M)


def test_the_tutorial_of_scheduling_runs(capsys):
    run_all("docs/tutorials/scheduling.md")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["interleaved", "staged", "custom"]
    assert all(int(line.split()[1]) >= int(line.split()[2]) for line in lines)


def test_the_tutorial_of_pytorch_runs(capsys):
    pytest.importorskip("torch")
    run_all("docs/tutorials/pytorch.md", "py")
    assert capsys.readouterr().out.startswith("{}\nnetwork: ")


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
