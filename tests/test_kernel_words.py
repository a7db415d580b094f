"""Every argument of a kernel that others call is explained: where it stands, or in the package for all of them."""

import ast
import re
from pathlib import Path

import fpi
from fpi import kernels

SOURCE = Path(fpi.__file__).parent
SOURCES = {path.stem: path.read_text() for path in (SOURCE / "kernels").glob("*.py")}
OPERANDS = {"numerics", "objects", "lending"}  # a + b, an array: there is nothing to say
OTHERS = {"windows", "smooth", "nets"}  # of learnt models, with words of their own


def functions():
    """Those of the kernels that another file imports, or takes from a module that it imports."""
    asked = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    imported = {
        name
        for names in re.findall(r"from fpi\.kernels\.\w+ import (\([^)]*\)|[^\n]*)", asked)
        for name in re.findall(r"\w+", names)
    }
    imported |= set(re.findall(r"\bcompiled\.(\w+)", asked))
    for path in sorted((SOURCE / "kernels").glob("*.py")):
        if path.stem not in OPERANDS | OTHERS:
            for node in ast.parse(SOURCES[path.stem]).body:
                if isinstance(node, ast.FunctionDef) and node.name in imported:
                    yield path.stem, node


def test_every_argument_of_a_kernel_that_others_call_is_explained():
    listed = re.findall(r"^    (\w[\w, ]*?)  ", kernels.__doc__, re.M)
    words = {name for names in listed for name in names.split(", ")}
    assert len(words) > 30
    found = list(functions())
    assert len(found) > 40
    silent = [
        f"{module}.{function.name}: {each.arg}"
        for module, function in found
        for each in (*function.args.args, *function.args.kwonlyargs)
        if each.arg not in words
        and not re.search(rf"\b{each.arg}=", SOURCES[module])  # it becomes a field, explained in `define`
        and not re.search(rf"\b{each.arg}\b", ast.get_docstring(function) or "")
    ]
    assert not silent
