# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The initramfs: busybox, the guest's /init, and the modules needed before the host's root is mounted."""
import pathlib
import re
import shutil

from . import kernel as kernels
from .errors import LabError

INIT = pathlib.Path(__file__).resolve().parent.parent / "guest" / "init"
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net", "virtio_console"]


def build(kernel):
    """The archive's bytes (cpio, "newc")."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise LabError("no busybox here; run scripts/deps lab")
    archive = Archive()
    for directory in ("bin", "modules"):
        archive.add(directory, 0o040755)
    archive.add("bin/busybox", 0o100755, pathlib.Path(busybox).read_bytes())
    archive.add("init", 0o100755, INIT.read_bytes())
    for number, path in enumerate(in_load_order(kernel)):
        # busybox knows no compressed modules
        archive.add(f"modules/{number:02}-{path.name.split('.')[0]}.ko", 0o100644, kernels.decompressed(path.read_bytes()))
    return archive.finish()


def in_load_order(kernel):
    """Files of MODULES and of all they need, each after what it depends on."""
    root = kernel.modules / kernel.release
    deps = {}
    for line in (root / "modules.dep").read_text().splitlines():
        name, _, needs = line.partition(":")
        deps[name] = needs.split()
    builtin = (root / "modules.builtin").read_text()
    order = []
    for module in MODULES:
        path = next((p for p in deps if re.search(rf"/{module}\.ko(\.\w+)?$", p)), None)
        if not path:
            if f"/{module}.ko\n" in builtin:
                continue
            raise LabError(f"kernel {kernel.release} has no module {module}")
        for needed in [*reversed(deps[path]), path]:  # depmod lists the nearest dependency first
            if needed not in order:
                order.append(needed)
    return [root / p for p in order]


class Archive:
    def __init__(self):
        self.parts = []
        self.inode = 0

    def add(self, name, mode, data=b""):
        self.inode += 1
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
        self.parts += [pad(header), pad(data)]

    def finish(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def pad(data):
    return data + b"\0" * (-len(data) % 4)
