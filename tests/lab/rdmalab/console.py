# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A terminal on a guest's console."""
import os
import select
import shutil
import socket
import sys
import termios
import tty

from .errors import LabError

ESCAPE = b"\x1d"  # Ctrl-]


def attach(guest):
    """Connect this terminal to a shell in the guest until Ctrl-] or end of input."""
    guest.check()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        try:
            sock.connect(str(guest.root / "console.sock"))
        except OSError as err:
            raise LabError(f"console of {guest.name}: {err}; is another 'lab console' connected?") from None
        sock.settimeout(None)
        print(f"lab: shell on {guest.name}; Ctrl-] leaves it running", file=sys.stderr)
        if not sys.stdin.isatty():
            return relay(sock)
        size = shutil.get_terminal_size()
        sock.sendall(b"\r")  # wakes the shell, or gives a fresh prompt
        sock.sendall(f" stty rows {size.lines} cols {size.columns}\r".encode())
        saved = termios.tcgetattr(sys.stdin)
        try:
            tty.setraw(sys.stdin)
            relay(sock)
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
            print(file=sys.stderr)


def relay(sock):
    stdin = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([sock, stdin], [], [])
        if sock in ready:
            data = sock.recv(65536)
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if stdin in ready:
            data = os.read(stdin, 4096)
            before, escape, _ = data.partition(ESCAPE)
            sock.sendall(before)
            if escape or not data:
                return
