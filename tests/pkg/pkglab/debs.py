# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian packages: built in a clean root, looked over, built again."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from . import REPO, Failed, check, roots

TOOLS = ["dpkg-dev", "build-essential", "lintian"]
# The second one reads machine code as words: "wtH with".
NO_WONDER = ["bad-distribution-in-changes-file", "spelling-error-in-binary"]


def version():
    return re.search(r"^project\(meshverbs VERSION ([0-9.]+) ", (REPO / "CMakeLists.txt").read_text(), re.M)[1]


def source_archive(folder):
    """The archive that a release has, of the working tree as it is (files that git knows)."""
    folder.mkdir(parents=True, exist_ok=True)
    git = ["git", "-C", str(REPO)]
    commit = subprocess.run([*git, "stash", "create"], text=True, capture_output=True, check=True).stdout.strip() or "HEAD"
    subprocess.run([str(REPO / "scripts/dist"), str(folder), commit], stdout=subprocess.DEVNULL, check=True)
    return folder / f"meshverbs-{version()}.tar.xz"


def build_root():
    """Has what debian/control names, and nothing else but tools."""
    control = (REPO / "debian/control").read_text()

    def add_control(root):
        there = root.path / "tmp-src/debian"
        there.mkdir(parents=True)
        for name in ("control", "changelog"):
            shutil.copy(REPO / "debian" / name, there)

    def make(path):
        root = roots.copy(roots.base(), path)
        add_control(root)
        root.apt("update")
        root.apt("install", *TOOLS)
        root.apt("build-dep", "/tmp-src")
        root.apt("clean")
        shutil.rmtree(root.path / "tmp-src")
        root.run("useradd", "--create-home", "--home-dir", "/home/builder", "builder")
    needs = re.search(r"^Build-Depends:.*?(?=^\S)", control, re.M | re.S)[0]
    return roots.cached("build", " ".join([needs, *TOOLS]), make)


def unpack(root, archive, folder):
    """The source tree in the root, the builder's; its path there."""
    place = root.path / folder.lstrip("/")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(place)], check=True)
    root.run("chown", "-R", "builder:builder", folder)
    return f"{folder}/meshverbs-{version()}"


def build(root, archive, out, folder="/home/builder/one", env=None, args=(), umask="022"):
    """Build source and binary packages into out; all that came out."""
    tree = unpack(root, archive, folder)
    said = root.run("sh", "-c", f'umask {umask}; exec "$@"', "sh", "dpkg-buildpackage", "--no-sign", *args, user="builder", cwd=tree,
                    env={"HOME": "/home/builder", **(env or {})})
    out.mkdir(parents=True, exist_ok=True)
    made = sorted(path for path in (root.path / folder.lstrip("/")).iterdir() if path.is_file())
    for path in made:
        shutil.copy2(path, out)
    (out / "build.log").write_text(said)
    return [out / path.name for path in made]


def packages(files):
    return [str(path) for path in files if path.suffix == ".deb" and "-dbgsym_" not in path.name]


def changes(out, arch="amd64"):
    found = sorted(out.glob(f"*_{arch}.changes"))
    if len(found) != 1:
        raise Failed(f"no .changes in {out}")
    return found[0]


def lint(root, out, arch="amd64"):
    there = root.take([path for path in out.iterdir() if path.is_file()], f"/lint-{arch}")
    said = root.run("lintian", "--allow-root", "--pedantic", "--display-info", "--suppress-tags", ",".join(NO_WONDER),
                    "--fail-on", "none", str(pathlib.Path(there[0]).parent / changes(out, arch).name))
    check(not said.strip(), f"lintian has nothing to say, pedantic ones included\n{said}".strip())


def hashes(out):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.glob("*.deb")}


def build_twice(root, archive, first, work):
    """Elsewhere, later, by another clock's zone, in another language, with other umask and number of jobs."""
    env = {"TZ": "Pacific/Chatham", "LC_ALL": "C", "DEB_BUILD_OPTIONS": "nocheck parallel=1"}
    second = work / "again"
    build(root, archive, second, "/home/builder/somewhere/else", env, ["-b"], "002")
    check(hashes(first) == hashes(second), f"two builds are byte-identical: {', '.join(sorted(hashes(first)))}"
          if hashes(first) == hashes(second) else f"two builds differ: {first} {second}")
    return os.fspath(second)
