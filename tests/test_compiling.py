"""The compile cache: an edit of any file reaches whoever uses it, and no edit is needed to find it filled."""

import ast
import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.runtime import _nrt_python, rtsys
from numba.core.serialize import dumps

import fpi
from fpi import _compiling
from fpi.kernels import numerics, objects, states
from fpi.kernels.actor import new_actor
from fpi.kernels.ridge import new_store

SOURCE = Path(fpi.__file__).parent

SMALL = """
import json
import numpy as np
from fpi.kernels import numerics
from fpi.testbeds import _hash

found = {"hash": int(_hash.below(1, 2, (3, 4), 5, 1_000_000))}
try:
    found["dot"] = float(numerics.dot(np.full(3, 2.0), np.full(3, 3.0)[:2]))
except IndexError:
    found["dot"] = "out of bounds"
used = [_hash.below, _hash.key, numerics.dot]
found["compiled"] = sum(sum(each.stats.cache_misses.values()) for each in used)
print(json.dumps(found))
"""

ENGINES = """
import json
from support.scenarios import Corridor, compiled, corridor_agent, corridor_env

def targets(agent):
    return [target for stage in range(agent.horizon) for target in agent.dataset(stage).targets.tolist()]

found = {}
agent = corridor_agent(explore="first")
compiled.learn(agent, corridor_env(), 4, seed=0)
found["compiled"] = targets(agent)
agent = corridor_agent(explore="first")
agent.learn(Corridor(), 4, seed=0)
found["Gymnasium"] = targets(agent)
print(json.dumps(found))
"""

