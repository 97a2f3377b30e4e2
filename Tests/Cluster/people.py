"""Clients of the hubs: they write what can be checked afterwards, and say what was answered."""

import base64
import hashlib
import json
import os
import random
import socket
import struct
import threading
import time

from machines import ENDED_AT_LAST


class Lost(Exception):
    """The connection is gone; what was asked for last may have happened or not."""


class Absent(Lost):
    """Nobody answered: nothing has begun."""


class Link:
    """A connection that speaks the realtime protocol, as far as it is needed here."""

    def __init__(self, address, last="", timeout=20):
        """
        :param last: the session that this one replaces.
        """
        try:
            self.socket = socket.create_connection((address, 9000), timeout=3)
        except OSError as error:
            raise Absent(error) from None
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.settimeout(timeout)
            key = base64.b64encode(os.urandom(16)).decode()
            self.socket.sendall(f"GET /.ws?v=5&ns=default&ls={last} HTTP/1.1\r\nHost: {address}:9000\r\n"
                                "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
            self.buffer, self.parts, self.number, self.pushes = b"", 0, 0, []
            head = self._until(b"\r\n\r\n")
            if b" 101 " not in head.split(b"\r\n")[0]:
                raise Lost(head[:60])
            self.session = self.receive()["d"]["d"]["s"]
        except OSError as error:
            raise Lost(error) from None

    def _read(self):
        try:
            more = self.socket.recv(1 << 16)
        except OSError as error:
            raise Lost(error) from None
        if not more:
            raise Lost("closed")
        self.buffer += more

    def _until(self, mark):
        while mark not in self.buffer:
            self._read()
        head, _, self.buffer = self.buffer.partition(mark)
        return head

    def _take(self, count):
        while len(self.buffer) < count:
            self._read()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def _send(self, payload, opcode=1):
        head = bytes([0x80 | opcode]) + (bytes([0x80 | len(payload)]) if len(payload) < 126 else struct.pack("!BH", 0x80 | 126, len(payload)))
        try:
            self.socket.sendall(head + b"\0\0\0\0" + payload)
        except OSError as error:
            raise Lost(error) from None

    def receive(self):
        """The next message; long ones come in parts behind their number."""
        text = ""
        while True:
            first, second = self._take(2)
            length = second & 127
            if length > 125:
                length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
            payload = self._take(length)
            if first & 15 == 9:
                self._send(payload, 10)
                continue
            if first & 15 == 8:
                raise Lost("closed by the hub")
            if first & 15 != 1:
                continue
            part = payload.decode()
            if not self.parts and part.isdigit():
                self.parts = int(part)
                continue
            text += part
            if self.parts > 1:
                self.parts -= 1
                continue
            self.parts = 0
            message = json.loads(text)
            text = ""
            if message.get("t") == "c" and message["d"].get("t") in ("r", "s"):
                raise Lost("told to go")
            return message

    def ask(self, action, **body):
        """The status and what it came with; pushes on the way are kept."""
        self.number += 1
        self._send(json.dumps({"t": "d", "d": {"r": self.number, "a": action, "b": body}}).encode())
        while True:
            data = self.receive().get("d", {})
            if data.get("r") == self.number:
                return data["b"].get("s"), data["b"].get("d")
            if "a" in data:
                self.pushes.append(data)

    def close(self):
        self.socket.close()


def number_hash(value):
    """As the SDKs hash a number, for a write on condition."""
    return base64.b64encode(hashlib.sha1(b"number:" + struct.pack(">d", value).hex().encode()).digest()).decode()


class Person(threading.Thread):
    """Lives at one hub after the other. What it does is one step; `Lost` takes it to another hub."""

    def __init__(self, world, name):
        super().__init__(daemon=True, name=name)
        self.world, self.random, self.isOver = world, random.Random(f"{world.seed} {name}"), False
        self.failure = None
        self.last = ""      # the session to replace, for a client that reconnects
        self.start()

    def run(self):
        try:
            while not self.isOver:
                link = None
                try:
                    self.at = self.random.choice(self.world.machines)
                    link = Link(self.at.address, self.last)
                    self.arrive(link)
                    while not self.isOver:
                        if self.world.isQuiet:
                            time.sleep(0.05)
                        else:
                            self.step(link)
                except Absent:
                    time.sleep(0.2)
                except Lost:
                    self.lost(link)
                    time.sleep(0.2)
                finally:
                    if link:
                        self.leave(link)
                        link.close()
        except Exception as error:   # a check that failed
            self.failure = error

    def arrive(self, link): pass
    def step(self, link): pass
    def lost(self, link): pass
    def leave(self, link): pass


class Counter(Person):
    """Adds one, and a note of it, in one write: whatever was answered, the count is that of the notes."""

    def arrive(self, link):
        if not hasattr(self, "n"):
            self.n = 0

    def step(self, link):
        self.n += 1
        note, group = f"{self.name}-{self.n:06}", "abc"[self.n % 3]
        self.world.asked(note)
        status, text = link.ask("m", p="/", d={f"tally/{group}": {".sv": {"increment": 1}}, f"notes/{group}/{note}": True})
        self.world.answered(note, status, text)
        time.sleep(self.random.random() * 0.02)


class Buyer(Person):
    """Raises a number on the condition that it is what was read, as a transaction does, and reads what it has written."""

    def arrive(self, link):
        self.mine = 0

    def step(self, link):
        status, value = link.ask("g", p="/tally/till")
        if status != "ok":
            return time.sleep(0.1)
        value = value or 0
        self.world.check(value >= self.mine, f"{self.name} at hub {self.at.number} was told that the till is {self.mine}, and read {value}")
        status, text = link.ask("p", p="/tally/till", d=value + 1, h=number_hash(value) if value else "")
        self.world.bought(value + 1, self.name, status, text)
        self.mine = value + 1 if status == "ok" else self.mine
        time.sleep(self.random.random() * 0.05)


class Watcher(Person):
    """Sees one number after the other grow, in the order that all others see."""

    def arrive(self, link):
        self.tally = {}
        link.ask("q", p="/tally", h="")
        self.look(link)

    def step(self, link):
        link.ask("s", c={})     # a request that is answered
        self.look(link)
        time.sleep(0.05)

    def look(self, link):
        for push in link.pushes:
            where, value = push["b"]["p"].removeprefix("tally").strip("/"), push["b"]["d"]
            before = self.state()
            if where:
                self.tally[where] = value
            elif push["a"] == "m":
                self.tally.update(value)
            else:
                self.tally = value or {}
            after = self.state()
            self.world.check(all(a >= b for a, b in zip(after, before)), f"{self.name} at hub {self.at.number} saw {after} behind {before}")
            self.world.seen.add(after)
        link.pushes = []

    def state(self):
        return tuple(self.tally.get(name) or 0 for name in ("till", "a", "b", "c"))


class Guest(Person):
    """Comes, leaves something for its end, and goes: that is written once, and not while it is there."""

    def arrive(self, link):
        self.world.guests += 1
        self.id = f"{self.name}-{self.world.guests:05}"
        # Until it is answered, the hub may have it or not.
        self.world.left[self.id] = None
        status, _ = link.ask("o", p=f"/gone/{self.id}", d={".sv": {"increment": 1}})
        if status == "ok":
            self.world.left[self.id] = True
        self.until = time.time() + self.random.random() * 4

    def step(self, link):
        if time.time() > self.until:
            raise Lost("its own wish")
        status, value = link.ask("g", p=f"/gone/{self.id}")
        self.world.check(status != "ok" or value is None, f"{self.id} is there, and hub {self.at.number} says that it is gone ({value})")
        time.sleep(0.1)

    def leave(self, link):
        if getattr(self, "id", None):
            self.world.ended[self.id] = time.time()
            self.id = None


class Resident(Person):
    """Is shown as present, and comes back elsewhere as the same client: what its session before had left does not count any more."""

    visits = 0
    sureFrom = 0.0      # an interrupted arrival may have left a disconnect write, which runs later

    def arrive(self, link):
        self.isHere = False
        self.visits += 1
        here = f"/here/{self.name}"
        answers = [link.ask("o", p=here, d=None), link.ask("p", p=here, d=self.visits)]
        if any(status != "ok" for status, _ in answers):
            raise Lost("not let in")
        self.last, self.isHere = link.session, True
        self.until = time.time() + 2 + self.random.random() * 8

    def step(self, link):
        if time.time() > self.until:
            raise Lost("its own wish")
        status, value = link.ask("g", p=f"/here/{self.name}")
        self.world.check(
            status != "ok" or value == self.visits or time.time() < self.sureFrom,
            f"{self.name} is there for visit {self.visits}, and hub {self.at.number} says {value}")
        time.sleep(0.1)

    def lost(self, link):
        if not link or not self.isHere:
            self.sureFrom = time.time() + ENDED_AT_LAST
        self.isHere = False
