"""A second client of a hub, which speaks realtime v5."""

import json
import re

from websockets.sync.client import connect


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

    def set_as(self, token, path, value):
        """Writes after signing in, as an administrator by a secret."""
        self._ask("auth", {"cred": token})
        return self.set(path, value)

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
