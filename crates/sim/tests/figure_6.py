"""Simmer's figure 6 once more: time in steps, and one number of packets for each queue.

Prints for each threshold (0 is the vanilla setup) the rate in Mpps and the drops after the first
function in thousands a second.
"""
import sys

COSTS_NS = [40.0, 1630.0, 520.0]
LAUNCH = 4096
CAPACITY = 4 * LAUNCH
SLICE, SWITCH, SIGNAL = 2e6, 50e3, 100e3
OFFERED = 1.505e-3  # packets a nanosecond
STEP, LASTS, WARM_UP = 10e3, 1.5e9, 0.15e9


def simulate(mark):
    queues, left = [0.0] * 3, [0.0] * 3
    owner, slice_left, lost = None, 0.0, 0.0
    signals = [[] for _ in range(3)]  # by queue: (arrives, holds)
    seen, last = [False] * 3, [False] * 3
    sent = dropped = 0.0
    for step in range(int(LASTS / STEP)):
        now = step * STEP
        counts = now >= WARM_UP
        for at in range(3):
            while signals[at] and signals[at][0][0] <= now:
                seen[at] = signals[at].pop(0)[1]
        if not seen[0]:
            queues[0] = min(CAPACITY, queues[0] + OFFERED * STEP)
        for at in range(3):
            is_paused = at < 2 and seen[at + 1]
            if left[at] <= 0 and queues[at] >= LAUNCH and not is_paused:
                queues[at] -= LAUNCH
                left[at] = LAUNCH * COSTS_NS[at]
        budget = STEP
        while budget > 0:
            if owner is None or left[owner] <= 0 or slice_left <= 0:
                first = 0 if owner is None else owner + 1
                turns = [(first + n) % 3 for n in range(3)]
                ready = [at for at in turns if left[at] > 0]
                if not ready:
                    break
                if ready[0] != owner:
                    lost = SWITCH
                owner, slice_left = ready[0], SLICE
            paid = min(lost, budget)
            lost, budget = lost - paid, budget - paid
            ran = min(budget, left[owner], slice_left)
            left[owner] -= ran
            slice_left -= ran
            budget -= ran
            if ran > 0 and left[owner] <= 1e-6:
                left[owner] = 0.0
                if owner == 2:
                    sent += LAUNCH if counts else 0
                else:
                    room = max(0.0, CAPACITY - queues[owner + 1])
                    queues[owner + 1] += min(room, LAUNCH)
                    dropped += LAUNCH - min(room, LAUNCH) if counts else 0
                if queues[owner] >= LAUNCH and not (owner < 2 and seen[owner + 1]):
                    queues[owner] -= LAUNCH
                    left[owner] = LAUNCH * COSTS_NS[owner]
        if mark > 0:
            for at in range(3):
                holds = queues[at] >= mark * LAUNCH
                if holds != last[at]:
                    last[at] = holds
                    signals[at].append((now + SIGNAL, holds))
    measured = LASTS - WARM_UP
    return sent / measured * 1e3, dropped / measured * 1e6


for mark in map(float, sys.argv[1:]):
    rate, drops = simulate(mark)
    print(f"{mark} {rate:.4f} {drops:.1f}")
