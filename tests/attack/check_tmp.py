# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Nothing writes a file in /tmp by a name that others can guess: they may have made it, as a link to a file of root's.

Names come from mkstemp(3), mkdtemp(3) (with XXXXXX), mktemp(1) or Python's tempfile.
"""

import os
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
# Where /tmp is not the host's, or nothing is written.
OTHERWISE = {
    "docs/containers.md": "in an image",
    "tests/attack/check_tmp.py": "this file",
    "tests/distro/distros/plays.py": "in a root with a /tmp of its own",
    "tests/lab/gids/guest.sh": "in a guest",
    "tests/pkg/pkglab/arm.py": "in a root with a /tmp of its own",
    "tests/pkg/pkglab/debs.py": "in a root with a /tmp of its own",
    "tests/sim/hosts/test_hosts.py": "on a simulated host with a /dev/shm of its own",
    "tests/tool/test_lab.py": "in a guest",
    "tests/tool/test_status.py": "a text that is shown",
}


def files():
    for folder, folders, names in os.walk(TOP):
        folders[:] = [name for name in folders if not name.startswith(".git") and (folder != str(TOP) or not name.startswith(("build", "obj-")))]
        yield from (pathlib.Path(folder, name) for name in names)


found = []
for path in sorted(files()):
    name = str(path.relative_to(TOP))
    if name in OTHERWISE or path.is_symlink() or "/corpus/" in name:
        continue
    data = path.read_bytes()
    if b"\0" in data:  # compiled, e.g. in debian/meshverbs after dpkg-buildpackage
        continue
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        for guess in re.findall(r"(?:/tmp|/var/tmp|/dev/shm)/[\w.{}$*-]+", line):
            if "XXXXXX" not in guess:
                found.append(f"{name}:{number}: {guess}")
print("\n".join(found))
sys.exit(bool(found))
