"""The structs and functions that libiter._native declares are those of iter/*.h: names, order, offsets, sizes, and
the kinds of arguments."""
from __future__ import annotations

import ctypes as c
import glob
import os
import re
import unittest

from libiter import _diagnose
from libiter import _native as n
from support import ROOT

NUMBERS = {
    "bool": c.c_bool,
    "size_t": c.c_size_t, "char": c.c_char, "int": c.c_int, "double": c.c_double,
    "int8_t": c.c_int8, "uint8_t": c.c_uint8, "int16_t": c.c_int16, "uint16_t": c.c_uint16,
    "int32_t": c.c_int32, "uint32_t": c.c_uint32, "int64_t": c.c_int64, "uint64_t": c.c_uint64,
}  # fmt: skip
ENUMS = {"iter_status", "iter_dtype", "iter_role"}

STRUCTS = {
    "iter_error": n.ErrorStruct,
    "iter_desc": n.Desc,
    "iter_tensor": n.Tensor,
    "iter_batch_field": n.BatchField,
    "iter_batch_info": n.BatchInfo,
    "iter_loader_share": n.LoaderShare,
    "iter_array": n.Array,
    "iter_dataset_options": n.DatasetOptions,
    "iter_field": n.FieldStruct,
    "iter_description": n.Description,
    "iter_rng": n.Rng,
    "iter_dataset_ops": n.DatasetOps,
    "iter_stall": n.Stall,
    "iter_batch_view": n.BatchView,
    "iter_loader_sampler": n.SamplerOptions,
    "iter_loader_reading": n.ReadingOptions,
    "iter_loader_memory": n.MemoryOptions,
    "iter_loader_faults": n.FaultsOptions,
    "iter_loader_watch": n.WatchOptions,
    "iter_loader_arrays": n.ArraysOptions,
    "iter_loader_options": n.LoaderOptions,
    "iter_failure": n.Failure,
    "iter_worker_stats": n.WorkerStats,
    "iter_loader_stats": n.LoaderStats,
    "iter_activity_info": n.ActivityInfo,
    "iter_profile_options": n.ProfileOptions,
    "iter_ranks": n.RanksStruct,
    "iter_dlpack_tensor": n.DlpackTensor,
    "iter_dlpack": n.Dlpack,
    **_diagnose.STRUCTS,
}


def read(path):
    with open(path) as file:
        return file.read()


def header_text():
    texts = [read(path) for path in sorted(glob.glob(os.path.join(ROOT, "iter", "*.h")))]
    return re.sub(r"/\*.*?\*/", " ", "\n".join(texts), flags=re.S)


TEXT = header_text()
DEFINES = {name: int(value) for name, value in re.findall(r"#define (ITER_\w+)\s+(\d+)\s*$", TEXT, re.M)}
DEFINES["ITER_PATH_COUNT"] = len(re.search(r"enum iter_path \{(.*?)ITER_PATH_COUNT", TEXT, re.S).group(1).split(",")) - 1


def extent(text):
    """The value of an array's size, such as ITER_MAX_DIMS + 8."""
    return sum(DEFINES[part.strip()] if part.strip() in DEFINES else int(part) for part in text.split("+"))


def members(name):
    """[(name, type)] of a struct, as the headers have them; all pointers are void *."""
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), TEXT, re.S).group(1)
    found = []
    for member in (" ".join(part.split()) for part in re.sub(r"\([^()]*\)(?=;)", "()", body).split(";")):
        if not member:
            continue
        function = re.search(r"\(\*(\w+)\)", member)
        if function:
            found.append((function.group(1), c.c_void_p))
            continue
        kind, names = re.match(r"(?:const )?(?:struct )?(\w+) (.*)", member).groups()
        for one in names.split(","):
            one = one.strip()
            made = c.c_void_p if "*" in one else NUMBERS.get(kind) or (c.c_int if kind in ENUMS else struct(kind))
            sizes = re.findall(r"\[([^]]*)\]", one)
            for size in reversed(sizes):
                made = made * extent(size)
            found.append((re.search(r"\w+(?=\[|$)", one).group(0), made))
    return found


def struct(name):
    return type(name, (c.Structure,), {"_fields_": members(name)})


def kind_of(text):
    """p for a pointer, else the size of the number, for one argument or result of a declaration."""
    text = " ".join(text.replace("const ", " ").replace("struct ", " ").split())
    if "*" in text:
        return "p"
    if text == "void":
        return "v"
    name = text.split()[0]
    return NUMBERS[name]._type_ if name in NUMBERS else "i" if name in ENUMS else name


def kind_in(made):
    """The same, for a type of ctypes."""
    if made is None:
        return "v"
    if made in (c.c_void_p, c.c_char_p) or issubclass(made, (c._Pointer, c._CFuncPtr)):
        return "p"
    return made._type_ if hasattr(made, "_type_") else {n.BatchInfo: "iter_batch_info", n.LoaderShare: "iter_loader_share"}[made]


