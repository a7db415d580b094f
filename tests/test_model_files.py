"""Model files: what goes in comes out, every damage is named, and no save can lose what was there before."""

import errno
import json
import os
import platform
import random
import struct
import subprocess
import sys
import time
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, from_dtype
from safetensors import safe_open
from safetensors.numpy import save_file

from fpi import model_files
from fpi.errors import InputError, ModelFileError, SaveError

DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint8", "bool")
TENSORS = {
    "features": np.linspace(-1, 1, 12).reshape(3, 4),
    "episodes": np.array([3, 1, 2], dtype=np.int64),
    "indices": np.arange(5, dtype=np.int32),
    "done": np.array([True, False]),
    "empty": np.zeros((0, 7)),
    "ridge": np.array(1e-3),
}
META = {
    "type": "PAC",
    "generator": {"state": 2**128 - 1, "inc": 2**127 + 1},
    "bound": None,
    "names": ["σ", "0" * 64],
    "step": 0.1,
}


def names_in(folder):
    return sorted(os.listdir(folder))


def assert_same(read, tensors, meta):
    assert read[0].keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[0][name].dtype == tensor.dtype.newbyteorder("=")
        assert read[0][name].shape == tensor.shape
        np.testing.assert_array_equal(read[0][name], tensor)
    assert read[1] == meta


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.fpi"
    model_files.write(path, TENSORS, META)
    return path


@pytest.fixture
def old_file_survives(model):
    """After the test, the model and the list of files beside it are what they were."""
    before, neighbours = model.read_bytes(), names_in(model.parent)
    yield model
    assert model.read_bytes() == before
    assert names_in(model.parent) == neighbours


# What goes in comes out


def test_round_trip(model):
    tensors, meta = model_files.read(model)
    assert_same((tensors, meta), TENSORS, META)
    assert all(tensor.flags.writeable for tensor in tensors.values())
    assert names_in(model.parent) == [model.name]


@pytest.mark.slow
@settings(deadline=None)
@given(
    tensors=st.dictionaries(
        st.text(min_size=1).filter(lambda name: name != "__metadata__"),
        st.sampled_from(DTYPES).flatmap(
            lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0), elements=from_dtype(np.dtype(dtype)))
        ),
        max_size=4,
    ),
    meta=st.dictionaries(
        st.text(), st.recursive(st.none() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists)
    ),
)
def test_any_content_comes_back(tmp_path_factory, tensors, meta):
    path = tmp_path_factory.mktemp("any") / "model.fpi"
    model_files.write(path, tensors, meta)
    assert_same(model_files.read(path), tensors, meta)


@pytest.mark.parametrize(
    "odd",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-3],
        np.arange(12.0).reshape(3, 4)[:, 1],
        np.broadcast_to(np.float64(2.0), (2, 3)),
        np.arange(3.0).astype(">f8"),
    ],
    ids=["transposed", "backwards", "column", "broadcast", "big-endian"],
)
def test_odd_layouts_are_stored_by_value(tmp_path, odd):
    model_files.write(tmp_path / "model.fpi", {"odd": odd}, {})
    assert_same(model_files.read(tmp_path / "model.fpi"), {"odd": odd}, {})


def test_the_file_is_ordinary_safetensors(model):
    with safe_open(model, framework="numpy") as file:
        assert set(file.keys()) == set(TENSORS)
        for name, tensor in TENSORS.items():
            np.testing.assert_array_equal(file.get_tensor(name), tensor)
        metadata = file.metadata()
    assert metadata["format"] == "fpi"
    assert metadata["version"] == str(model_files.VERSION)
    assert json.loads(metadata["json"]) == META


def test_equal_models_give_equal_files(model):
    again = model.with_name("again.fpi")
    model_files.write(again, dict(reversed(TENSORS.items())), dict(reversed(META.items())))
    assert again.read_bytes() == model.read_bytes()


def test_saving_writes_through_a_link_and_honours_the_umask(model):
    link = model.with_name("latest.fpi")
    link.symlink_to(model)
    previous = os.umask(0o027)
    try:
        model_files.write(link, {}, {"version": "new"})
    finally:
        os.umask(previous)
    assert link.is_symlink()
    assert model_files.read(model) == ({}, {"version": "new"})
    assert model.stat().st_mode & 0o777 == 0o640


# Files that must be refused


