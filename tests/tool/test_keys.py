# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs keys: what an agent answers, what it is told, and what is said of it."""

import json
import pathlib
import subprocess
import textwrap
import unittest

from fixture import TOOL, ToolTest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OWN, B, C, D, E, F = (letter * 43 + "=" for letter in "OBCDEF")
SINCE = 1790000000  # 2026-09-21 14:13 UTC
IDENTITY = {"name": "a", "key": OWN, "lasting": True, "since": SINCE}


def host(name, trust, key=None, pinned=None, how="first-contact", authenticated=False):
    return {"name": name, "id": name * 32, "trust": trust, "authenticated": authenticated, "heard_ms_ago": 300,
            **({"key": key} if key else {}), **({"pinned_key": pinned, "how": how, "since": SINCE} if pinned else {})}


GOOD = host("b", "pinned", B, B, authenticated=True)


class KeysTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.env["TZ"] = "UTC"

    def answers(self, *hosts, pins=(), revoked=(), identity=IDENTITY, fleet_key=False, do=b'{"error":"no order was expected"}\n', **status):
        keys = {"fleet_key": fleet_key, "identity": identity, "hosts": hosts, "pins": pins, "revoked": revoked}
        self.agent({"keys": json.dumps(keys).encode(), "do": do,
                    "status": json.dumps({"agent": "meshverbsd", "keys_unsaved": False, **status}).encode()})

    def orders(self):
        return [json.loads(request) for request in self.requests if "do" in json.loads(request)]

    def test_show(self):
        self.answers(GOOD, host("c", "none"), pins=[{"name": "b", "pinned_key": B, "how": "first-contact", "since": SINCE},
                                                    {"name": "d", "pinned_key": D, "how": "operator", "since": SINCE, "seen": SINCE + 60},
                                                    {"name": "e", "pinned_key": E, "how": "hosts-file"}])
        self.expect(["keys"], 0, textwrap.dedent(f"""\
            This host:      a
            Key:            {OWN}
            Made:           2026-09-21 14:13

            Other hosts
              HOST  KEY                                           TRUSTED BY     SINCE             LAST SEEN         STATE
              b     {B}  first-contact  2026-09-21 14:13  0.3 s ago         authenticated
              c     -                                             -              -                 0.3 s ago         not authenticated: its agent has no identity
              d     {D}  operator       2026-09-21 14:13  2026-09-21 14:14  not heard
              e     {E}  hosts-file     -                 -                 not heard
            """))
        got = self.run_json("keys")
        self.assertEqual(got["identity"], {"name": "a", "key": OWN, "lasting": True, "since": SINCE})
        self.assertEqual([(row["host"], row["trust"], row["how"], row["authenticated"], row["heard_ms"], row["seen"]) for row in got["hosts"]], [
            ("b", "pinned", "first-contact", True, 300, None), ("c", "none", None, False, 300, None),
            ("d", "not-heard", "operator", False, None, SINCE + 60), ("e", "not-heard", "hosts-file", False, None, None)])
        self.assertEqual((got["hosts"][0]["id"], got["hosts"][0]["key"], got["hosts"][0]["pinned_key"], got["hosts"][0]["since"]),
                         ("b" * 32, B, B, SINCE))
        self.assertEqual((got["fleet_key"], got["revoked"]), (False, []))

    def test_distrusted(self):
        self.answers(GOOD, host("c", "changed", C, D), host("d", "revoked", E), host("e", "unpinned", F), host("f", "pinned", F, F),
                     revoked=[{"name": "d", "key": E, "since": SINCE}])
        status, out, err = self.run_tool("keys")
        self.assertEqual((status, err), (1, ""))
        for text in (f"  c     {D}  first-contact  2026-09-21 14:13  0.3 s ago  not authenticated: it shows another key, {C}; "
                     "if it was installed anew: meshverbs keys forget c\n",
                     f"  d     {E}  revoked        -                 0.3 s ago  not authenticated: its key is revoked\n",
                     f"  e     {F}  -              -                 0.3 s ago  not authenticated: beyond a router a first contact proves "
                     f"nothing: meshverbs keys pin e {F}\n",
                     "not authenticated yet: it has sealed nothing for this host\n",
                     f"\nRevoked keys, never believed\n  HOST  KEY                                           SINCE\n  d     {E}  2026-09-21 14:13\n"):
            self.assertIn(text, out)
        got = self.run_json("keys", status=1)
        self.assertEqual([row["trust"] for row in got["hosts"]], ["pinned", "changed", "revoked", "unpinned", "pinned"])
        self.assertEqual(got["revoked"], [{"host": "d", "key": E, "since": SINCE}])

    def test_host_id_of_another(self):
        self.answers(host("c", "changed", C))
        self.assertIn("not authenticated: it has the host id of a host that is known with another key\n", self.run_tool("keys")[1])

    def test_no_identity(self):
        self.answers(identity=None, identity_error="/var/lib/meshverbs/identity: others may use it")
        self.expect(["keys"], 1, "This host:      has no identity: /var/lib/meshverbs/identity: others may use it\n")
        got = self.run_json("keys", status=1)
        self.assertEqual((got["identity"], got["identity_error"]), (None, "/var/lib/meshverbs/identity: others may use it"))

    def test_in_memory_only(self):
        self.answers(identity={"name": "a", "key": OWN, "lasting": False})
        self.assertIn("\nMade:           at the start of the agent, and gone with it: its file cannot be written\n", self.run_tool("keys")[1])

    def test_former_key(self):
        self.answers(identity={**IDENTITY, "former_key": B})
        self.assertIn(f"\nFormer key:     {B}\n", self.run_tool("keys")[1])

    def test_fleet_key(self):
        """With one, identities do nothing, and not to have one is nothing to be seen to."""
        self.answers(host("b", "none", authenticated=True), identity=None, fleet_key=True)
        status, out, err = self.run_tool("keys")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("Fleet key:      yes: hosts know each other by it, and identities do nothing\n", out)
        self.assertRegex(out, r"\n  b     -    fleet-key   -      0.3 s ago  authenticated\n")

    def test_many(self):
        """Keys of hosts that are heard are not listed twice, however many there are."""
        n = 3000
        self.answers(*(host(f"n{i}", "pinned", B, B, authenticated=True) for i in range(n)),
                     pins=[{"name": f"n{i}", "pinned_key": B, "how": "operator", "since": 1} for i in range(2 * n)])
        self.assertEqual(len(self.run_json("keys")["hosts"]), 2 * n)

    def test_orders(self):
        for words, order, done in (
                (["pin", "b", B], {"do": "key-pin", "host": "b", "key": B}, "has to show this key from now on"),
                (["forget", "b"], {"do": "key-forget", "host": "b"}, "no key is known any more: the next one that it shows as a neighbour will be"),
                (["revoke", "b"], {"do": "key-revoke", "host": "b"}, "this key is never believed again, by this host"),
                (["revoke", "b", B], {"do": "key-revoke", "host": "b", "key": B}, "this key is never believed again, by this host"),
                (["restore", "b"], {"do": "key-restore", "host": "b"}, "this key may be believed again")):
            with self.subTest(words=words):
                (self.dir / "rund/control").unlink(missing_ok=True)
                self.answers(do=json.dumps({"host": "b", "key": B}).encode())
                self.expect(["keys", *words], 0, f"b:              {done}\nKey:            {B}\n")
                self.assertEqual(self.orders(), [order])
                self.assertEqual(self.run_json("keys", *words), {"done": words[0], "host": "b", "key": B, "former_key": None, "saved": True})

    def test_rotate(self):
        self.answers(do=json.dumps({"key": C, "former_key": OWN}).encode())
        self.expect(["keys", "rotate"], 0, textwrap.dedent(f"""\
            This host:      has another key, which the former one has signed: hosts that know that one take it
            Key:            {C}
            Former key:     {OWN}
            """))
        self.assertEqual(self.orders(), [{"do": "key-rotate"}])

    def test_rotate_cannot_be_written(self):
        self.answers(do=json.dumps({"key": C, "former_key": OWN}).encode(), rotate_error="No space left on device")
        self.expect_error(["keys", "rotate"], "meshverbs: this host keeps its key, for the new one cannot be written: No space left on device\n")

    def test_cannot_be_written(self):
        self.answers(do=json.dumps({"host": "b", "key": B}).encode(), keys_unsaved=True, keys_error="No space left on device")
        status, out, err = self.run_tool("keys", "forget", "b", "-j")
        self.assertEqual((status, json.loads(out)["saved"]), (1, False))
        self.assertEqual(err, "meshverbs: it is in force, but cannot be written, and is forgotten when the agent ends: No space left on device\n")

    def test_returns_when_it_is_written(self):
        class Agent(dict):
            """Has written it when it is asked the third time."""
            asked = 0

            def get(self, what, _=None):
                if what == "do":
                    return json.dumps({"host": "b", "key": B}).encode()
                self.asked += 1
                return json.dumps({"agent": "meshverbsd", "keys_unsaved": self.asked < 3}).encode()

        self.agent(Agent())
        self.assertEqual(self.run_json("keys", "forget", "b")["saved"], True)
        self.assertEqual(len(self.requests), 4)

    def test_refused(self):
        self.answers(do=b'{"error":"no key of host x is known: meshverbs keys lists them"}\n')
        self.expect_error(["keys", "forget", "x"], "meshverbs: no key of host x is known: meshverbs keys lists them\n")

    def test_older_agent(self):
        self.agent({"get": b"{}\n", "do": b"{}\n"})
        self.expect_error(["keys"], "meshverbs: the agent at DIR/rund/control gave an answer without keys: it is of another version\n")
        self.expect_error(["keys", "rotate"], "meshverbs: the agent at DIR/rund/control gave an answer without a word on keys: it is of "
                                              "another version\n")

    def test_completion(self):
        """Names of hosts come from the command itself."""
        self.answers(GOOD, host("b2", "none"), pins=[{"name": "d", "pinned_key": D, "how": "operator", "since": SINCE}])
        (self.dir / "bin").mkdir()
        (self.dir / "bin/meshverbs").symlink_to(TOOL)
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _meshverbs; printf "%s\\n" "${COMPREPLY[@]}"'
        for words, names in ((["forget", ""], ["b", "b2", "d"]), (["pin", "b"], ["b", "b2"]), (["rotate", ""], [])):
            done = subprocess.run(["bash", "-c", script, "bash", str(SOURCE / "tools/completion/meshverbs"), "meshverbs", "keys", *words],
                                  env={**self.env, "PATH": f"{self.dir}/bin:{self.env['PATH']}"}, text=True, capture_output=True, check=True,
                                  timeout=60)
            self.assertEqual((done.stdout.split(), done.stderr), (names, ""))

    def test_usage(self):
        for words, error in (
                (["frob"], "'frob' is not expected; there are pin, forget, revoke, restore and rotate"),
                (["pin"], "pin: the name of a host is missing"), (["pin", "b"], "pin: the key is missing"),
                (["pin", "b", B, "c"], "'c' is not expected"), (["forget"], "forget: the name of a host is missing"),
                (["forget", "b", B], f"'{B}' is not expected"), (["rotate", "b"], "'b' is not expected"),
                (["forget", "x" * 64], f"'{'x' * 64}' is no name of a host"), (["revoke", ""], "'' is no name of a host"),
                (["pin", "b", "abc"], "'abc' is no key of a host: copy all 44 characters that meshverbs keys shows there")):
            self.expect_error(["keys", *words], f"meshverbs keys: {error}\nTry: meshverbs help keys\n")
        for words in ([], ["rotate"]):
            self.expect_error(["keys", *words], "meshverbs: no agent answers at DIR/rund/control: start meshverbsd, or name its "
                                                "directory with --run-dir or --control-dir\n")


if __name__ == "__main__":
    unittest.main()
