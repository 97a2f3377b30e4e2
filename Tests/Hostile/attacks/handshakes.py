"""What a new connection costs before it has said anything."""

import selectors
import socket
import ssl
import struct
import threading
import time

import wire
from attack import attack

RESET = struct.pack("ii", 1, 0)


def client_context():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def hello():
    """The first bytes of a TLS client. Sent again and again they cost it nothing, and the hub a signature each time."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = client_context().wrap_bio(incoming, outgoing)
    try:
        made.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def newcomer(a, taken, failed):
    """A client of the same address that signs on twice a second: ms until its handshake is done."""
    context = client_context()
    while not a.over():
        started = time.monotonic()
        try:
            with context.wrap_socket(wire.connect(a.tls_port, timeout=10)):
                taken.append((time.monotonic() - started) * 1000)
        except OSError as error:
            failed.append(str(error))
        time.sleep(max(0, min(started + 0.5, a.end) - time.monotonic()))


@attack("hello-flood", "the same TLS hello on one new connection after the other, up to 2,000 at a time, as fast as the hub takes them; deny-all",
        tls=True, seconds=12)
def hello_flood(a):
    first = hello()
    most = a.size(2_000, 50)
    yield
    taken, failed = [], []
    other = threading.Thread(target=newcomer, args=(a, taken, failed), daemon=True)
    other.start()
    ready = selectors.DefaultSelector()
    sent = answered = ended = 0
    while not a.over():
        # Some at a time, with a check for answers in between.
        for _ in range(min(50, most - len(ready.get_map()))):
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            try:
                made.connect((wire.HOST, a.tls_port))
                made.send(first)
            except OSError:
                ended += 1
                made.close()
                continue
            made.setblocking(False)
            ready.register(made, selectors.EVENT_READ)
            sent += 1
        for key, _ in ready.select(0.001):
            try:
                if key.fileobj.recv(4096):
                    answered += 1
                else:
                    ended += 1
            except OSError:
                ended += 1
            ready.unregister(key.fileobj)
            key.fileobj.close()
    left = len(ready.get_map())
    for key in list(ready.get_map().values()):
        key.fileobj.close()
    other.join(15)
    taken.sort()
    return {"hellos": sent, "answered": answered, "ended_by_hub": ended, "waiting_at_end": left, "newcomers": len(taken),
            "newcomer_ms_p50": round(taken[len(taken) // 2]) if taken else None, "newcomer_ms_max": round(taken[-1]) if taken else None,
            "newcomers_failed": len(failed)}