def encode(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def sealed(header, body=b"", **metadata):
    """A file with a true digest and lies elsewhere."""
    blank = {"digest": "0" * 64, "format": "fpi", "version": "1", "json": "{}"} | metadata
    data = encode({"__metadata__": blank} | header, body)
    return data.replace(b"0" * 64, blake2b(data, digest_size=32).hexdigest().encode(), 1)


def tensor(start, stop, shape, dtype="U8"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


LIES = {
    "nothing": (b"", "cut short"),
    "five bytes": (b"abcde", "not a model file|cut short"),
    "text": (b"import os\n" * 9, "not a model file.*announce a header"),
    "endless header": (encode({}, length=2**63), "not a model file.*9,223,372,036,854,775,808"),
    "header over the cap": (encode({}, length=16 * 2**20 + 1), "not a model file.*16,777,217"),
    "header past the end": (encode({}, length=1000), "cut short.*1,008"),
    "no JSON": (encode(b"{nope"), "damaged.*JSON"),
    "no UTF-8": (encode(b"\xff\xfe"), "damaged.*UTF-8"),
    "deep JSON": (encode(b"[" * 100_000), "damaged.*JSON"),
    "overlap": (sealed({"a": tensor(0, 4, [4]), "b": tensor(2, 6, [4])}, b"123456"), "damaged.*offset"),
    "gap": (sealed({"a": tensor(0, 2, [2]), "b": tensor(4, 6, [2])}, b"123456"), "damaged.*offset"),
    "outside": (sealed({"a": tensor(0, 2**40, [2**40])}, b"12"), "damaged.*not fully covered"),
    "left over": (sealed({"a": tensor(0, 2, [2])}, b"123456"), "damaged.*not fully covered"),
    "wrong shape": (sealed({"a": tensor(0, 8, [9], "F64")}, b"12345678"), "damaged.*invalid shape"),
    "endless shape": (sealed({"a": tensor(0, 8, [2**40, 2**40], "F64")}, b"12345678"), "damaged.*overflow"),
    "negative shape": (sealed({"a": tensor(0, 8, [-1], "F64")}, b"12345678"), "damaged.*-1"),
    "endless empty": (sealed({"a": tensor(0, 0, [0, 2**62, 2**62])}), "damaged.*too big"),
    "65 axes": (sealed({"a": tensor(0, 1, [1] * 65)}, b"1"), "damaged.*dimension"),
    "unknown dtype": (sealed({"a": tensor(0, 2, [2], "T7")}, b"12"), "damaged.*T7"),
    "bfloat16": (sealed({"a": tensor(0, 2, [1], "BF16")}, b"12"), "damaged.*BF16"),
    "no metadata": (encode({"a": tensor(0, 2, [2])}, b"12"), "not one that fpi wrote"),
    "null metadata": (encode({"__metadata__": None}), "not one that fpi wrote"),
    "two metadata": (encode(b'{"__metadata__": {"format": "fpi"}, "__metadata__": [1]}'), "damaged.*JSON"),
    "format only": (encode({"__metadata__": {"format": "fpi"}}), "damaged.*KeyError.*'version'"),
    "newer": (sealed({}, version="2"), "newer fpi.*version 2.*up to 1.*Upgrade"),
    "newer and unknown": (
        encode({"__metadata__": {"format": "fpi", "version": "7", "json": "", "digest": ""}}),
        "newer",
    ),
    "version in words": (sealed({}, version="two"), "damaged.*ValueError.*two"),
    "empty digest": (
        encode({"__metadata__": {"format": "fpi", "version": "1", "json": "{}", "digest": ""}}),
        "digest",
    ),
    "meta no JSON": (sealed({}, json="{nope"), "damaged.*JSONDecodeError"),
    "meta deep JSON": (sealed({}, json="[" * 100_000), "damaged.*RecursionError"),
    "meta endless number": (sealed({}, json='{"seed": ' + "9" * 5_000 + "}"), "damaged.*ValueError"),
    "meta no object": (sealed({}, json="[1]"), "damaged.*list"),
}


@pytest.mark.parametrize(("data", "says"), LIES.values(), ids=LIES)
def test_a_lying_file_is_refused(tmp_path, data, says):
    path = tmp_path / "stranger.fpi"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=says) as caught:
        model_files.read(path)
    assert str(path) in str(caught.value)


def test_the_sealed_twin_of_the_lies_is_accepted(tmp_path):
    path = tmp_path / "honest.fpi"
    path.write_bytes(sealed({"a": tensor(0, 2, [2])}, b"12", json='{"x": 1}'))
    assert_same(model_files.read(path), {"a": np.frombuffer(b"12", np.uint8)}, {"x": 1})


def test_another_library_s_safetensors_file_is_refused(tmp_path):
    save_file({"weight": np.zeros(3)}, tmp_path / "network.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelFileError, match="not one that fpi wrote.*an agent saved"):
        model_files.read(tmp_path / "network.safetensors")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"absent\.fpi: No such file.*Check the path"):
        model_files.read(tmp_path / "absent.fpi")
    with pytest.raises(ModelFileError, match="folder or a device"):
        model_files.read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="folder or a device"):
        model_files.read(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="name too long"):
        model_files.read(tmp_path / ("x" * 300))


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.fpi"
    with path.open("wb") as file:
        file.truncate(model_files.MAX_FILE_BYTES + 1)  # a hole: takes no space on disk
    with pytest.raises(ModelFileError, match=r"4,294,967,297 bytes.*at most 4,294,967,296"):
        model_files.read(path)


