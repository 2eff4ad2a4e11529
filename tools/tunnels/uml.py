"""A Linux of its own in user mode, with a shell on a pipe and a tap: the peer whose kernel has ESP.

The host's files are its root, read-only; its network is what `Uml` is given.
"""

import ctypes
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import queue

MODULES = "/usr/lib/uml/modules"
INIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "uml-init.sh")
END = "@@end@@"


def without_xstate():
    """Before exec: lets PTRACE_GETREGSET fail, so that the kernel saves registers in the old way.

    User-mode Linux 6.1 has room for the registers of AVX-512 and no more. On processors with more
    (AMX) the host takes its calls amiss and nothing runs.
    """
    get_regset, ptrace, errno_eio = 0x4204, 101, 5
    load, equal, end = 0x20, 0x15, 0x06
    program = b"".join(
        struct.pack("HBBI", *line)
        for line in [
            (load, 0, 0, 0),
            (equal, 0, 3, ptrace),
            (load, 0, 0, 16),
            (equal, 0, 1, get_regset),
            (end, 0, 0, 0x00050000 | errno_eio),
            (end, 0, 0, 0x7FFF0000),
        ]
    )
    lines = ctypes.create_string_buffer(program)
    filter_ = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(lines))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, mode_filter = 38, 22, 2
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    if libc.prctl(seccomp, mode_filter, ctypes.c_void_p(ctypes.addressof(filter_)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Uml:
    """Boots when made; `run` runs a shell command in it; `close` ends it."""

    def __init__(self, namespace, tap, mac, log):
        self.folder = tempfile.mkdtemp(prefix="warpline-uml-")
        os.makedirs(f"{self.folder}/tree/lib")
        os.symlink(MODULES, f"{self.folder}/tree/lib/modules")
        self.log = open(log, "w")
        command = [
            "ip",
            "netns",
            "exec",
            namespace,
            "linux.uml",
            "mem=192M",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            f"init={INIT}",
            "quiet",
            "loglevel=1",
            "con=null",
            "con0=fd:0,fd:1",
            f"eth0=tuntap,{tap},{mac}",
            f"uml_dir={self.folder}",
            f"warpline_tree={self.folder}/tree",
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, bufsize=0,
            start_new_session=True, preexec_fn=without_xstate,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.wait_for("@@ready@@", 60)

    def read(self):
        for line in self.process.stdout:
            text = line.decode(errors="replace").rstrip("\r\n")
            self.log.write(text + "\n")
            self.log.flush()
            self.lines.put(text)
        self.lines.put(None)

    def wait_for(self, mark, seconds):
        found = []
        while True:
            try:
                line = self.lines.get(timeout=seconds)
            except queue.Empty:
                raise RuntimeError(
                    f"user-mode Linux: no answer in {seconds} s; see {self.log.name}"
                ) from None
            if line is None:
                raise RuntimeError(f"user-mode Linux ended; see {self.log.name}")
            if mark in line:
                return found, line
            found.append(line)

    def try_run(self, command, seconds=60):
        """Status and output of a command of one line."""
        self.process.stdin.write(
            f"{{ {command} ; }} 2>&1 </dev/null; status=$?; echo; echo {END} $status\n".encode()
        )
        found, line = self.wait_for(END, seconds)
        return int(line.split(END)[1]), "\n".join(found).strip()

    def run(self, command, seconds=60):
        status, output = self.try_run(command, seconds)
        if status != 0:
            raise RuntimeError(f"in user-mode Linux: {command}: status {status}: {output}")
        return output

    def is_running(self):
        return self.process.poll() is None

    def close(self):
        try:
            self.process.stdin.write(b"poweroff -f\n")
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
