#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Compares the plugin's list of functions that make keys with rdma-core's headers and with the documentation.

    mrsources.py SOURCE_TREE [INCLUDE_DIR...]     by default those that are installed; others: of another rdma-core
"""
import pathlib
import re
import sys

HEADERS = ("infiniband/verbs.h", "infiniband/mlx5dv.h")
ROW = re.compile(r'^\s*X\((\w+), (\w+), "', re.M)
DOC_ROW = re.compile(r"^\| (.*?) \| (\w+) \|", re.M)
WORDS = {"FOLLOWED": "followed", "STAYS": "stays", "FOUND": "found", "ALONE": "alone"}

# What a function is called, or gives, that makes a key or changes one; and what only takes one away.
MAKES = re.compile(r"_(mr|mw|mkey|rkey|lkey|inv)(_|$)|_import_(?!dm)|_devx_general_cmd$")
GIVES = re.compile(r"struct (ibv_mr|ibv_mw|mlx5dv_mkey|mlx5dv_devx_obj)\s*\*\s*$")
TAKES = re.compile(r"_(dereg|dealloc|destroy|unimport|free)_|_wc_read_|_umem_import|_var_import")


def functions(text):
    """Names of those in a header that make a key."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    return {
        name
        for returned, name in re.findall(r"([\w\s*]*?)\b((?:ibv|mlx5dv)_\w+)\s*\(", text)
        if (MAKES.search(name) or GIVES.search(returned)) and not TAKES.search(name)
    }


def listed(tree):
    return dict(ROW.findall((tree / "providers/mesh/mr/mrsources.h").read_text()))


def documented(tree):
    text = (tree / "docs/compatibility.md").read_text()
    section = text.split("## Ways to register memory", 1)[1].split("\n## ", 1)[0]
    return {name: how for names, how in DOC_ROW.findall(section) for name in re.findall(r"`(\w+)\(\)`", names)}


def wrong(tree, includes):
    """Lines."""
    known, docs = listed(tree), documented(tree)
    for include in includes:
        for header in HEADERS:
            path = include / header
            if path.exists():
                found = functions(path.read_text())
                if not found:
                    yield f"{path}: no function that makes a key was found"
                yield from (f"{path}: {name}() is not in providers/mesh/mr/mrsources.h" for name in sorted(found - set(known)))
    for name, what in known.items():
        if docs.get(name) != WORDS.get(what):
            yield f"{name}() is {what} in providers/mesh/mr/mrsources.h and {docs.get(name, 'nothing')} in docs/compatibility.md"
    yield from (f"{name}() is in docs/compatibility.md alone" for name in docs if name not in known)


def main():
    tree = pathlib.Path(sys.argv[1])
    includes = [pathlib.Path(arg) for arg in sys.argv[2:]] or [pathlib.Path("/usr/include")]
    if not any((include / HEADERS[0]).exists() for include in includes):
        print(f"no {HEADERS[0]} in {' '.join(map(str, includes))}")
        return 77
    lines = list(wrong(tree, includes))
    print("\n".join(lines) or f"{len(listed(tree))} functions")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