@pytest.mark.slow
def test_every_truncation_is_refused(model):
    whole = model.read_bytes()
    for size in range(len(whole)):
        model.write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match="cut short"):
            model_files.read(model)


@pytest.mark.slow
def test_a_flipped_bit_of_any_byte_is_refused(model):
    whole = model.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        model.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            model_files.read(model)


@settings(deadline=None)
@given(data=st.data())
def test_any_overwritten_stretch_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "model.fpi"
    model_files.write(path, TENSORS, META)
    whole = path.read_bytes()
    position = data.draw(st.integers(0, len(whole)))
    removed = data.draw(st.integers(0, 40))
    stretch = data.draw(st.binary(max_size=40))
    damaged = whole[:position] + stretch + whole[position + removed :]
    path.write_bytes(damaged)
    if damaged == whole:
        assert_same(model_files.read(path), TENSORS, META)
    else:
        with pytest.raises(ModelFileError):
            model_files.read(path)


# Saves that fail


def failing(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "No space left on device. Free some space"),
        (errno.EDQUOT, "quota exceeded. Free some space"),
        (errno.EROFS, "Read-only file system. Save to a folder you may write to"),
        (errno.EIO, "Input/output error. Check the path"),
    ],
)
def test_a_failed_save_keeps_the_old_file(old_file_survives, monkeypatch, call, number, says):
    monkeypatch.setattr(os, call, failing(number))
    with pytest.raises(SaveError, match=f"{says}.*The file that was there is unchanged"):
        model_files.write(old_file_survives, {"big": np.zeros(1000)}, {})
    with pytest.raises(SaveError, match=f"{says}.*Nothing was left behind"):
        model_files.write(old_file_survives.with_name("other.fpi"), {"big": np.zeros(1000)}, {})


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_interrupted_save_keeps_the_old_file(old_file_survives, monkeypatch, call, interruption):
    def interrupt(*_):
        raise interruption

    monkeypatch.setattr(os, call, interrupt)
    with pytest.raises(interruption):
        model_files.write(old_file_survives, {}, {})


@pytest.mark.process
def test_a_disk_that_fills_up_keeps_the_old_file(old_file_survives):
    # A limit on file size fails a write half way, as a full disk does, on any machine and for any user.
    script = """
import resource, sys
import numpy as np
from fpi import model_files
from fpi.errors import SaveError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    model_files.write(sys.argv[1], {"big": np.ones(50_000)}, {})
except SaveError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(old_file_survives)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "File too large. Free some space, or save elsewhere. The file that was there is unchanged." in said


def test_a_folder_nobody_may_write_to():
    # Not even root creates files in /proc, so this holds for every user.
    with pytest.raises(SaveError, match=r"Could not save to /proc/.*model\.fpi"):
        model_files.write("/proc/self/model.fpi", TENSORS, META)


def test_a_read_only_folder(old_file_survives, monkeypatch):
    monkeypatch.setattr(Path, "open", failing(errno.EACCES))
    with pytest.raises(SaveError, match="Permission denied. Save to a folder you may write to.*unchanged"):
        model_files.write(old_file_survives, {}, {})


def test_places_that_cannot_hold_a_file(old_file_survives):
    model = old_file_survives
    for path in (model.parent / "no" / "model.fpi", model / "model.fpi"):
        with pytest.raises(SaveError, match="there is no folder.*Create it first"):
            model_files.write(path, TENSORS, META)
    pipe = model.with_name("pipe")
    os.mkfifo(pipe)
    for path in (model.parent, pipe):
        with pytest.raises(SaveError, match="not an ordinary file"):
            model_files.write(path, TENSORS, META)
    pipe.unlink()


def test_content_that_cannot_be_stored(old_file_survives):
    with pytest.raises(InputError, match=r"'z' has dtype complex128.*float64"):
        model_files.write(old_file_survives, {"z": np.zeros(2, complex)}, {})
    with pytest.raises(InputError, match="cannot be called '__metadata__'.*Choose another"):
        model_files.write(old_file_survives, {"__metadata__": np.zeros(2)}, {})
    with pytest.raises(TypeError):
        model_files.write(old_file_survives, {}, {"z": object()})


@pytest.mark.parametrize("cap", ["MAX_FILE_BYTES", "MAX_HEADER_BYTES"])
def test_what_could_not_be_loaded_is_not_saved(old_file_survives, monkeypatch, cap):
    data = old_file_survives.read_bytes()
    size = {"MAX_FILE_BYTES": len(data), "MAX_HEADER_BYTES": int.from_bytes(data[:8], "little")}[cap]
    monkeypatch.setattr(model_files, cap, size)
    model_files.write(old_file_survives, TENSORS, META)
    assert_same(model_files.read(old_file_survives), TENSORS, META)
    monkeypatch.setattr(model_files, cap, size - 1)
    with pytest.raises(SaveError, match="larger than load accepts"):
        model_files.write(old_file_survives, TENSORS, META)
    with pytest.raises(ModelFileError):
        model_files.read(old_file_survives)


def test_a_folder_that_cannot_be_synced_is_no_failure(model, monkeypatch):
    monkeypatch.setattr(os, "open", failing(errno.EINVAL))
    model_files.write(model, {}, {"new": True})
    monkeypatch.undo()
    assert model_files.read(model) == ({}, {"new": True})


# Death in the middle of a save

SAVES_FOR_EVER = """
import sys
import numpy as np
from fpi import model_files
contents = [({"fill": np.full(n, float(v))}, {"v": v, "n": n}) for v, n in ((0, 40_000), (1, 90_000))]
print("ready", flush=True)
while True:
    for tensors, meta in contents:
        model_files.write(sys.argv[1], tensors, meta)
