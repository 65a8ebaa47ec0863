# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One virtual machine: its QEMU process and its directory.

    pid, qemu.log, command   the QEMU process
    console                  kernel messages and boot output
    qmp, console.sock        QEMU's control socket; the interactive console
    ctl.in, ctl.out          control port: lines to the guest
    down                     NIC indexes whose carrier was taken away, one a line
    run/                     what the guest sees as /run/lab: plan, setup, stage, failed, jobs/
"""
import os
import pathlib
import shutil
import subprocess

from . import plan, process, qmp, state
from .errors import LabError
from .wires import MGMT

SETUP = pathlib.Path(__file__).resolve().parent.parent / "guest" / "setup"
# no_timer_check: on a busy machine too few ticks of QEMU's timer reach the guest within the kernel's test of its IO-APIC.
APPEND = "no_timer_check console=ttyS0 earlyprintk=ttyS0,115200 quiet panic=-1 mitigations=off nokaslr audit=0 random.trust_cpu=on"
MAX_NICS = 24  # what fits on the emulated PCI bus beside the other devices


class Guest:
    def __init__(self, lab_dir, name):
        self.name = name
        self.root = pathlib.Path(lab_dir) / "hosts" / name
        self.dir = self.root / "run"

    def ident(self):
        try:
            return (self.root / "pid").read_text().strip()
        except OSError:
            return None

    def alive(self):
        return process.alive(self.ident())

    def check(self):
        """LabError if this guest's QEMU has died."""
        if not self.alive():
            raise LabError(f"guest {self.name} is dead: its QEMU has ended\n{self.tails()}")

    def tails(self, lines=25):
        """The end of what QEMU and the guest said."""
        text = ""
        for title, name in (("its console", "console"), ("QEMU", "qemu.log")):
            try:
                said = (self.root / name).read_text(errors="replace").replace("\r", "").splitlines()[-lines:]
            except OSError:
                said = []
            text += f"--- {self.name}: last lines of {title} ({self.root / name})\n"
            text += "".join(f"    {line}\n" for line in said) or "    (nothing)\n"
        return text

    def prepare(self, text, overlays, shares, kernel, ldconfig):
        """Make the directory with all that the guest reads while it boots."""
        (self.dir / "jobs").mkdir(parents=True)
        shutil.copy(SETUP, self.dir / "setup")
        (self.dir / "plan").write_text(f"LAB_LDCONFIG={'1' if ldconfig else ''}\n" + text)
        (self.dir / "overlays").write_text("".join(f"{d}\n" for d in overlays))
        (self.dir / "shares").write_text("".join(f"{d}\n" for d in shares))
        (self.dir / "modules").write_text(f"{kernel.modules}\n")
        (self.dir / "stage").write_text("kernel\n")
        os.mkfifo(self.root / "ctl.in")
        (self.root / "ctl.out").touch()

    def start(self, kernel, initrd, nics, wires, smp, mem, overlays, shares):
        """Start QEMU; nics are (netdev id, MAC, port)."""
        command = ["qemu-system-x86_64", "-name", self.name, "-M", "q35", "-accel", "tcg,thread=multi",
                   "-cpu", "max,la57=off", "-smp", str(smp), "-m", str(mem), "-nodefaults", "-display", "none",
                   "-no-reboot", "-S", "-kernel", str(kernel.vmlinux), "-initrd", str(initrd), "-append", APPEND,
                   "-serial", f"file:{self.root}/console", "-qmp", f"unix:{self.root}/qmp,server=on,wait=off",
                   "-device", "virtio-serial", "-chardev", f"pipe,id=ctl,path={self.root}/ctl",
                   "-device", "virtserialport,chardev=ctl,nr=1",
                   "-chardev", f"socket,id=con,path={self.root}/console.sock,server=on,wait=off",
                   "-device", "virtconsole,chardev=con,nr=2"]
        command += shared("root", "/", readonly=True) + shared("lab", self.dir)
        for number, directory in enumerate(overlays):
            command += shared(f"overlay{number}", directory, readonly=True)
        for number, directory in enumerate(shares):
            command += shared(f"share{number}", directory)
        fds = []
        for netdev, mac, port in nics:
            command += ["-netdev", f"{wires.netdevs[port]},id={netdev}",
                        "-device", f"virtio-net-pci,netdev={netdev},mac={mac},romfile="]
            fds += [wires.fds[port]] if port in wires.fds else []
        (self.root / "command").write_text(" ".join(command) + "\n")
        with open(self.root / "qemu.log", "wb") as log:
            # It puts itself on record before it is QEMU: whoever starts it may be killed at any moment.
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=fds, start_new_session=True,
                                     preexec_fn=lambda: (process.keep_nice(), state.write(self.root / "pid", process.identity(os.getpid()))))
        child.returncode = 0  # it outlives this object, which must not warn of that

    def control(self, line):
        """Send one line to the guest's control port."""
        self.check()
        try:
            fd = os.open(self.root / "ctl.in", os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(fd, (line + "\n").encode())
            finally:
                os.close(fd)
        except OSError as err:
            raise LabError(f"guest {self.name} takes no command: {err.strerror}") from None

    def qmp(self, command, **arguments):
        self.check()
        return qmp.execute(self.root / "qmp", command, **arguments)

    def set_carrier(self, index, on):
        """Give or take the carrier of NIC `index`, as a cable or a switch port would."""
        self.qmp("set_link", name=f"net{index}", up=on)
        down = self.carriers_off()
        down.discard(index) if on else down.add(index)
        state.write(self.root / "down", "".join(f"{i}\n" for i in sorted(down)))

    def carriers_off(self):
        try:
            return {int(i) for i in (self.root / "down").read_text().split()}
        except OSError:
            return set()

    def stage(self):
        """How far the boot got: kernel, root, network, ready, failed."""
        if (self.dir / "failed").exists():
            return "failed"
        try:
            return (self.dir / "stage").read_text().strip() or "kernel"
        except OSError:
            return "kernel"

    def spoke(self):
        """Whether anything came out on the console."""
        try:
            return (self.root / "console").stat().st_size > 0
        except OSError:
            return False

    def failure(self):
        """Why the guest said it cannot come up, or empty."""
        try:
            return (self.dir / "failed").read_text().strip()
        except OSError:
            return ""


def shared(tag, directory, readonly=False):
    path = str(directory).replace(",", ",,")  # QEMU's way to quote a comma
    return ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap"
            + (",readonly=on" if readonly else "")]


def nics_of(host):
    """(netdev id, MAC, port) of each NIC of a topology's host in PCI order, the management NIC last."""
    if len(host.nics) > MAX_NICS:
        raise LabError(f"host '{host.name}' has {len(host.nics)} NICs; a guest can have {MAX_NICS}")
    nics = sorted(host.nics.values(), key=lambda nic: nic.index)
    return [(f"net{n.index}", n.mac, n.port) for n in nics] + [(MGMT, plan.mgmt_mac(host), f"{host.name}.{MGMT}")]
