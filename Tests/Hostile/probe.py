"""The well-behaved client beside an attack. A process of its own, so that nobody else's work disturbs its clock.

    probe.py PORT SECRET write|read PATH EVERY_MS NAMESPACE

Every 10 ms it asks, whether the question before was answered or not (a hub that stalls for 3 s makes 300 of them wait, not one).
`write`: puts a number, and another connection listens to the place. `read`: gets the place. Until a line comes in, or the
end of input; then it prints all it saw as JSON: times are seconds of CLOCK_MONOTONIC, latencies ms from sending to the
answer.
"""

import json
import re
import select
import sys
import time

from wire import ANSWER, Closed, PING, PONG, Realtime, frame, request, take_frame

NUMBER = re.compile(rb'"d":(\d+)\}\}\}$')


def main(port, secret, mode, path, every_ms, namespace):
    namespace = None if namespace == "-" else namespace
    asker = Realtime(port, secret, namespace)
    asker.put(path, "0")
    listener = None
    if mode == "write":
        listener = Realtime(port, secret, namespace)
        listener.ask("q", {"p": path, "h": ""})
    print("ready", flush=True)
    first = asker.number + 1
    sent, late, taken, told = [], [], {}, {}
    out = bytearray()
    disorder = 0
    last_told = 0
    refused = 0
    ended = None
    for peer in filter(None, (asker, listener)):
        peer.socket.setblocking(False)
    next_tick = time.monotonic()
    every = every_ms / 1000
    while ended is None:
        now = time.monotonic()
        if now >= next_tick:
            late.append((now - next_tick) * 1000)
            asker.number += 1
            index = asker.number - first
            body = f'{{"p":"{path}","d":{index}}}' if mode == "write" else f'{{"p":"{path}","q":{{}}}}'
            out += frame(request(asker.number, "p" if mode == "write" else "g", body))
            sent.append(time.monotonic())
            next_tick += every
            if next_tick < now - 1:
                # The machine did not run this process for a second, which is no reason to send a burst.
                next_tick = now
        readers = [sys.stdin, asker.socket] + ([listener.socket] if listener else [])
        ready, writable, _ = select.select(readers, [asker.socket] if out else [], [], max(0, next_tick - time.monotonic()))
        now = time.monotonic()
        try:
            if writable:
                del out[: asker.socket.send(out)]
            for peer in filter(None, (asker, listener)):
                if peer.socket not in ready:
                    continue
                try:
                    peer._more()
                except BlockingIOError:
                    continue
                while (got := take_frame(peer.buffer)) is not None:
                    opcode, payload = got
                    if opcode == 8:
                        raise Closed(payload)
                    if opcode == PING:
                        if peer is asker:
                            out += frame(payload, PONG)
                        else:
                            peer.socket.send(frame(payload, PONG))
                    elif peer is asker:
                        match = ANSWER.match(payload)
                        if match:
                            taken[int(match[1]) - first] = now
                            refused += match[2] != b"ok"
                    elif match := NUMBER.search(payload):
                        index = int(match[1])
                        disorder += index <= last_told
                        last_told = index
                        told[index] = now
        except (Closed, OSError) as error:
            ended = f"{error}"
        if sys.stdin in ready:
            ended = "asked"
    end = time.monotonic()
    json.dump(
        {
            "ended": ended,
            "end": end,
            "sent": sent,
            "late_ms": late,
            "latency_ms": [(taken.get(i, end) - at) * 1000 for i, at in enumerate(sent)],
            "answered": [i in taken for i in range(len(sent))],
            "told_ms": [(told[i] - at) * 1000 if i in told else None for i, at in enumerate(sent)] if listener else [],
            "disorder": disorder,
            "refused": refused,
        },
        sys.stdout)


if __name__ == "__main__":
    port, secret, mode, path, every_ms, namespace = sys.argv[1:]
    main(int(port), secret, mode, path, float(every_ms), namespace)
