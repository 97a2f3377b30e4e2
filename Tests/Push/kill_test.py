"""Kills a hub again and again while it is written to and sends, and checks what its receiver got.

Each acknowledged write is delivered; nothing is delivered for a commit that the data no longer have; and all deliveries of one write carry
one id. `VIGLA_PUSH_KILLS` is the number of kills.
"""

import collections
import json
import os
import random
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402

RULES = """{"rules": {
  "feedback": {"$f": {".webhook": "sink"}},
  "news": {"$k": {".inbox": {"to": "inbox/$u/$k", "each": "subs/$u", "value": {"title": "$k"}}}},
  "inbox": {"$u": {"$k": {".notify": {"devices": "devices/$u", "title": "newData.child('title').val()", "wait": 0, "funnel": "reach/$k"}}}}}}"""
PEOPLE = [f"u{i}" for i in range(30)]
KILLS = int(os.environ.get("VIGLA_PUSH_KILLS", "20"))


class Sink:
    """Records deliveries. Of some it loses the answer, or answers that it is busy."""

    def __init__(self, chance):
        self.got = []
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                with lock:
                    self.got.append((handler.headers["Vigla-Delivery"], body))
                    fate = chance.random() if self.is_faulty else 1
                if fate < 0.02:
                    handler.close_connection = True
                    return
                handler.send_response(503 if fate < 0.04 else 204)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 200

            def handle_error(self, *_):
                pass  # the hub was killed

        self.is_faulty = True
        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Kills(unittest.TestCase):
    def ask(self, method, path, value=None):
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(f"{self.hub.url}{path}", data, {"Authorization": "Bearer owner"}, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or "null")

    def test_kills(self):
        seed = int(os.environ.get("VIGLA_PUSH_SEED", time.time()))
        print(f"seed {seed}, {KILLS} kills", flush=True)
        chance, sink = random.Random(seed), Sink(random.Random(seed + 1))
        self.addCleanup(sink.stop)
        folder = tempfile.TemporaryDirectory(prefix="vigla-kills-")
        self.addCleanup(folder.cleanup)
        config = Path(folder.name) / "hub.json"
        config.write_text(json.dumps({"outbound": {"webhooks": {"sink": {
            "url": sink.url, "secret": "0123456789abcdef", "private": True, "devices": True}}}}))
        self.hub = Hub("--dev", "--data", f"{folder.name}/data", "--config", str(config), rules=RULES)
        self.addCleanup(self.hub.stop)
        self.ask("PATCH", "/.json", {f"subs/{u}": True for u in PEOPLE} | {
            f"devices/{u}/d": {"kind": "webhook", "name": "sink"} for u in PEOPLE})

        acknowledged, is_over = {}, threading.Event()

        def write():
            number = 0
            while not is_over.is_set():
                number += 1
                for path, value in ((f"/feedback/f{number}", 1), (f"/feedback/f{number}", 2), (f"/news/k{number}", True)):
                    if path.startswith("/news") and number % 10:
                        continue
                    try:
                        self.ask("PUT", f"{path}.json", value)
                        acknowledged[path] = value
                    except OSError:
                        time.sleep(0.01)
                time.sleep(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.01, 0.5))
                self.hub.kill()
                self.hub.start()
        finally:
            is_over.set()
            writer.join()
        sink.is_faulty = False
        waiting = None
        for _ in range(600):
            waiting = self.ask("GET", "/.outbox?state=waiting&limit=1000")["entries"]
            if not waiting:
                break
            time.sleep(0.5)
        self.assertEqual(waiting, [])
        self.assertEqual(self.ask("GET", "/.outbox?state=dead")["entries"], [])

        feedback, news, reach = (self.ask("GET", f"/{place}.json") or {} for place in ("feedback", "news", "reach"))
        events, notifications = collections.defaultdict(list), collections.defaultdict(list)
        for delivery, body in sink.got:
            if body["type"] == "event":
                event = body["event"]
                events[event["path"]].append((delivery, event["event"], event.get("after"), event["seq"]))
            else:
                notifications[body["notification"]["title"]].append((delivery, body["notification"]["id"]))
        written = [path for path in acknowledged if path.startswith("/feedback")]
        self.assertGreater(len(written), 10)
        for path in written:
            self.assertIn(path, events, "an acknowledged write was not delivered")
        for path, got in events.items():
            stored = feedback.get(path.rsplit("/", 1)[1])
            self.assertIsNotNone(stored, f"{path} was delivered and is not stored")
            by_value = collections.defaultdict(set)
            for delivery, _, after, seq in got:
                by_value[seq].add((delivery, after))
            for seq, same in by_value.items():
                self.assertEqual(len(same), 1, f"{path}: commit {seq} has several ids or values: {same}")
            firsts = list(dict.fromkeys(seq for _, _, _, seq in got))
            self.assertEqual(firsts, sorted(firsts), f"{path}: out of order")
            self.assertEqual(got[-1][2], stored, f"{path}: the last delivery is not what is stored")
        repeated = len(sink.got) - len({delivery for delivery, _ in sink.got})
        for key in news:
            ids = {delivery for delivery, _ in notifications[key]}
            self.assertEqual(len(ids), len(PEOPLE), f"{key}: {len(ids)} people were notified")
            self.assertEqual(len({identity for _, identity in notifications[key]}), len(PEOPLE))
            self.assertEqual(reach[key], {"sent": len(PEOPLE), "delivered": len(PEOPLE)})
        self.assertEqual(set(notifications), set(news))
        print(f"{len(written)} writes, {len(news)} announcements, {len(sink.got)} deliveries, {repeated} of them repetitions")


if __name__ == "__main__":
    unittest.main()
