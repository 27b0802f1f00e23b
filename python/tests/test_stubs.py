# SPDX-License-Identifier: Apache-2.0
"""The stubs of the extension module say what it has, by mypy's stubtest."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import megaconv

pytest.importorskip("mypy", reason="mypy is not installed")

# How types and functions of nanobind differ from Python's own. Python cannot ask for
# their parameters.
NANOBIND = re.compile(r"is not a function|metaclass differs|staticmethod but runtime is not|"
                      r'__init__ is inconsistent, stub does not have \*args parameter "args"|'
                      r"is a disjoint base at runtime")


def differences(folder, stub):
    """What stubtest finds between the module and the text of a stub."""
    package = folder / "stubs" / "megaconv"  # not where Python looks for modules
    shutil.copytree(pathlib.Path(megaconv.__file__).parent, package,
                    ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (package / "_core.pyi").write_text(stub)
    # A NetworkPlan is called with other arguments than the Plan that it is; PyTorch may be missing.
    (folder / "mypy.ini").write_text(
        "[mypy]\ndisable_error_code = override\nignore_missing_imports = True\n")
    ran = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--concise", "--mypy-config-file",
                          "mypy.ini", "megaconv._core"],
                         cwd=folder, env={**os.environ, "MYPYPATH": str(folder / "stubs")},
                         capture_output=True, text=True)
    assert not ran.stderr, ran.stderr
    return [line for line in ran.stdout.splitlines() if line and not NANOBIND.search(line)]


def test_the_stub_has_what_the_module_has(tmp_path):
    stub = (pathlib.Path(megaconv.__file__).parent / "_core.pyi").read_text()
    assert differences(tmp_path / "as_it_is", stub) == []
    wrong = stub.replace("def describe(", "def described(")
    found = " ".join(differences(tmp_path / "wrong", wrong))
    assert "Plan.described is not present" in found and "Plan.describe is not present" in found
