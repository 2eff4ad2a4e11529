"""The bridge with Warpline in it, as both programs start, configure and stop it."""

import json
import os
import re
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    """A case did not do what it should."""


def write_chain(folder, states, policies, local):
    """Warpline's chain file and the files that it names; gives its path."""
    write_tables(folder, states, policies)
    # Every case has keys of its own or begins anew.
    if os.path.exists(f"{folder}/sequences"):
        os.remove(f"{folder}/sequences")
    with open(f"{HERE}/chain.toml") as file:
        text = file.read().replace('"LOCAL"', json.dumps(local))
    path = f"{folder}/chain.toml"
    with open(path, "w") as file:
        file.write(text)
    return path


def write_tables(folder, states, policies):
    """Writes the output of `ip xfrm state` and `ip xfrm policy` for Warpline."""
    for name, text in (("state", states), ("policy", policies)):
        with open(f"{folder}/{name}.txt", "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text + "\n")


def start_bridge(namespaces, folder, warpline, chain, routes, twice=None):
    command = ["ip", "netns", "exec", namespaces["wire"], f"{HERE}/bridge.py"]
    command += ["--interface", "near", "--interface", "far", "--capture", f"{folder}/wire.pcap"]
    command += ["--twice", twice] if twice else []
    for route in routes:
        command += ["--route", route]
    stats = f"{folder}/stats.json"
    command += ["--", warpline, "run", chain, "--input", "-", "--output", "-", "--stats", stats]
    with open(f"{folder}/warpline.log", "w") as log:
        bridge = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    # Without it, the end is read by `stop_bridge`.
    bridge.stdout.readline()
    return bridge


def reload(bridge, folder):
    """Has Warpline read its files again, and waits until that is done."""
    before = len(reloads(folder))
    bridge.send_signal(signal.SIGHUP)
    for _ in range(200):
        messages = reloads(folder)[before:]
        if messages:
            break
        time.sleep(0.05)
    else:
        raise Failed("Warpline did not reload")
    if not messages[0].endswith("in place"):
        raise Failed(" ".join(messages))


def reloads(folder):
    """Warpline's messages about reloads."""
    with open(f"{folder}/warpline.log") as log:
        return [line.strip() for line in log if line.startswith("reload: ")]


def stop_bridge(bridge, folder):
    """Ends it; gives what it counted."""
    bridge.send_signal(signal.SIGTERM)
    try:
        out, _ = bridge.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        bridge.kill()
        bridge.wait()
        raise Failed("the bridge did not end") from None
    if bridge.returncode != 0 or not out:
        with open(f"{folder}/warpline.log") as log:
            raise Failed(f"the bridge ended with {bridge.returncode}: {log.read()[-2000:]}")
    return json.loads(out)


def answered(done, what):
    """Every ping had one answer, and they came in order."""
    status, output = done
    numbers = [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", output)]
    if status != 0 or numbers != list(range(1, len(numbers) + 1)) or "DUP!" in output:
        raise Failed(f"{what}: {output}")


def functions(folder):
    """The statistics of Warpline's functions."""
    with open(f"{folder}/stats.json") as file:
        return [function for chain in json.load(file)["chains"] for function in chain["functions"]]


def counter(folder, name):
    return sum(function["counters"].get(name, 0) for function in functions(folder))


def drops(folder):
    """Packets that Warpline dropped, by reason."""
    found = {}
    for function in functions(folder):
        for reason, count in function["drops"].items():
            found[reason] = found.get(reason, 0) + count
    return {reason: count for reason, count in found.items() if count}
