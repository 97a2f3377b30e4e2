"""Well-behaved clients of the realtime protocol, all in this process.

    crowd.py PORT CLIENTS ROOM EVERY_S

Each listens to its room (ROOM clients share one) and writes a number that grows to its own place there every EVERY_S seconds or so.
Every acknowledged number must be seen by everybody in the room, in order, and be there at the end. `go` on standard input ends the
quiet time, another line ends the writing; then what was seen is printed as JSON.
"""

import asyncio
import base64
import json
import os
import random
import re
import sys
import time

from wire import ANSWER, CLOSE, HOST, PING, PONG, frame, request, take_frame

PUSH = re.compile(rb'^\{"t":"d","d":\{"a":"([dm])","b":\{"p":"([^"]*)","d":(.*)\}\}\}$')
# Longer than the hub may be silent.
ANSWER_SECONDS = 180


class Crowd:
    def __init__(self, port, clients, room, every):
        self.port, self.every = port, every
        self.clients = [Client(self, number, number // room) for number in range(clients)]
        self.writing = True
        self.quiet_until = None
        self.quiet, self.during = [], []
        self.disconnects = {}
        self.refused = {}
        self.unanswered = self.disorder = self.strange = 0
        self.missing = []

    def took(self, sent, now):
        (self.quiet if self.quiet_until is None or sent < self.quiet_until else self.during).append((now - sent) * 1000)


class Client:
    def __init__(self, crowd, number, room):
        self.crowd, self.number = crowd, number
        self.room = f"w/r{room}"
        self.key = f"c{number}"
        self.next = 1
        # Acknowledged numbers; those of a broken connection are unknown.
        self.acknowledged = set()
        self.seen = {}
        self.writer = None
        self.asked = {}
        self.requests = 0
        self.ready = asyncio.Event()

    async def run(self):
        while True:
            try:
                await self.session()
                reason = "eof"
            except Ended as ended:
                reason = str(ended)
            except (OSError, asyncio.IncompleteReadError) as error:
                reason = type(error).__name__
            self.ready.clear()
            for waiting in self.asked.values():
                if not waiting.done():
                    waiting.cancel()
            self.asked = {}
            self.crowd.disconnects[reason] = self.crowd.disconnects.get(reason, 0) + 1
            await asyncio.sleep(1 + random.random())

    async def session(self):
        reader, self.writer = await asyncio.open_connection(HOST, self.crowd.port)
        try:
            key = base64.b64encode(os.urandom(16)).decode()
            self.writer.write(
                f"GET /.ws?v=5 HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {key}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                raise Ended(f"status {head[9:12].decode()}")
            # Writes of others during the interruption were not promised to this connection.
            self.seen = {}
            self.requests += 1
            self.writer.write(frame(request(self.requests, "q", {"p": self.room, "h": ""})))
            self.ready.set()
            await self.listen(reader)
        finally:
            self.writer.close()

    async def listen(self, reader):
        buffer, pieces, due = bytearray(), [], 0
        while data := await reader.read(1 << 16):
            buffer += data
            while (taken := take_frame(buffer)) is not None:
                opcode, payload = taken
                if opcode == CLOSE:
                    raise Ended(f"code {int.from_bytes(payload[:2], 'big')}")
                if opcode == PING:
                    self.writer.write(frame(payload, PONG))
                elif opcode == PONG:
                    continue
                elif due:
                    pieces.append(payload)
                    due -= 1
                    if not due:
                        self.message(b"".join(pieces))
                        pieces = []
                elif len(payload) <= 6 and payload.isdigit():
                    due = int(payload)
                else:
                    self.message(payload)

    def message(self, text):
        if match := ANSWER.match(text):
            waiting = self.asked.pop(int(match[1]), None)
            if waiting and not waiting.done():
                waiting.set_result(match[2])
            return
        match = PUSH.match(text)
        if not match:
            self.crowd.strange += not text.startswith(b'{"t":"c"')
            return
        path, value = match[2].decode(), json.loads(match[3])
        if path == self.room:
            for key, number in (value or {}).items():
                self.saw(key, number)
        else:
            self.saw(path.rpartition("/")[2], value)

    def saw(self, key, number):
        last = self.seen.get(key)
        if last is not None:
            if number < last:
                self.crowd.disorder += 1
            self.crowd.missing += [(key, between) for between in range(last + 1, number)]
        self.seen[key] = number

    async def write(self):
        await asyncio.sleep(random.random() * self.crowd.every)
        while self.crowd.writing:
            await self.ready.wait()
            number, self.next = self.next, self.next + 1
            self.requests += 1
            waiting = self.asked[self.requests] = asyncio.get_running_loop().create_future()
            sent = time.monotonic()
            self.writer.write(frame(request(self.requests, "p", f'{{"p":"{self.room}/{self.key}","d":{number}}}')))
            try:
                status = await asyncio.wait_for(waiting, ANSWER_SECONDS)
                self.crowd.took(sent, time.monotonic())
                if status == b"ok":
                    self.acknowledged.add(number)
                else:
                    self.crowd.refused[status.decode()] = self.crowd.refused.get(status.decode(), 0) + 1
            except asyncio.TimeoutError:
                self.crowd.unanswered += 1
            except asyncio.CancelledError:
                if not waiting.cancelled():
                    raise
            await asyncio.sleep(self.crowd.every * (0.5 + random.random()))


class Ended(Exception):
    pass


def summary(values):
    ordered = sorted(values)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100], "max": ordered[-1], "count": len(ordered)} if ordered else None


async def main(port, clients, room, every):
    crowd = Crowd(port, clients, room, every)
    orders = asyncio.Queue()
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: orders.put_nowait(sys.stdin.readline()))
    sessions = [asyncio.create_task(client.run()) for client in crowd.clients]
    await asyncio.gather(*(client.ready.wait() for client in crowd.clients))
    writers = [asyncio.create_task(client.write()) for client in crowd.clients]
    print("ready", flush=True)
    if await orders.get():
        crowd.quiet_until = time.monotonic()
        await orders.get()
    crowd.writing = False
    # Writers still waiting get their answers first; then the last changes arrive.
    await asyncio.wait(writers, timeout=30)
    await asyncio.sleep(5)
    lost = [(key, number) for key, number in crowd.missing if number in crowd.clients[int(key[1:])].acknowledged]
    unseen = absent = 0
    for client in crowd.clients:
        mates = [other for other in crowd.clients if other.room == client.room]
        unseen += sum(bool(other.acknowledged) and client.seen.get(other.key, 0) < max(other.acknowledged) for other in mates)
    for task in sessions:
        task.cancel()
    rooms = {client.room for client in crowd.clients}
    for name in rooms:
        reader = Client(crowd, -1, 0)
        reader.room = name
        task = asyncio.create_task(reader.session())
        for _ in range(200):
            await asyncio.sleep(0.02)
            if reader.seen or task.done():
                break
        absent += sum(
            bool(client.acknowledged) and reader.seen.get(client.key, 0) < max(client.acknowledged)
            for client in crowd.clients if client.room == name)
        task.cancel()
        # The process that started the hub reports its death.
        await asyncio.gather(task, return_exceptions=True)
    print(json.dumps({
        "clients": clients, "acknowledged": sum(len(client.acknowledged) for client in crowd.clients), "lost": len(lost), "examples": lost[:5],
        "unseen_at_end": unseen, "absent_at_end": absent, "out_of_order": crowd.disorder, "disconnected": crowd.disconnects, "refused": crowd.refused,
        "unanswered": crowd.unanswered, "strange": crowd.strange, "quiet": summary(crowd.quiet), "during": summary(crowd.during)}), flush=True)


if __name__ == "__main__":
    port, clients, room, every = sys.argv[1:]
    asyncio.run(main(int(port), int(clients), int(room), float(every)))
