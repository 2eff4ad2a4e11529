#!/usr/bin/env python3
"""Measures live ports beside other programs, on the same interfaces and frames.

    speed.py WARPLINE [--rounds N] [--seconds S] [--kpps N...] [--beside WARPLINE]
             [--only REGEX]

    sender --- veth --- lan [program] wan --- veth --- receiver

Rounds are interleaved. A rate is of frames that leave (wires) or are captured; a cost is the CPU
time of the program's process for each. The kernel's work for a frame counts in whichever process
it interrupts. Programs that are not installed are skipped. With `--kpps` the sender offers these
rates, one after the other; costs then compare. `--beside` adds another build of Warpline.
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
        self.name, self.command, self.files = name, command, files
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


def of_warpline(program, name):
    run = [program, "run", "chain.toml", "--stats", "stats.json", "--quiet"]
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
    return {"wire": wires, "capture": captures}


def measure(lab, contender, lengths, rate, seconds):
    """Frames a second, and nanoseconds of CPU time for each."""
    for text in contender.files:
        lab.write("suricata.yaml" if text.startswith("%") else "chain.toml", text)
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
        sender = [*lab.spaces["lan"].enter(), lab.path("sender"), "eth0"]
        words = map(str, (seconds, rate, *lengths))
        sent = subprocess.run([*sender, *words], check=True, capture_output=True, text=True).stdout
        time.sleep(0.5)
        used = cpu_seconds(child.pid) - used
        count = received(lab.spaces["wan"], "eth0") - before
        child.send_signal(contender.stop)
        child.wait(timeout=30)
        messages.seek(0)
        text = messages.read()
    if contender.count:
        count = contender.count(lab, text)
    assert count > 0, text[-2000:]
    return count / seconds, used / count * 1e9, int(sent) / seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("warpline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--kpps", type=int, nargs="+", default=[0])
    parser.add_argument("--beside")
    parser.add_argument("--only", default="", metavar="REGEX", help="of rows: KIND, MIX, PROGRAM")
    chosen = parser.parse_args()
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sender.c")
    with Lab(os.path.abspath(chosen.warpline)) as lab:
        subprocess.run(["cc", "-O2", "-o", lab.path("sender"), source], check=True)
        for kind, programs in contenders(lab.program, chosen.beside).items():
            for (mix, lengths), kpps in itertools.product(LENGTHS.items(), chosen.kpps):
                title = f"{kind}, {mix}" + (f", {kpps} kpps offered" if kpps else "")
                some = [one for one in programs if re.search(chosen.only, f"{title}, {one.name}")]
                found = {program.name: [] for program in some}
                for _, program in itertools.product(range(chosen.rounds), some):
                    result = measure(lab, program, lengths, kpps * 1000, chosen.seconds)
                    found[program.name].append(result)
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
