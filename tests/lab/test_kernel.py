#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The lab's kernels: images and modules as Debian's suites compress them; on made-up ones."""
import gzip
import lzma
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from rdmalab import LabError, initramfs, kernel  # noqa: E402  (the path comes first)

ELF = b"\x7fELF" + bytes(range(256)) * 40


def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


COMPRESSED = {"not": bytes, "gzip": gzip.compress, "xz": lambda data: lzma.compress(data, check=lzma.CHECK_CRC32)}
if shutil.which("zstd"):
    COMPRESSED["zstd"] = zstd


def bzimage(payload, sectors=3, offset=700):
    """Set-up code, what unpacks, the payload with its size behind it, and what else the kernel has there."""
    head = bytearray((sectors + 1) * 512 + offset)
    head[0x1F1] = sectors
    struct.pack_into("<II", head, 0x248, offset, len(payload) + 4)
    head[600:606] = b"\xfd7zXZ\0"  # these bytes may be anywhere
    return bytes(head) + payload + struct.pack("<I", len(ELF)) + b"more"


class Image(unittest.TestCase):
    def test_compressions(self):
        for name, compress in COMPRESSED.items():
            with self.subTest(name):
                self.assertEqual(kernel.elf(bzimage(compress(ELF)), "1"), ELF)

    def test_unknown(self):
        for payload in (b"LZO" * 100, gzip.compress(b"no ELF"), b""):
            with self.assertRaises(LabError):
                kernel.elf(bzimage(payload), "1")


class Modules(unittest.TestCase):
    """A driver that needs another, files of that ending, and one that is built in."""

    def order(self, ending):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder, "6.0")
            root.mkdir()
            names = [name for name in initramfs.MODULES if name != "overlay"]
            lines = [f"kernel/x/{name}.ko{ending}: kernel/x/needed.ko{ending}" for name in names] + [f"kernel/x/needed.ko{ending}:",
                                                                                                    f"kernel/x/my{names[0]}.ko{ending}:"]
            (root / "modules.dep").write_text("\n".join(lines) + "\n")
            (root / "modules.builtin").write_text("kernel/x/overlay.ko\n")
            got = initramfs.in_load_order(types.SimpleNamespace(modules=pathlib.Path(folder), release="6.0"))
            return [path.name for path in got], [f"needed.ko{ending}", *(f"{name}.ko{ending}" for name in names)]

    def test_endings(self):
        for ending in ("", ".xz", ".zst", ".gz"):
            with self.subTest(ending):
                self.assertEqual(*self.order(ending))


class Suites(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.environ.pop, "LAB_KERNEL", None)

    def test_none(self):
        os.environ.pop("LAB_KERNEL", None)
        self.assertEqual(kernel.apt("apt-get", "update"), ["apt-get", "update"])

    def test_bad_name(self):
        os.environ["LAB_KERNEL"] = "../sid"
        with self.assertRaises(LabError):
            kernel.suite()

    def test_own_lists(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update(LAB_KERNEL="sid", LAB_CACHE=folder)
            self.addCleanup(os.environ.pop, "LAB_CACHE")
            words = kernel.apt("apt-get", "update")
            self.assertIn(f"-oDir::State::Lists={folder}/apt-sid/lists", words)
            self.assertIn(" sid main", pathlib.Path(folder, "apt-sid/sources.list").read_text())


if __name__ == "__main__":
    unittest.main()