"""


def assert_is_one_of_two(path):
    tensors, meta = model_files.read(path)
    np.testing.assert_array_equal(tensors["fill"], np.full(meta["n"], float(meta["v"])))


@pytest.fixture
def start():
    """Start a script that prints "ready" when it is; it is killed at the end of the test at the latest."""
    running = []

    def start(script, *arguments):
        command = [sys.executable, "-c", script, *map(str, arguments)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert running[-1].stdout.readline() == "ready\n"
        return running[-1]

    yield start
    for process in running:
        kill(process)


def kill(process):
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.process
def test_a_save_killed_at_any_moment_leaves_one_whole_file(tmp_path, start):
    path = tmp_path / "model.fpi"
    model_files.write(path, {"fill": np.zeros(1)}, {"v": 0, "n": 1})
    moments = random.Random(0)
    for _ in range(20):
        process = start(SAVES_FOR_EVER, path)
        time.sleep(moments.uniform(0, 0.03))
        kill(process)
        assert_is_one_of_two(path)
    model_files.write(path, {}, {})
    assert names_in(tmp_path) == [path.name]


@pytest.mark.process
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_the_next_save_tidies_up_after_a_killed_one(old_file_survives, start, call):
    model = old_file_survives
    hangs = f"import os, time\nos.{call} = lambda *_: (print('ready', flush=True), time.sleep(600))\n"
    saver = start(hangs + SAVES_FOR_EVER.replace('print("ready", flush=True)', ""), model)
    (stray,) = set(names_in(model.parent)) - {model.name}
    other = model.with_name("other.fpi")
    model_files.write(other, {}, {})
    assert stray in names_in(model.parent)  # its writer lives: not ours to remove
    kill(saver)
    model_files.write(other, {}, {})
    assert names_in(model.parent) == [model.name, other.name]
    other.unlink()


def test_files_of_other_users_and_of_other_machines_are_left_alone(model, monkeypatch):
    def is_alive(pid, _):
        raise ProcessLookupError if pid == 7 else PermissionError

    monkeypatch.setattr(os, "kill", is_alive)
    monkeypatch.setattr(platform, "node", lambda: "here.lan")
    left = [f".fpi-here_lan-{pid}-0123abcd.tmp" for pid in range(10, 20)]
    left += [".fpi-there-7-0123abcd.tmp", ".fpi-here_lan-7.tmp"]
    for name in [*left, ".fpi-here_lan-7-0123abcd.tmp"]:
        model.with_name(name).touch()
    model_files.write(model, {}, {})
    assert names_in(model.parent) == sorted([*left, model.name])


@pytest.mark.process
def test_two_writers_and_a_reader_do_not_clash(tmp_path, start):
    path = tmp_path / "model.fpi"
    model_files.write(path, {"fill": np.zeros(1)}, {"v": 0, "n": 1})
    writers = [start(SAVES_FOR_EVER, path) for _ in range(2)]
    for _ in range(100):
        assert_is_one_of_two(path)
    assert [writer.poll() for writer in writers] == [None, None]
