"""Sockets made by hand: attacks need frames that no library sends."""

import base64
import json
import os
import re
import select
import socket
import struct
import threading
import time

HOST = "127.0.0.1"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def connect(port, receive_buffer=None, timeout=30):
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(timeout)
    made.connect((HOST, port))
    return made


def header(length, opcode=TEXT, final=True, compressed=False):
    """A client's frame head with a mask of zeros, which leaves the payload as it is."""
    first = opcode | (0x80 if final else 0) | (0x40 if compressed else 0)
    if length < 126:
        return struct.pack("!BB4x", first, 0x80 | length)
    if length < 1 << 16:
        return struct.pack("!BBH4x", first, 0x80 | 126, length)
    return struct.pack("!BBQ4x", first, 0x80 | 127, length)


def frame(payload, opcode=TEXT, final=True, compressed=False):
    return header(len(payload), opcode, final, compressed) + payload


class Closed(Exception):
    """The hub ended the connection; `code` is its close code, None without a close frame."""

    def __init__(self, code=None):
        super().__init__(f"closed by the hub, code {code}")
        self.code = code


class WebSocket:
    def __init__(self, port, target, deflate=False, receive_buffer=None, timeout=30):
        self.socket = connect(port, receive_buffer, timeout)
        self.buffer = bytearray()
        extension = "Sec-WebSocket-Extensions: permessage-deflate\r\n" if deflate else ""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {target} HTTP/1.1\r\nHost: {HOST}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{extension}\r\n".encode())
        head = self._until(b"\r\n\r\n")
        self.status = int(head.split(b" ", 2)[1])
        if self.status != 101:
            raise Closed(self.status)

    def _until(self, mark):
        while mark not in self.buffer:
            self._more()
        head, _, rest = bytes(self.buffer).partition(mark)
        self.buffer = bytearray(rest)
        return head

    def _more(self):
        try:
            piece = self.socket.recv(1 << 18)
        except (ConnectionError, OSError) as error:
            if isinstance(error, (TimeoutError, BlockingIOError)):
                raise
            raise Closed() from error
        if not piece:
            raise Closed()
        self.buffer += piece

    def send(self, payload, opcode=TEXT, final=True, compressed=False):
        try:
            self.socket.sendall(header(len(payload), opcode, final, compressed))
            self.socket.sendall(payload)
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed() from error

    def sendall(self, data):
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed() from error

    def frame(self):
        """The next frame that is neither ping nor pong: (opcode, payload)."""
        while True:
            taken = take_frame(self.buffer)
            if taken is None:
                self._more()
                continue
            opcode, payload = taken
            if opcode == CLOSE:
                raise Closed(struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else None)
            if opcode == PING:
                self.send(payload, PONG)
            elif opcode != PONG:
                return opcode, payload

    def close(self):
        self.socket.close()


def take_frame(buffer):
    """Takes a whole frame of the hub from the front of a bytearray; None when it has not come."""
    if len(buffer) < 2:
        return None
    length, start = buffer[1] & 127, 2
    if length == 126:
        if len(buffer) < 4:
            return None
        length, start = struct.unpack_from("!H", buffer, 2)[0], 4
    elif length == 127:
        if len(buffer) < 10:
            return None
        length, start = struct.unpack_from("!Q", buffer, 2)[0], 10
    if len(buffer) < start + length:
        return None
    opcode, payload = buffer[0] & 15, bytes(buffer[start : start + length])
    del buffer[: start + length]
    return opcode, payload


def request(number, action, body):
    """The text of one realtime request; `body` is JSON text or an object."""
    body = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return f'{{"t":"d","d":{{"r":{number},"a":"{action}","b":{body}}}}}'.encode()


ANSWER = re.compile(rb'^\{"t":"d","d":\{"r":(\d+),"b":\{"s":"([a-z_]*)"')


class Realtime(WebSocket):
    """The SDKs' protocol, version 5."""

    def __init__(self, port, secret=None, namespace=None, **settings):
        super().__init__(port, "/.ws?v=5" + (f"&ns={namespace}" if namespace else ""), **settings)
        self.number = 0
        self.hello = self.message()
        if secret:
            status, data = self.ask("gauth", {"cred": secret})
            assert status == "ok", f"the secret was refused: {status} {data}"

    def message(self):
        """The bytes of the next message, chunks joined."""
        _, text = self.frame()
        if len(text) <= 6 and text.isdigit():
            return b"".join(self.frame()[1] for _ in range(int(text)))
        return text

    def ask_later(self, action, body):
        self.number += 1
        self.send(request(self.number, action, body))
        return self.number

    def answer(self):
        """The next answer: (number, status, message). Pushes before it are dropped."""
        while True:
            message = self.message()
            match = ANSWER.match(message)
            if match:
                return int(match[1]), match[2].decode(), message

    def ask(self, action, body):
        """Status and message of the answer."""
        asked = self.ask_later(action, body)
        while True:
            number, status, message = self.answer()
            if number == asked:
                return status, message

    def put(self, path, json_text, **more):
        text = json_text if isinstance(json_text, str) else json.dumps(json_text)
        extra = "".join(f',"{name}":{json.dumps(value)}' for name, value in more.items())
        return self.ask("p", f'{{"p":"{path}","d":{text}{extra}}}')


class Observe(WebSocket):
    """The observe protocol: JSON objects."""

    def __init__(self, port, token=None, namespace=None, **settings):
        super().__init__(port, "/.observe" + (f"?ns={namespace}" if namespace else ""), **settings)
        self.number = 0
        if token:
            self.tell(op="auth", token=token)
            self.frame()

    def tell(self, **members):
        self.number += 1
        self.send(json.dumps({"id": self.number, **members}, separators=(",", ":")).encode())
        return self.number


class Drain(threading.Thread):
    """Reads all that a socket is sent, so that the hub never waits for it, and counts a piece of text in it."""

    def __init__(self, made, needle=b'"s":"ok"', gap=0.0):
        super().__init__(daemon=True)
        self.socket = made.socket if isinstance(made, WebSocket) else made
        self.needle, self.gap = needle, gap
        self.count = self.bytes = 0
        self.closed = False
        self.first = self.last = None
        self.start()

    def run(self):
        tail = b""
        while True:
            try:
                ready, _, _ = select.select([self.socket], [], [], 1)
                if not ready:
                    continue
                piece = self.socket.recv(1 << 20)
            except (OSError, ValueError):
                break
            if not piece:
                break
            self.last = time.monotonic()
            self.first = self.first or self.last
            self.bytes += len(piece)
            text = tail + piece
            self.count += text.count(self.needle)
            # A needle cut in two is counted once: the kept tail is shorter than one.
            tail = text[-(len(self.needle) - 1) :]
            if self.gap:
                time.sleep(self.gap)
        self.closed = True


def http(port, method, target, body=b"", fields=None, timeout=120):
    """One REST request: (status, body)."""
    made = connect(port, timeout=timeout)
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in (fields or {}).items())
        made.sendall(
            f"{method} {target} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode())
        try:
            made.sendall(body)
        except (ConnectionError, BrokenPipeError):
            # Refused before it was read completely: the answer arrives anyway.
            pass
        pieces = []
        try:
            while piece := made.recv(1 << 18):
                pieces.append(piece)
        except ConnectionError:
            pass
    finally:
        made.close()
    head, _, rest = b"".join(pieces).partition(b"\r\n\r\n")
    if not head:
        raise Closed()
    return int(head.split(b" ", 2)[1]), rest