class Structs(unittest.TestCase):
    def test_each_is_the_headers(self):
        for name, ours in STRUCTS.items():
            with self.subTest(name):
                header = struct(name)
                self.assertEqual(n.names_of(ours), [member for member, _ in members(name)])
                for member in n.names_of(ours):
                    theirs, own = getattr(header, member), getattr(ours, member)
                    self.assertEqual((member, own.offset, own.size), (member, theirs.offset, theirs.size))
                self.assertEqual(c.sizeof(ours), c.sizeof(header))

    def test_none_is_left_out(self):
        """A struct added to _native must be added to the table above."""
        declared = {value for value in vars(n).values() if isinstance(value, type) and issubclass(value, c.Structure)}
        self.assertEqual(declared - {c.Structure}, set(STRUCTS.values()) - set(_diagnose.STRUCTS.values()))


class Functions(unittest.TestCase):
    def test_each_is_the_headers(self):
        used = set(re.findall(r'declare\("(\w+)"', read(n.__file__)))
        self.assertGreater(len(used), 40)
        for name in sorted(used):
            with self.subTest(name):
                found = re.search(r"ITER_API (?:ITER_NODISCARD )?([\w ]+?[ *]+)%s\((.*?)\);" % name, TEXT, re.S)
                self.assertIsNotNone(found, "no header declares it")
                arguments = [part for part in re.sub(r"\s+", " ", found.group(2)).split(",") if part.strip() != "void"]
                function = getattr(n.blocking, name)
                self.assertEqual(kind_in(function.restype), kind_of(found.group(1)))
                self.assertEqual([kind_in(x) for x in function.argtypes], [kind_of(x) for x in arguments])

    def test_blocking_calls_release_the_gil(self):
        """next, reset, close, create and whatever else may wait must not go through `quick`."""
        folder = os.path.dirname(n.__file__)
        blocking = {"iter_loader_next_within", "iter_loader_reset", "iter_loader_seek", "iter_loader_restore",
                    "iter_loader_unref", "iter_loader_stop_within", "iter_dataset_open_with", "iter_dataset_create",
                    "iter_dataset_unref", "iter_dataset_read", "iter_dataloader_create", "iter_ndarray_create",
                    "iter_chain_parse", "iter_chain_unref", "iter_sample_free"}  # fmt: skip
        for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True):
            quick = set(re.findall(r"\bquick\.(iter_\w+)", read(path)))
            self.assertEqual(quick & blocking, set(), path)


class Constants(unittest.TestCase):
    def test_statuses(self):
        statuses = {name: int(value) for name, value in re.findall(r"\bX\((\w+), (-?\d+), \"", TEXT)}
        statuses.pop("PENDING")  # sources alone return it
        for name, value in statuses.items():
            if value < 0:
                self.assertEqual(n._errors[value].status, name)
            self.assertEqual(getattr(n, name), value)
        self.assertEqual(len(n._errors), sum(value < 0 for value in statuses.values()))

    def test_dtypes(self):
        from libiter import _tensors

        body = re.search(r"typedef enum iter_dtype \{(.*?)\} iter_dtype;", TEXT, re.S).group(1)
        names = {int(value): name.lower() for name, value in re.findall(r"ITER_(\w+) = (\d+)", body)}
        for code, name in names.items():
            if code:
                self.assertEqual(_tensors.dtype_text(code), name)
                size = {"f": 0, "u": 0, "i": 0}.get(name[0])
                size = int(name[1:]) // 8 if size is not None else 2 if name == "bf16" else 1
                self.assertEqual(_tensors._itemsizes[code], size)

    def test_words_of_options(self):
        """The words of each choice have the order of the enum."""
        from libiter import _options as o

        for enum, words in {"iter_shuffle": o.SHUFFLES, "iter_last_batch": o.LAST_BATCHES, "iter_source": o.SOURCES,
                            "iter_on_error": o.ON_ERRORS, "iter_lookahead": o.LOOKAHEADS, "iter_memory": o.MEMORIES,
                            "iter_finish": o.FINISHES, "iter_resident_mode": o.RESIDENTS,
                            "iter_share": o.SHARES}.items():  # fmt: skip
            body = re.search(r"typedef enum %s \{(.*?)\} %s;" % (enum, enum), TEXT, re.S).group(1)
            found = re.findall(r"ITER_(\w+) = (\d+)", body)
            self.assertEqual([int(value) for _, value in found], list(range(len(words))), enum)
            for (name, _), word in zip(found, words):
                self.assertTrue(name.lower().replace("_", "-").endswith(word), "%s: %s" % (name, word))

    def test_unknown(self):
        self.assertIn("#define ITER_UNKNOWN", TEXT)
        self.assertEqual(n.UNKNOWN, c.c_uint64(-1).value)
        for name, value in (("ITER_MAX_DIMS", n.MAX_DIMS), ("ITER_MAX_FIELDS", n.MAX_FIELDS)):
            self.assertEqual(DEFINES[name], value)


if __name__ == "__main__":
    unittest.main()