OTHER_ROOMS = """
import json
import numpy as np
from fpi.baselines import OFUL
from fpi.testbeds import LinBandit
from support.scenarios import MAX_VALUE, classes

found = {}
bandit = LinBandit(d=3, K=2)
found["testbeds"] = bandit.phi(bandit.held_out(1)[0]).tolist()
oful = OFUL(bandit.features, actions=2)
oful.learn(bandit.env(), 2, seed=0)
found["baselines"] = oful.log_dets.tolist()
ball = classes.LinearBall(lambda observation: np.eye(2), radius=1.0, actions=2, **{MAX_VALUE: 1.0})
rows = ball.rows(0, 0)
data = ball.prefixes(epsilon=0.5, beta=lambda k: 0.01)
data.append(rows[0], 0.5)
found["classes"] = data.widths(rows, 1).tolist()
print(json.dumps(found))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of fpi without anything compiled."""
    shutil.copytree(SOURCE, tmp_path / "fpi", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "fpi"


def run(package, script, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    path = os.pathsep.join([str(package.parent), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=package.parent,
        env=inherited | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def edit(package, module, before, after):
    path = package / module
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


MIX = "return z ^ (z >> np.uint64(31))", "return z ^ (z >> np.uint64(30))"


@pytest.mark.process
def test_an_edit_is_seen_in_other_files_and_so_is_undoing_it(package):
    first = run(package, SMALL)
    assert first["compiled"] > 0
    assert run(package, SMALL) == first | {"compiled": 0}
    edit(package, "compare/bandit.py", "import json\n", "import json  # of no concern\n")
    assert run(package, SMALL) == first | {"compiled": 0}
    edit(package, "kernels/numerics.py", *MIX)
    changed = run(package, SMALL)
    assert changed["hash"] != first["hash"] and changed["compiled"] > 0
    edit(package, "kernels/numerics.py", *reversed(MIX))
    assert run(package, SMALL) == first


@pytest.mark.process
def test_checked_indices_are_not_taken_for_unchecked_ones(package):
    assert run(package, SMALL)["dot"] != "out of bounds"
    assert run(package, SMALL, NUMBA_BOUNDSCHECK="1")["dot"] == "out of bounds"


@pytest.mark.process
@pytest.mark.parametrize("place", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_the_cache_may_be_elsewhere(package, tmp_path, place):
    """Where users say, or, if the folder of the package cannot be written to, where numba keeps such things."""
    if place == "XDG_CACHE_HOME":
        for folder in (package / "kernels", package / "testbeds"):
            (folder / "__pycache__").touch()  # a file of that name: there is no way to make the folder
    elsewhere = {place: str(tmp_path / "elsewhere")}
    first = run(package, SMALL, **elsewhere)
    assert first["compiled"] > 0
    assert list(tmp_path.glob("elsewhere/**/*.nbi")) and not list(package.glob("**/*.nbi"))
    assert run(package, SMALL, **elsewhere) == first | {"compiled": 0}


@pytest.fixture
def compiled_package(tmp_path):
    """A copy of fpi with what is compiled already."""
    shutil.copytree(SOURCE, tmp_path / "fpi")
    return tmp_path / "fpi"


@pytest.mark.slow
def test_an_edit_is_seen_in_both_engines(compiled_package):
    before = run(compiled_package, ENGINES)
    edit(compiled_package, "kernels/append.py", "datum.target = target", "datum.target = 2.0 * target")
    after = run(compiled_package, ENGINES, NUMBA_OPT="0")  # compiling takes half as long then
    for engine in ("Gymnasium", "compiled"):
        assert before[engine] and after[engine] == [2 * target for target in before[engine]]
    assert before["Gymnasium"] == before["compiled"]


@pytest.mark.slow
def test_an_edit_is_seen_in_the_other_rooms(compiled_package):
    """Apart from the engines, which would compile all they have once more after this edit."""
    before = run(compiled_package, OTHER_ROOMS)
    edit(compiled_package, "kernels/numerics.py", "return dot_at(b, 0, a)", "return 2.0 * dot_at(b, 0, a)")
    edit(compiled_package, "kernels/numerics.py", *MIX)
    after = run(compiled_package, OTHER_ROOMS)
    for room in ("classes", "baselines", "testbeds"):
        assert not np.allclose(before[room], after[room])


def modules():
    """All of fpi, but for scripts."""
    found = [each.name for each in pkgutil.walk_packages(fpi.__path__, "fpi.") if not each.name.endswith("__main__")]
    return [importlib.import_module(name) for name in found]


def compiled_functions():
    for module in modules():
        for function in vars(module).values():
            if isinstance(function, Dispatcher) and function.__module__ == module.__name__:
                yield function


def test_every_compiled_function_has_the_stamp_of_its_module():
    """Fails if numba keeps the stamp elsewhere: then nothing is cached any more, and `_compiling` needs a look."""
    functions = list(compiled_functions())
    assert len(functions) > 100
    for function in functions:
        assert function._cache._cache_file._source_stamp == _compiling.stamp(function.__module__), function
    assert len({function.__module__ for function in functions}) >= 6


def test_parts_of_compiled_functions_are_for_those_alone():
    assert numba.njit(lambda a, b: numerics.two_sum(a, b))(1.0, 2**-60) == (1.0, 2**-60)
    assert numerics.two_sum.signatures
    for _ in range(2):
        with pytest.raises(TypeError, match="part of compiled functions"):
            numerics.two_sum(0.1, 0.2)


def test_parts_are_not_optimised_on_their_own():
    """Else they would be again in every caller, which takes twice as long as all else."""

    @numba.njit(pipeline_class=_compiling._PartCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def thrice(x):
        return x + x + x

    assert numba.njit(lambda x: thrice(x) + 1)(2) == 7
    (found,) = thrice.overloads.values()
    shared = str(found.library._get_module_for_linking())
    assert "define linkonce_odr" in shared and "define" not in found.library.get_llvm_str()


def test_what_compiled_functions_call_is_compiled_alone_only_for_python():
    inner = _compiling.jit(numerics.largest_square.py_func)
    assert numba.njit(lambda x: inner(x) + 1)(np.eye(2)) == 2
    assert not inner.signatures
    assert inner(np.eye(2)) == 1 and inner.signatures


def test_parts_and_whole_functions_have_places_of_their_own_in_the_cache():
    whole, part = (dispatcher._cache._cache_file for dispatcher in (numerics.dot, part_of(numerics.dot)))
    assert whole._index_name != part._index_name and whole._source_stamp == part._source_stamp


def test_references_to_arguments_are_not_counted():
    def total(x, n):
        s = 0.0
        for i in range(n):
            s += x[i] + np.full(i, s).sum()
        return s

    def counted(**options):
        function = numba.njit(**options)(total)
        assert function(np.ones(3), 3) == 10
        (code,) = function.inspect_llvm().values()
        return code.split("\ndefine ")[1].count("call void @NRT_")

    assert counted() == 3
    assert counted(pipeline_class=_compiling._Compiler) == 1  # that of the other array


def test_an_argument_that_becomes_another_array_is_freed_once():
    @numba.njit(pipeline_class=_compiling._Compiler)
    def halved(x, n):
        for _ in range(n):
            x = x / 2
        return x, x

    _nrt_python.memsys_enable_stats()
    given = np.ones(3)
    references = sys.getrefcount(given)
    halved(given, 1)
    before = rtsys.get_allocation_stats()
    for n in (0, 1, 5):
        assert halved(given, n)[1].tolist() == [0.5**n] * 3
    after = rtsys.get_allocation_stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0
    assert sys.getrefcount(given) == references


def give_back(store):
    return store


def exchange(actor, store):
    actor.store = store


give_back.__module__ = exchange.__module__ = objects.__name__


def test_lent_objects_are_not_kept():
    """Nobody counts who has them, so that they may be gone a moment later."""
    store, cache = new_store(2, 1.0, regressions=1, blocks=1, nnz=None), states.new_cache(1, 1, 0, 4)
    actor = new_actor(store, cache, np.ones(1), np.zeros((0, 4)), 0, 0, 1, 1)
    give, put = _compiling.jit_part(give_back), _compiling.jit_part(exchange)
    with pytest.raises(TypeError, match="cannot convert native Lent"):
        numba.njit(lambda store: give(store))(store)
    with pytest.raises((NumbaError, NotImplementedError), match="Lent"):
        numba.njit(lambda actor, store: put(actor, store))(actor, store)


def test_a_cache_that_names_types_of_an_earlier_version_is_passed_over(tmp_path):
    file = _compiling.jit(numerics.largest_square.py_func)._cache._cache_file
    file._index_path = str(tmp_path / "index")
    Path(file._index_path).write_bytes(dumps(file._version) + b"cfpi.kernels.objects\nOfOld\n.")
    assert file._load_index() == {}


def part_of(dispatcher):
    return dispatcher.get_overload.__self__


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.bool_, states.STATE])
def test_arrays_are_those_of_numpy(dtype):
    make = numba.njit(lambda n, m: (objects.zeros(n, dtype), objects.zeros((n, m), dtype), objects.empty(n, dtype)))
    for n in (0, 3, 1000):
        line, table, room = make(n, 2)
        for made, expected in ((line, np.zeros(n, dtype)), (table, np.zeros((n, 2), dtype))):
            assert made.flags.c_contiguous and made.dtype == expected.dtype and np.array_equal(made, expected)
        assert room.shape == (n,) and room.dtype == np.dtype(dtype)


@pytest.mark.process
def test_a_first_episode_imports_no_more_than_it_needs(package):
    """numba would import scipy.linalg, which takes longer than all of fpi."""
    script = """
import json, sys
from fpi.kernels import numerics
import numba
import numpy as np
found = {"sum": float(numerics.exact_sum(np.full(3, 2.0)))}
found["linalg"] = "scipy.linalg" in sys.modules
found["dot"] = float(numba.njit(lambda x: np.dot(x, x))(np.full(3, 2.0)))
print(json.dumps(found))
"""
    found = run(package, script)
    assert found["sum"] == 6.0 and not found["linalg"] and found["dot"] == 12.0


def test_without_a_place_for_the_stamp_nothing_is_cached(monkeypatch):
    def other_numba(cache=False, **options):
        return (lambda function: types.SimpleNamespace()) if cache else numba.njit(**options)

    monkeypatch.setattr(_compiling, "njit", other_numba)
    function = _compiling.jit(lambda x: x + 1)
    assert function(1) == 2 and function._cache.cache_path is None


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("from fpi.kernels.numerics import dot, mix", {"fpi.kernels.numerics"}),
        ("from fpi import kernels as loops, features  # both", {"fpi.kernels", "fpi.features"}),
        (
            "    from fpi.function_classes import (\n    linear,\n    beta as b,\n)",
            {"fpi.function_classes.linear", "fpi.function_classes"},
        ),
        ("from fpi import __version__", {"fpi"}),
        ("from fpi.regression import *", {"fpi.regression"}),
        ("import fpi.testbeds._hash", {"fpi.testbeds._hash"}),
        ("import numpy as np\nfrom numba import njit\nfrom fpitools import x", set()),
    ],
)
def test_imports_of_a_source_are_found(source, named):
    assert set(_compiling.imports(source)) == named


@pytest.mark.slow
def test_imports_are_those_that_python_sees():
    """Python's own parser would take as long as all else at the start. Relative imports would not be found."""
    for path in SOURCE.rglob("*.py"):
        named = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert len(node.names) == 1, path
                named |= {f"import {node.names[0].name}"}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                named |= {f"from {node.module} import {alias.name}" for alias in node.names}
        expected = set(_compiling.imports("\n".join(sorted(named))))
        assert set(_compiling.imports(path.read_text())) == expected, path


def test_what_a_module_reaches_is_itself_and_what_it_imports_by_way_of_others():
    assert _compiling.reached("fpi.kernels.tiles") == {"fpi.kernels.tiles", "fpi._compiling", "fpi._interrupts"}
    assert _compiling.reached("fpi.compiled.loop") >= {
        "fpi.compiled.loop",
        "fpi.kernels.append",
        "fpi.kernels.numerics",
    }
    assert {"fpi.errors", "fpi.envs"} <= _compiling.reached("fpi.compiled.env")
