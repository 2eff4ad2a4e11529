#!/usr/bin/env python3
"""Who ran on a thread's core while that thread was ready to run: from a trace of the scheduler.

    perf record -a -e sched:sched_switch -o FILE COMMAND
    tools/who_ran.py FILE THREAD

Every time that the thread named THREAD lost its core unasked, until it was given one again, is
reported by those who had its core then: how often, how long altogether, and how long at a time at
most. A time in which the core itself stood still is nobody's, and not in the list.
"""

import collections
import re
import subprocess
import sys

SWITCH = re.compile(
    r"\[(\d+)\]\s+([\d.]+):.*prev_comm=(.*) prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+)"
    r" ==> next_comm=(.*) next_pid=(\d+)"
)


def switches(path):
    """Of each switch: core, second, who left, its id and state, who came, its id."""
    fields = "comm,tid,cpu,time,event,trace"
    text = subprocess.run(
        ["perf", "script", "-i", path, "-F", fields], capture_output=True, text=True, check=True
    ).stdout
    for match in filter(None, map(SWITCH.search, text.splitlines())):
        core, second, left, left_id, state, came, came_id = match.groups()
        yield core, float(second), left, left_id, state, came, came_id


def taken(path, name):
    """Times in which other threads ran on the core of a ready thread, with their names and
    durations.
    """
    waiting, times = (
        {},
        [],
    )  # By thread: its core, the thread on it and since when, and the times of earlier ones.
    for core, second, left, left_id, state, came, came_id in switches(path):
        for own_core, now in waiting.values():
            if own_core == core:
                now["had"][now["who"]] += second - now["since"]
                now["who"], now["since"] = came, second
        if left == name and state.startswith("R"):
            had = collections.defaultdict(float)
            waiting[left_id] = (core, {"who": came, "since": second, "had": had})
        if came == name and came_id in waiting:
            own_core, now = waiting.pop(came_id)
            if own_core != core:  # It went to another core.
                now["had"][now["who"]] += second - now["since"]
            times.append(dict(now["had"]))
    return times


def main():
    path, name = sys.argv[1:]
    by = collections.defaultdict(list)
    for time in taken(path, name):
        for who, seconds in time.items():
            by[who].append(seconds * 1e3)
    print(f"{name} was ready while others had its core:")
    for who, times in sorted(by.items(), key=lambda item: -max(item[1])):
        print(
            f"  {who:16} {len(times):5} times, {sum(times):8.3f} ms, at most {max(times):7.3f} ms"
        )


if __name__ == "__main__":
    main()
