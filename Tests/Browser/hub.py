"""A hub to test against, and a second client that speaks realtime v5 to it."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
from pathlib import Path

from websockets.sync.client import connect

ROOT = Path(__file__).resolve().parents[2]


class Hub:
    """`vigla serve` with data in memory. `port` is known once it is ready; `start` again serves the same port."""

    def __init__(self, *options):
        self.options = options
        self.port = 0
        self.process = None

    def start(self):
        command = [os.environ.get("VIGLA_BIN", ".build/debug/vigla"), "serve", "--memory", *self.options,
                   "--port", str(self.port), "--web", str(ROOT / "web")]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = queue.Queue()

        def read(stream):
            for line in stream:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, args=(self.process.stdout,), daemon=True).start()
        said = []
        while True:
            try:
                line = lines.get(timeout=30)
            except queue.Empty:
                line = None
            if line is None:
                self.kill()
                raise AssertionError("the hub did not become ready; it said:\n" + "".join(said))
            said.append(line)
            ready = re.search(r"vigla ready on http://[^:/]+:(\d+)", line)
            if ready:
                self.port = int(ready.group(1))
                return self

    @property
    def page(self):
        return f"http://127.0.0.1:{self.port}/.console/"

    def kill(self):
        """Ends the hub as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self):
        self._end(signal.SIGTERM)

    def _end(self, how):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Client:
    """Another client of the hub: writes and reads over realtime v5."""

    def __init__(self, hub, namespace="default"):
        self.socket = connect(f"ws://127.0.0.1:{hub.port}/.ws?v=5&ns={namespace}", max_size=None, compression=None)
        self.number = 0
        hello = self._receive()
        assert hello["t"] == "c" and hello["d"]["t"] == "h", hello

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def set(self, path, value):
        return self._ask("p", {"p": path, "d": value})

    def update(self, path, entries):
        return self._ask("m", {"p": path, "d": entries})

    def get(self, path):
        return self._ask("g", {"p": path, "q": {}})

    def _ask(self, action, body):
        self.number += 1
        text = json.dumps({"t": "d", "d": {"r": self.number, "a": action, "b": body}})
        if len(text) > 16384:  # ASCII, so characters are UTF-16 units (contract §1.6)
            parts = [text[i:i + 16384] for i in range(0, len(text), 16384)]
            self.socket.send(str(len(parts)))
            for part in parts:
                self.socket.send(part)
        else:
            self.socket.send(text)
        while True:
            message = self._receive()
            if message["t"] == "d" and message["d"].get("r") == self.number:
                answer = message["d"]["b"]
                assert answer["s"] == "ok", f"{action} {body.get('p')}: {answer}"
                return answer["d"]

    def _receive(self):
        text = self.socket.recv(timeout=20)
        if re.fullmatch(r"\d{1,6}", text):
            text = "".join(self.socket.recv(timeout=20) for _ in range(int(text)))
        return json.loads(text)
