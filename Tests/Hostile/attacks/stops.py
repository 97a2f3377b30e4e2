"""What a stop waits for. These start and stop their hubs themselves."""

import json
import re
import selectors
import threading
import time

import wire
from attack import attack, records

ACKNOWLEDGED = re.compile(rb'"r":(\d+),"b":\{"s":"ok"')
# The default stop timeout of a container.
MOST_SECONDS = 10


class Crowd(threading.Thread):
    """Clients that each put a growing number at their own place, many at a time, and leave a write behind for their disconnect."""

    def __init__(self, hub, count, window=20):
        super().__init__(daemon=True)
        self.root, self.window = "stop/crowd", window
        self.peers = [wire.Realtime(hub.port, hub.secret) for _ in range(count)]
        self.acknowledged = [0] * count
        for number, peer in enumerate(self.peers):
            peer.ask("o", f'{{"p":"{self.root}/left/c{number}","d":true}}')
            peer.ask("q", f'{{"p":"{self.root}/n/c{number}","h":""}}')
        self.before = [peer.number for peer in self.peers]

    def asked(self, number, count):
        """The next puts of a client."""
        peer = self.peers[number]
        text = b""
        for _ in range(count):
            peer.number += 1
            text += wire.frame(wire.request(peer.number, "p", f'{{"p":"{self.root}/n/c{number}","d":{peer.number - self.before[number]}}}'))
        return text

    def run(self):
        ready = selectors.DefaultSelector()
        for number, peer in enumerate(self.peers):
            peer.socket.setblocking(False)
            ready.register(peer.socket, selectors.EVENT_READ, number)
            peer.socket.send(self.asked(number, self.window))
        while ready.get_map():
            for key, _ in ready.select(1):
                number = key.data
                try:
                    piece = key.fileobj.recv(1 << 16)
                    if not piece:
                        raise ConnectionError
                    seen = [int(found) for found in ACKNOWLEDGED.findall(piece)]
                    # An answer cut in two counts as none, which is the safe side.
                    if seen:
                        self.acknowledged[number] = max(self.acknowledged[number], seen[-1] - self.before[number])
                        key.fileobj.send(self.asked(number, len(seen)))
                except BlockingIOError:
                    pass
                except OSError:
                    ready.unregister(key.fileobj)


@attack("stop-with-much", "SIGTERM while 600 clients write, a large tree is stored as a snapshot, another is removed and a third is written: "
        f"over in {MOST_SECONDS} s, and nothing acknowledged is lost", alone=True)
def stop_with_much(runner):
    scale = runner.options.scale
    folder = runner.folder()
    rules = {"rules": {"stop": {".read": True, ".write": True}}}
    hub = runner.hub(folder, rules)
    if not hub.port:
        return {"fault": f"the hub did not start: {hub.said}{hub.log.read_text()[-300:]}"}
    secret = {"Authorization": f"Bearer {hub.secret}"}

    def put(place, size):
        body = records(max(1, size // 130), filler=80)
        status, answer = wire.http(hub.port, "PUT", f"/stop/{place}.json?print=silent", body, secret)
        assert status in (200, 204), f"{place}: {status} {answer[:200]}"

    # More than the 64 MiB of log at which a snapshot is due.
    for number in range(4):
        put(f"large/{number}", int((40 << 20) * scale))
    crowd = Crowd(hub, max(20, int(600 * scale)))
    crowd.start()
    busy = [
        threading.Thread(target=lambda: quietly(put, "third", int((40 << 20) * scale)), daemon=True),
        threading.Thread(target=lambda: quietly(wire.http, hub.port, "DELETE", "/stop/large/0.json", b"", secret), daemon=True)]
    for thread in busy:
        thread.start()
    time.sleep(0.3 if runner.quick else 2)
    started = time.monotonic()
    code = hub.stop(60)
    seconds = time.monotonic() - started
    crowd.join(10)
    started = time.monotonic()
    hub = runner.hub(folder, rules, keep=True)
    if not hub.port:
        return {"fault": f"the hub did not start again: {hub.said}{hub.log.read_text()[-300:]}"}
    start_seconds = time.monotonic() - started
    _, stored = wire.http(hub.port, "GET", "/stop/crowd.json", b"", secret)
    hub.stop(60)
    stored = json.loads(stored)
    lost = [number for number, said in enumerate(crowd.acknowledged) if stored["n"].get(f"c{number}", 0) < said]
    left = len(stored.get("left") or {})
    faults = []
    if code != 0:
        faults.append(f"exit code {code}")
    if seconds > MOST_SECONDS and not runner.quick:
        faults.append(f"the stop took {seconds:.1f} s")
    if lost:
        faults.append(f"acknowledged and lost: {len(lost)} clients")
    if left < len(crowd.peers):
        faults.append(f"the writes for {len(crowd.peers) - left} disconnects are missing")
    return {"clients": len(crowd.peers), "acknowledged": sum(crowd.acknowledged), "stop_seconds": round(seconds, 1),
            "next_start_seconds": round(start_seconds, 1), "lost": len(lost), "left_behind": left, "fault": "; ".join(faults) or None}


def quietly(work, *given):
    """Of requests that the stop cuts."""
    try:
        work(*given)
    except (wire.Closed, OSError, AssertionError):
        pass
