#!/usr/bin/env python3
"""Measures live ports beside other programs, on the same interfaces and frames.

    speed.py WARPLINE [--rounds N] [--seconds S] [--kpps N...] [--beside WARPLINE]
             [--only REGEX]

    sender --- veth --- lan [program] wan --- veth --- receiver

A row is flooded if its frames come without a socket (flood.c), two to three times as fast. With
`two floods` both cores receive frames, on two queues. Rounds are interleaved. A rate is of frames
that leave (wires) or are captured; a cost is the CPU time of the program's process for each. The
kernel's work for a frame counts in whichever process it interrupts. Programs that are not installed
are skipped. With `--kpps` the sender offers these rates, one after the other; costs then compare.
`--beside` adds another build of Warpline.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time

from lab import Lab

LENGTHS = {"64 B": [64], "IMIX": [64] * 7 + [594] * 4 + [1514]}
WIRE = """[chain]
functions = []

[[port]]
name = "lan"
side = "inside"
device = "KIND:lan"

[[port]]
name = "wan"
side = "outside"
device = "KIND:wan"
"""
CAPTURE = '[chain]\nfunctions = []\ninput = "KIND:lan"\noutput = "none"\n'
SURICATA = """%YAML 1.1
---
af-packet:
  - interface: lan
    threads: 1
    cluster-id: 99
    cluster-type: cluster_flow
    ring-size: 16384
    use-mmap: yes
    tpacket-v3: yes
