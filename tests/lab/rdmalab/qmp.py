# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""QEMU's control socket."""
import json
import socket
import time

from .errors import LabError


def execute(path, command, **arguments):
    """Run one QMP command and return its value."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        try:
            connect(sock, str(path))
            stream = sock.makefile("rw", encoding="utf-8")
            stream.readline()  # greeting
            ask(stream, "qmp_capabilities", {})
            return ask(stream, command, arguments)
        except (OSError, ValueError) as err:
            raise LabError(f"QEMU does not answer on {path}: {err}") from None


def connect(sock, path):
    """A socket that QEMU has made, but does not listen on yet, refuses."""
    end = time.monotonic() + 60
    while True:
        try:
            return sock.connect(path)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def ask(stream, command, arguments):
    stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    stream.flush()
    while True:
        reply = json.loads(stream.readline())
        if "error" in reply:
            raise LabError(f"QEMU refused {command}: {reply['error']['desc']}")
        if "return" in reply:
            return reply["return"]
