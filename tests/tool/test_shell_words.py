# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Commands that people are told to run: each name in one is quoted for the shell (libmeshverbs/util/shell_word.h)."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
COMMAND = re.compile(r"(\b(ip (link|addr|route|neigh|netns|rule)|ethtool|sysctl|nft|iptables|modprobe|systemctl|journalctl|chmod|chown|rdma|"
                     r"devlink|mount|rm|kill|docker|podman|meshverbs (drain|undrain|keys|explain|qualify|paths|monitor))|--device)"
                     r"\b[^;,]*?%s")
TOGETHER = re.compile(r'"\s*(?:[A-Z_]+\s*)?"')  # "a" "b", or "a" MACRO "b"
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Names that this program's own kernel makes, without anything that a shell acts on.
PLAIN = ["--device /dev/infiniband/%s"]  # uverbs0


def unquoted(text):
    """Literals with a command that has a name in it, in statements without MV_SHELL()."""
    for statement in re.split(r";\s*\n|\n\n", TOGETHER.sub("", text)):
        if "MV_SHELL" not in statement:
            yield from (word for word in LITERAL.findall(statement)
                        if COMMAND.search(word) and not any(plain in word for plain in PLAIN))


class ShellWordsTest(unittest.TestCase):
    def test_sources(self):
        files = [path for folder in ("tools", "meshverbsd", "libmeshverbs", "providers") for path in (ROOT / folder).rglob("*.c")]
        self.assertGreater(len(files), 100)
        self.assertEqual({str(path): found for path in files if (found := list(unquoted(path.read_text())))}, {})

    def test_is_found(self):
        self.assertEqual(list(unquoted('words("see: ip link "\n"set %s up", name);\n')), ["see: ip link set %s up"])
        self.assertEqual(list(unquoted('words("see: ip link set %s up", MV_SHELL(name));\n')), [])
        self.assertEqual(list(unquoted('words("see ip link, netdev %s", name);\n')), [])


if __name__ == "__main__":
    unittest.main()