default-log-dir: .
outputs: []
stats: {enabled: yes, interval: 1}
"""


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def received(space, interface):
    return int(space.run(f"cat /proc/net/dev | grep {interface}: | tr -s ' '").split()[2])


class Contender:
    """A program between two interfaces, or at one."""

    def __init__(self, name, command, files=(), count=None, stop=signal.SIGTERM):
        self.name, self.command, self.files = name, [*command], files
        # Returns captured frames from the program's messages. A wire's leave by `wan`.
        self.count, self.stop = count, stop


def warpline_count(lab, _):
    with open(lab.path("stats.json"), encoding="utf-8") as file:
        packets = json.load(file)["chains"][0]["packets"]
    return packets["read"] - packets["overload"]


def number(pattern):
    def count(_, messages):
        found = re.findall(pattern, messages)
        assert found, messages[-2000:]
        return int(found[-1])

    return count


def run_of(program):
    return [program, "run", "chain.toml", "--stats", "stats.json", "--quiet"]


def of_warpline(program, name):
    run = run_of(program)
    wires, captures = [], []
    for kind in ("af_xdp", "af_packet"):
        wire, capture = (text.replace("KIND", kind) for text in (WIRE, CAPTURE))
        wires.append(Contender(f"{name} {kind}", run, [wire]))
        captures.append(Contender(f"{name} {kind}", run, [capture], warpline_count))
    return wires, captures[::-1]


def contenders(program, beside):
    """By kind of measurement, its programs. The first one is what ratios are of."""
    wires, captures = of_warpline(program, "Warpline")
    if beside:
        others = of_warpline(os.path.abspath(beside), "Other Warpline")
        wires, captures = (own + other for own, other in zip((wires, captures), others))
    if shutil.which("dpdk-testpmd"):
        devices = [
            f"--vdev=net_af_xdp{number},iface={name},force_copy=1"
            for number, name in enumerate(("lan", "wan"))
        ]
        command = ["dpdk-testpmd", "-l", "0,1", "--no-huge", "-m", "512", "--no-pci", *devices]
        command += ["--no-telemetry", "--file-prefix=speed", "--", "--forward-mode=io"]
        command += ["--auto-start", "--no-mlockall", "--total-num-mbufs=32768"]
        wires.append(Contender("DPDK testpmd af_xdp", command + ["--stats-period=3600"]))
    if shutil.which("tcpdump"):
        command = ["tcpdump", "-i", "lan", "-w", "/dev/null", "-B", "32768"]
        captured = number(r"(\d+) packets? captured")
        captures.append(Contender("tcpdump -w /dev/null", command, count=captured))
    if shutil.which("suricata"):
        command = ["suricata", "-c", "suricata.yaml", "--af-packet", "-S", "/dev/null"]
        command += ["--runmode", "workers", "-l", ".", "-k", "none"]

        def processed(_, messages):
            packets, drops = re.findall(r"packets: (\d+), drops: (\d+)", messages)[-1]
            return int(packets) - int(drops)

        captures.append(Contender("Suricata workers", command, [SURICATA], processed))
    rings = []
    for queues in (1, 2):
        text = CAPTURE.replace("KIND:lan", f"af_packet:lan,queues={queues}")
        name = f"Warpline, queues = {queues}"
        rings.append(Contender(name, run_of(program), [text], warpline_count))
    return {"wire": wires, "capture": captures, "rings": rings}


class Traffic:
    """Frames of a mix at a rate (0: as fast as possible), or a flood on each of these cores."""

    def __init__(self, mix, rate=0, floods=()):
        self.mix, self.rate, self.floods = mix, rate, floods

    def title(self):
        floods = {0: "", 1: ", flooded", 2: ", two floods"}[len(self.floods)]
        return self.mix + (f", {self.rate // 1000} kpps offered" if self.rate else "") + floods

    def prepare(self, lab):
        """Makes the interface take them."""
        lab.spaces["machine"].run("ip link del lan")
        lab.link("lan", queues=max(1, len(self.floods)))
        if self.floods:
            lab.spaces["machine"].gro("lan")

    def send(self, lab, seconds):
        """Returns how many frames were sent."""
        enter, lengths = lab.spaces["lan"].enter(), map(str, LENGTHS[self.mix])
        words = ["eth0", str(seconds)]
        if not self.floods:
            command = [*enter, lab.path("sender"), *words, str(self.rate), *lengths]
            return int(subprocess.run(command, check=True, capture_output=True).stdout)
        before = sent_by(lab)
        command = [*enter, lab.path("flood"), *words, *lengths]
        pin = (["taskset", "-c", str(core), *command] for core in self.floods)
        floods = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in pin]
        assert not any([flood.wait() for flood in floods])
        return sent_by(lab) - before


def sent_by(lab):
    return int(lab.spaces["lan"].run("cat /proc/net/dev | grep eth0: | tr -s ' '").split()[10])


def traffics(rates):
    for mix, rate in itertools.product(LENGTHS, rates):
        yield Traffic(mix, rate * 1000)
        if not rate:
            yield Traffic(mix, floods=[0])


def measure(lab, contender, traffic, seconds):
    """Frames a second, nanoseconds of CPU time for each, and frames a second that were offered."""
    for text in contender.files:
        lab.write("suricata.yaml" if text.startswith("%") else "chain.toml", text)
    traffic.prepare(lab)
    command = [*lab.spaces["machine"].enter(), *contender.command]
    with open(lab.path("messages"), "w+", encoding="utf-8") as messages:
        child = subprocess.Popen(
            command, cwd=lab.folder.name, stdin=subprocess.PIPE, stdout=messages, stderr=messages
        )
        lab.children.append(child)
        time.sleep(4)
        messages.seek(0)
        assert child.poll() is None, messages.read()
        before, used = received(lab.spaces["wan"], "eth0"), cpu_seconds(child.pid)
        sent = traffic.send(lab, seconds)
        # Before the wait for the last frames, in which programs that poll use a core for nothing.
        used = cpu_seconds(child.pid) - used
        time.sleep(0.5)
        count = received(lab.spaces["wan"], "eth0") - before
        child.send_signal(contender.stop)
        child.wait(timeout=30)
        messages.seek(0)
        text = messages.read()
    if contender.count:
        count = contender.count(lab, text)
    assert count > 0, text[-2000:]
    return count / seconds, used / count * 1e9, sent / seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("warpline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--kpps", type=int, nargs="+", default=[0])
    parser.add_argument("--beside")
    parser.add_argument("--only", default="", metavar="REGEX", help="of rows: KIND, MIX, PROGRAM")
    chosen = parser.parse_args()
    with Lab(os.path.abspath(chosen.warpline)) as lab:
        for name in ("sender", "flood"):
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.c")
            subprocess.run(["cc", "-O2", "-o", lab.path(name), source], check=True)
        for kind, programs in contenders(lab.program, chosen.beside).items():
            all_traffic = traffics(chosen.kpps)
            if kind == "rings":
                all_traffic = [Traffic(mix, floods=[0, 1]) for mix in LENGTHS]
            for traffic in all_traffic:
                title = f"{kind}, {traffic.title()}"
                some = [one for one in programs if re.search(chosen.only, f"{title}, {one.name}")]
                found = {program.name: [] for program in some}
                for _, program in itertools.product(range(chosen.rounds), some):
                    found[program.name].append(measure(lab, program, traffic, chosen.seconds))
                if found:
                    show(title, found)


def show(title, found):
    load = os.getloadavg()[0]
    print(f"\n{title} (load {load:.1f})\n", flush=True)
    print("| program | kpps | min to max | ns/frame | offered kpps | ratio to the first |")
    print("|---|---|---|---|---|---|")
    first = next(iter(found.values()))
    for name, rounds in found.items():
        rates, costs, offered = zip(*rounds)
        # Of each round by itself: the load of the machine changes between rounds.
        ratio = statistics.median(own[0] / base[0] for own, base in zip(rounds, first))
        rate, cost = statistics.median(rates), statistics.median(costs)
        spread = f"{min(rates) / 1e3:.0f} to {max(rates) / 1e3:.0f}"
        offered = statistics.median(offered)
        print(
            f"| {name} | {rate / 1e3:.0f} | {spread} | {cost:.0f} | {offered / 1e3:.0f} |"
            f" {ratio:.2f} |",
            flush=True,
        )


main()
