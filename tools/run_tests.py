#!/usr/bin/env python3
"""Builds all tests and runs as many of their programs at once as there are cores.

`cargo test` runs one after the other, and each ends with tests that only wait. Arguments are those
of `cargo test`. Fails after all programs have run, with the tests that failed at the end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed

CARGO = os.environ.get("CARGO", "cargo")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A program that takes longer hangs, and fails with its output so far.
SECONDS_MAX = 1800
# Programs that mostly wait, for timers and packets: they run beside the others, one after the
# other. Their packets must pass within seconds, so the others yield to them.
WAITING = ["warpline live", "io warpline_io"]


def environment():
    """Variables that Cargo sets for all programs that it runs."""
    with open(os.path.join(ROOT, ".cargo/config.toml"), "rb") as file:
        entries = tomllib.load(file)["env"]
    variables = {}
    for name, entry in entries.items():
        entry = entry if isinstance(entry, dict) else {"value": entry}
        value = entry["value"]
        variables[name] = os.path.join(ROOT, value) if entry.get("relative") else value
    return variables | os.environ | {"CARGO": CARGO}


def build(arguments):
    """The commands of the test programs, each with the folder of its package."""
    command = [CARGO, "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    programs = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            folder = os.path.dirname(message["manifest_path"])
            name = f"{os.path.basename(folder)} {message['target']['name']}"
            programs.append((name, message["executable"], folder))
    # Large programs take long, so they start first.
    programs.sort(key=lambda one: -os.path.getsize(one[1]))
    return [(name, [path], folder) for name, path, folder in programs]


def run(program):
    """Its name, whether all its tests passed, its output, and the seconds that it took, of time and
    of processors."""
    name, command, folder = program
    command = command if name in WAITING else ["nice", "-n", "10", *command]
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment() | {"CARGO_MANIFEST_DIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        alarm = threading.Timer(SECONDS_MAX, os.kill, (child.pid, signal.SIGKILL))
        alarm.start()
        _, status, used = os.wait4(child.pid, 0)
        alarm.cancel()
        seconds = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return name, child.returncode == 0, text, (seconds, used.ru_utime + used.ru_stime)


def main():
    arguments = sys.argv[1:]
    programs = build(arguments)
    if not programs:
        sys.exit("no test program")
    programs.append(("examples in documentation", [CARGO, "test", "--doc", *arguments], ROOT))
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool, ThreadPoolExecutor(1) as beside:
        of = lambda program: beside if program[0] in WAITING else pool
        for ended in as_completed(of(program).submit(run, program) for program in programs):
            name, passed, output, (seconds, processor) = ended.result()
            print(f"== {name}, {seconds:.1f} s, processors {processor:.1f} s", flush=True)
            print(output, flush=True)
            if not passed:
                failed.append((name, output))
    for name, output in failed:
        _, _, failures = output.rpartition("\nfailures:\n")
        print(f"FAILED {name}\n{failures or output[-2000:]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
