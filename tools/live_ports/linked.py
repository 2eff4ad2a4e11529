#!/usr/bin/env python3
"""Three instances of Warpline, linked by their ports, each in a network namespace.

    generator [one] --- [two] --- [three] standard output that is read slowly

    linked.py WARPLINE [three]
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from lab import Namespace, Sniffer

# Packets a second of the generator and of the reader; a ring holds about 16,000 of them.
FRAME = 64
FAST, SLOW = 60_000, 20_000
PORT = 7410
# Times that a busy machine may fail.
TRIES = 4
NAMES = ("one", "two", "three")
CONTROL = {"one": "10.8.1.1", "two": "10.8.2.1"}


def chain(name):
    """The chain file of an instance."""
    ends = {
        "one": f'input = "generate:packets=100000000,size={FRAME},'
        f'rate_gbps={FAST * FRAME * 8 / 1e9}"\noutput = "af_packet:next"\n',
        "two": 'input = "af_packet:last"\noutput = "af_packet:next"\n',
        "three": 'input = "af_packet:last"\noutput = "-"\n',
    }
    text = f'[chain]\nname = "{name}"\nfunctions = ["digest"]\n{ends[name]}\n'
    text += '[backpressure]\nkey = "key"\n'
    if name in CONTROL:
        text += f'listen = "udp://{CONTROL[name]}:{PORT}"\n'
    if name != "one":
        text += f'upstream = "udp://{CONTROL["one" if name == "two" else "two"]}:{PORT}"\n'
    return text


class Reader:
    """Reads a pipe at a packet rate until its writer closes it."""

    def __init__(self, pipe):
        self.pipe, self.bytes = pipe, 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        with open(self.pipe, "rb") as pipe:
            # A frame has 16 bytes of header in a pcap.
            rate, since = SLOW * (FRAME + 16), time.monotonic()
            while data := pipe.read1(1 << 14):
                self.bytes += len(data)
                ahead = self.bytes / rate - (time.monotonic() - since)
                if ahead > 0:
                    time.sleep(ahead)
                else:
                    since -= ahead


class Linked:
    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        self.spaces, self.children, self.reader = {}, {}, None

    def __enter__(self):
        self.spaces = {name: Namespace() for name in NAMES}
        for near, far in (("one", "two"), ("two", "three")):
            self.cable(near, "next", far, "last")
            self.cable(near, "signals", far, "upstream")
            net = CONTROL[near].rsplit(".", 1)[0]
            self.spaces[near].run(f"ip addr add {net}.1/24 dev signals")
            self.spaces[far].run(f"ip addr add {net}.2/24 dev upstream")
        self.write("key", os.urandom(32), 0o600)
        for name in NAMES:
            self.write(f"{name}.toml", chain(name).encode())
        return self

    def __exit__(self, *_):
        for child in self.children.values():
            if child.poll() is None:
                child.kill()
            child.wait()
        for space in self.spaces.values():
            space.close()
        self.folder.cleanup()

    def cable(self, near, own, far, other):
        target = self.spaces[far].keeper.pid
        self.spaces[near].run(f"ip link add {own} type veth peer name {other} netns {target}")
        for name, link in ((near, own), (far, other)):
            self.spaces[name].run(f"ip link set {link} up")
            self.spaces[name].no_offloads(link)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data, mode=0o644):
        with open(os.open(self.path(name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as f:
            f.write(data)

    def start(self, name):
        output = None
        if name == "three":
            end, output = os.pipe()
            self.reader = Reader(end)
        command = [*self.spaces[name].enter(), self.program, "run", f"{name}.toml"]
        command += ["--socket", f"{name}.sock", "--stats", f"{name}.json", "--quiet"]
        self.children[name] = subprocess.Popen(
            command, cwd=self.folder.name, stdout=output, stderr=subprocess.PIPE, text=True
        )
        if output:
            os.close(output)
        soon(lambda: (self.status(name) or {}).get("peers"), f"{name} starts")

    def kill(self, name):
        self.children[name].kill()
        self.children[name].wait()

    def stop(self, name):
        """Ends an instance in order; returns its statistics."""
        child = self.children[name]
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=20)
        assert child.returncode == 128 + signal.SIGTERM, (name, child.returncode, errors)
        with open(self.path(f"{name}.json"), encoding="utf-8") as file:
            stats = json.load(file)["chains"][0]
        assert stats["packets"]["balanced"] and not stats["packets"]["in_flight"], stats["packets"]
        return stats

    def status(self, name):
        command = [self.program, "ctl", "--socket", f"{name}.sock", "status", "--json"]
        done = subprocess.run(
            command, cwd=self.folder.name, capture_output=True, text=True, timeout=20, check=False
        )
        return json.loads(done.stdout)["chains"][0] if done.returncode == 0 else None

    def packets(self, name):
        return self.status(name)["packets"]

    def peer(self, name, side):
        return next(peer for peer in self.status(name)["peers"] if peer["side"] == side)

    def settle(self):
        """Waits until the third instance has read all that waited, and pauses the second again."""
        pauses = lambda: self.peer("three", "upstream")["pauses"]
        before = pauses()
        soon(lambda: pauses() >= before + 2, "three pauses two")
        soon(lambda: self.peer("one", "downstream")["paused"], "two pauses one")

    def lossless(self, what):
        """Packets come through, and none is lost between the instances.

        A busy machine may run the threads of signals so late that a ring overflows. Where signals
        have no effect packets are lost at any time.
        """
        lost = [self.lost_soon(what)]
        while lost[-1] and len(lost) < TRIES:
            lost.append(self.lost_soon(what))
        assert not lost[-1], f"{what}: lost {lost}"
        if len(lost) > 1:
            print(f"  {what}: a busy machine lost {lost}", flush=True)

    def lost_soon(self, what, seconds=0.5):
        """Packets lost within some seconds."""
        before, read = [self.packets(name)["overload"] for name in NAMES], self.reader.bytes
        time.sleep(seconds)
        read = (self.reader.bytes - read) // (FRAME + 16)
        assert read > SLOW * seconds / 4, f"{what}: {read} packets in {seconds} s"
        for name in ("one", "two"):
            assert self.peer(name, "downstream")["pauses"], f"{what}: nothing paused {name}"
        return sum(self.packets(name)["overload"] for name in NAMES) - sum(before)


def soon(work, what, seconds=8.0):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if result := work():
            return result
        time.sleep(0.03)
    raise AssertionError(f"not in time: {what}")


def signals(frames):
    """The signals of frames in Ethernet and IPv4, in the order of their arrival."""
    udp = [frame[42:] for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 17]
    return [data for data in udp if data[:4] == b"WLPS"]


def healthy(lab):
    soon(lambda: lab.peer("one", "downstream")["paused_seconds"] > 0, "two pauses one")
    lab.lossless("healthy")


def lost(lab):
    """Without signals pauses end with their lease. Packets that are lost then are counted."""
    two = lab.spaces["two"]
    two.run(f"iptables -A INPUT -p udp --dport {PORT} -j DROP")
    soon(lambda: lab.packets("three")["overload"], "three loses packets")
    assert not lab.peer("two", "downstream")["paused"], "the pause ends with its lease"
    two.run("iptables -F INPUT")
    lab.settle()
    lab.lossless("signals arrive again")


def send(lab, datagrams):
    """Sends what an attacker beside the third instance may send to the second."""
    with lab.spaces["three"].socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        for data in datagrams:
            attacker.sendto(data, (CONTROL["two"], PORT))


def refused(lab):
    return lab.peer("two", "downstream")["refused"]


def forged(lab):
    """Forged, changed and repeated signals change nothing. Returns the repeated ones."""
    sniffer = Sniffer(lab.spaces["two"], "signals")
    time.sleep(0.6)
    heard = signals(sniffer.close())
    assert len(heard) > 4 and len({len(one) for one in heard}) == 1, heard
    one = heard[-1]
    flipped = bytes([*one[:6], one[6] ^ 1, *one[7:]])
    before = refused(lab)
    send(lab, [*heard[:-1], flipped, one[:-1], b"", os.urandom(88), one[:4] + b"\x02" + one[5:]])
    grown = lambda: {kind: n - before[kind] for kind, n in refused(lab).items()}
    expected = {"malformed": 3, "version": 1, "forged": 1}
    soon(lambda: expected.items() <= grown().items(), f"counted by kind: {grown()}")
    assert grown()["replayed"] + grown()["stale"] >= len(heard) - 2, grown()
    lab.lossless("with forged and repeated signals")
    return heard


def killed(lab, heard):
    """Instances that end without a word and come back."""
    lab.kill("three")
    soon(lambda: not lab.peer("two", "downstream")["paused"], "two continues without three")
    before = lab.packets("two")["sent"]
    soon(lambda: lab.packets("two")["sent"] > before + 1_000, "two sends")
    lab.start("three")
    lab.settle()
    lab.lossless("a new three")
    lab.kill("two")
    soon(lambda: not lab.peer("one", "downstream")["paused"], "one continues without two")
    lab.start("two")
    send(lab, heard)
    soon(lambda: refused(lab)["stale"] >= len(heard), "signals to its earlier life are stale")
    lab.settle()
    lab.lossless("a new two")


def main():
    with Linked(os.path.abspath(sys.argv[1])) as lab:
        since = time.monotonic()
        for name in reversed(NAMES):
            lab.start(name)
        healthy(lab)
        lost(lab)
        killed(lab, forged(lab))
        for name in NAMES:
            chain_of = lab.stop(name)
            if name == "one":
                held = chain_of["stages"][-1]["paused_by"]
                assert held and held[0]["stage"] == "downstream of chain", held
        print(f"linked: ok, {time.monotonic() - since:.1f} s", flush=True)


main()
