"""As much of the NATS protocol as the faults need."""

import json
import socket


class Nats:
    """A connection that does not hear what it publishes itself."""

    def __init__(self, address):
        self.socket = socket.create_connection((address, 4222), timeout=30)
        self.buffer = b""
        self._line()        # INFO
        self._send(b'CONNECT {"verbose":false,"pedantic":false,"echo":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        while self._line() != b"PONG":
            pass

    def _send(self, data):
        self.socket.sendall(data)

    def _more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise OSError("closed by the server")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def _take(self, count):
        while len(self.buffer) < count + 2:
            self._more()
        taken, self.buffer = self.buffer[:count], self.buffer[count + 2:]
        return taken

    def subscribe(self, subject, number):
        self._send(f"SUB {subject} {number}\r\n".encode())

    def publish(self, subject, reply, payload, headers=0):
        """Headers are the first bytes of the payload, as `receive` returns them."""
        to = f"{subject} {reply}" if reply else subject
        head = f"HPUB {to} {headers} {len(payload)}" if headers else f"PUB {to} {len(payload)}"
        self._send(head.encode() + b"\r\n" + payload + b"\r\n")

    def receive(self):
        """The next message: subject, subject of the reply, payload, bytes of it that are headers."""
        while True:
            words = self._line().decode().split()
            if words[0] == "PING":
                self._send(b"PONG\r\n")
            elif words[0] == "MSG":
                return words[1], words[3] if len(words) == 5 else "", self._take(int(words[-1])), 0
            elif words[0] == "HMSG":
                return words[1], words[3] if len(words) == 6 else "", self._take(int(words[-1])), int(words[-2])

    def request(self, subject, payload=b""):
        self.subscribe("answers.of.a.fault", 1)
        self.publish(subject, "answers.of.a.fault", payload)
        return json.loads(self.receive()[2])

    def close(self):
        self.socket.close()
