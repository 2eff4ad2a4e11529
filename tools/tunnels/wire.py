"""The bridge with Warpline in it, as both programs start, configure and stop it."""

import json
import os
import signal
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    """A case did not do what it should."""


def write_chain(folder, states, policies, local):
    """Warpline's chain file, and beside it what `ip xfrm state` and `ip xfrm policy` printed; gives its path."""
    for name, text in (("state", states), ("policy", policies)):
        with open(f"{folder}/{name}.txt", "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text + "\n")
    # Every case has keys of its own or begins anew.
    if os.path.exists(f"{folder}/sequences"):
        os.remove(f"{folder}/sequences")
    with open(f"{HERE}/chain.toml") as file:
        text = file.read().replace('"LOCAL"', json.dumps(local))
    path = f"{folder}/chain.toml"
    with open(path, "w") as file:
        file.write(text)
    return path


def start_bridge(namespaces, folder, warpline, chain, routes):
    command = ["ip", "netns", "exec", namespaces["wire"], f"{HERE}/bridge.py"]
    command += ["--interface", "near", "--interface", "far", "--capture", f"{folder}/wire.pcap"]
    for route in routes:
        command += ["--route", route]
    stats = f"{folder}/stats.json"
    command += ["--", warpline, "run", chain, "--input", "-", "--output", "-", "--stats", stats]
    with open(f"{folder}/warpline.log", "w") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)


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


def drops(folder):
    """What Warpline dropped, by reason."""
    with open(f"{folder}/stats.json") as file:
        stats = json.load(file)
    found = {}
    for chain in stats["chains"]:
        for function in chain["functions"]:
            for reason, count in function["drops"].items():
                found[reason] = found.get(reason, 0) + count
    return {reason: count for reason, count in found.items() if count}
