#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""./check says at once that it cannot run in a chroot, how it can, and goes on where a root was pivoted: test_chroot.py. Needs root."""
import os
import pathlib
import subprocess
import sys
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 120
# A root made of this one's folders, with a scripts/deps that ends the check: what is tested comes before it.
ROOT = """set -e
mount -t tmpfs tmpfs /mnt
cd /mnt
for d in /bin /sbin /lib /lib64 /usr; do
    if [ -L $d ]; then cp -a $d .$d; elif [ -d $d ]; then mkdir .$d; mount --bind $d .$d; fi
done
mkdir -p proc dev tmp tree/scripts .old
mount -t proc proc proc
mount --rbind /dev dev
cp "$0/check" tree/
printf '#!/bin/sh\\necho deps; exit 9\\n' >tree/scripts/deps
chmod +x tree/scripts/deps
"""
CHROOT = 'exec chroot . /tree/check "$@"'
PIVOT = 'pivot_root . .old && cd / && umount -l .old && exec /tree/check "$@"'


def check(how, *sets):
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "bash", "-c", ROOT + how, str(REPO), *sets], check=False,
                          capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, done.stdout, done.stderr


class Chroot(unittest.TestCase):
    def test_chroot_is_refused(self):
        status, out, err = check(CHROOT, "sim")
        self.assertEqual((status, out), (2, ""), err)
        self.assertIn("chroot", err)
        self.assertIn("pivot_root", err)

    def test_sanitizers_need_no_namespace(self):
        self.assertEqual(check(CHROOT, "sanitize"), (9, "deps\n", ""))

    def test_root_of_the_namespace(self):
        self.assertEqual(check(PIVOT, "sim"), (9, "deps\n", ""))


if __name__ == "__main__":
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        print("needs root and mount namespaces")
        sys.exit(77)
    unittest.main()
