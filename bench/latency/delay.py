"""Joins two tun devices and holds every IP packet back for a fixed time: netem's delay, in user space.

usage: delay.py SECONDS DEVICE DEVICE

The devices are made here and moved into their namespaces by the caller; a line on stdout says that they are there. Packets
leave in the order in which they came, each one SECONDS after it came, so a delay does not limit the bandwidth. Ends with
SIGTERM; the devices end with it.
"""

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LARGEST_PACKET = 65_535


def device(name):
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return file


def main():
    delay = float(sys.argv[1])
    # Ranks that wait keep the cores busy: the relay goes first, or packets would wait for a slice of the scheduler.
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError:
        try:
            os.nice(-20)
        except OSError:
            pass
    ends = [device(name) for name in sys.argv[2:4]]
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    print("ready", flush=True)
    waiting = deque()
    while True:
        left = waiting[0][0] - time.monotonic() if waiting else None
        # The last stretch is waited for without sleeping: a timer of the kernel is late by some 50 µs.
        if left is not None and left < 0.0002:
            left = 0
        readable, _, _ = select.select(ends, [], [], left if left is None else max(0, left - 0.0001))
        for end in readable:
            while True:
                try:
                    packet = os.read(end, LARGEST_PACKET)
                except BlockingIOError:
                    break
                waiting.append((time.monotonic() + delay, other[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, packet = waiting.popleft()
            try:
                os.write(end, packet)
            except OSError:
                pass  # A device that is not up yet, or no longer: the packet is lost, as on any network.


main()
