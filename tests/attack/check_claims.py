# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every test that docs/security.md names exists, in the file that is named with it; and every attack is named there."""

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]

text = (TOP / "docs/security.md").read_text()
named = set(re.findall(r"`(test_\w+?)(\*|\.py)?`", text))
here = "".join(path.read_text() for path in (TOP / "tests").rglob("*.[cp]*") if path.suffix in (".c", ".py"))
here += " ".join(path.name for path in (TOP / "tests").rglob("test_*"))
missing = sorted(name for name, _ in named if name not in here)
names = [name for name, _ in named]
attacks = [name for file in ("container", "key", "link", "message", "offpath", "process")
           for name in re.findall(r"^    def (test_\w+)", (TOP / f"tests/attack/test_{file}.py").read_text(), re.M)]
attacks += [name for file in ("attack", "flood", "replay")
            for name in re.findall(r"(?:KEYED|PLAIN)\((test_\w+)\)",
                                   (TOP / f"tests/unit/secure/test_secure_{file}.c").read_text())]
covered = [name.rstrip("_") for name, star in named if star == "*"]
unnamed = sorted({name for name in attacks if name and name not in names and
                  not any(name.startswith(prefix) for prefix in covered)})
elsewhere = []
for file, tests in re.findall(r"`(test_\w+)`:((?:\s+`test_\w+\*?`,?)+)", text):
    paths = [path for suffix in (".c", ".py") for path in (TOP / "tests").rglob(file + suffix)]
    there = "".join(path.read_text() for path in paths)
    elsewhere += [(file, name) for name in re.findall(r"`(test_\w+)", tests) if name not in there]
for file, name in elsewhere:
    print(f"docs/security.md names {name} with {file}, where it is not")
for name in missing:
    print(f"docs/security.md names {name}, which is no test")
for name in unnamed:
    print(f"docs/security.md does not say what {name} is for")
sys.exit(bool(missing or elsewhere or unnamed))
