"""What an attack is, and the process that carries one out.

    attack.py NAME     reads its orders from standard input, see `main`

An attack is a generator: it prepares (content, sockets, bytes to send), yields, attacks, and returns what it counted. It is bounded
by `a.over()`, by numbers, and speaks to 127.0.0.1 only. Its place in the tree has its own name, so that all can share a hub.
"""

import dataclasses
import importlib
import json
import sys
import time
from pathlib import Path

import wire

ATTACKS = {}


@dataclasses.dataclass
class Attack:
    name: str
    what: str
    work: object
    # Rules of `/NAME`; without any, everything there is denied to all.
    rules: dict = None
    # Most seconds of the attack itself.
    seconds: float = 15
    # How long after the attack a client may still wait because of it.
    tail: float = 2
    # Where and how the probe works: `write` or `read`.
    probe_path: str = "probe/w"
    probe_mode: str = "write"
    # A development hub: only if the attack needs a second namespace.
    dev: bool = False
    # A hub with a TLS port next to the plain one: `a.tls_port`.
    tls: bool = False
    # Starts its own hubs, without a probe: `work(runner)` returns figures, with "fault" among them if it failed.
    alone: bool = False
    # Sets the shim's page before the quiet time, e.g. {"sync_delay_ms": 870}.
    shim: dict = None
    # Checks the figures; returns a text if one is wrong.
    fault: object = None


def attack(name, what, **settings):
    def register(work):
        ATTACKS[name] = Attack(name, what, work, **settings)
        return work

    return register


def load():
    for file in sorted((Path(__file__).parent / "attacks").glob("*.py")):
        importlib.import_module(f"attacks.{file.stem}")
    return ATTACKS


class Context:
    """What an attack needs to know, and the usual steps."""

    def __init__(self, attack, port, secret, seconds, scale, log, tls_port=None):
        self.tls_port = tls_port
        self.name, self.port, self.secret, self.scale, self.log = attack.name, port, secret, scale, Path(log)
        self.root = attack.name
        self.seconds = seconds
        self.end = None

    def size(self, full, least=1):
        """A number of nodes or bytes, smaller in a quick run."""
        return max(least, int(full * self.scale))

    def over(self, share=1.0):
        """Whether the attack's time, or a share of it, has passed."""
        return time.monotonic() >= self.end - self.seconds * (1 - share)

    def wait(self):
        """Until the time is over."""
        time.sleep(max(0, self.end - time.monotonic()))

    def seed(self, path, body):
        """Content, written by an administrator."""
        status, answer = wire.http(
            self.port, "PUT", f"/{path}.json?print=silent", body, {"Authorization": f"Bearer {self.secret}"})
        assert status in (200, 204), f"seeding /{path}: {status} {answer[:200]}"

    def realtime(self, admin=False, **settings):
        return wire.Realtime(self.port, self.secret if admin else None, **settings)

    def observe(self, admin=False, **settings):
        return wire.Observe(self.port, self.secret if admin else None, **settings)


def records(count, filler=0, start=0):
    """`{"k0000000":{"score":…,"name":"…"},…}`"""
    text = "x" * filler
    return ("{" + ",".join(f'"k{i:07}":{{"score":{i * 7919 % 1000003},"name":"n{i}{text}"}}' for i in range(start, start + count)) + "}").encode()


def leaves(count, value="1", start=0):
    """`{"k0000000":1,…}`"""
    return ("{" + ",".join(f'"k{i:07}":{value}' for i in range(start, start + count)) + "}").encode()


def text_leaves(total):
    """About `total` bytes of JSON in strings of 100 bytes."""
    return leaves(max(1, total // 114), '"' + "x" * 100 + '"')


def main(name):
    """Orders: one line of JSON; then a line `go` after `ready` was printed. The figures are printed as JSON."""
    orders = json.loads(sys.stdin.readline())
    made = load()[name]
    context = Context(made, orders["port"], orders["secret"], orders["seconds"], orders["scale"], orders["log"], orders.get("tls_port"))
    steps = made.work(context)
    try:
        next(steps)
    except (AssertionError, wire.Closed, OSError) as error:
        print(f"not ready: {type(error).__name__}: {error}", flush=True)
        return
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.monotonic()
    context.end = started + context.seconds
    figures = None
    try:
        next(steps)
        raise AssertionError("an attack yields once")
    except StopIteration as stopped:
        figures = stopped.value or {}
    except (wire.Closed, OSError) as error:
        figures = {"broken_off": f"{type(error).__name__}: {error}"}
    print(json.dumps({"started": started, "ended": time.monotonic(), "figures": figures}), flush=True)


if __name__ == "__main__":
    # The attacks import this module by its name, so it must be the same one.
    sys.modules["attack"] = sys.modules["__main__"]
    main(sys.argv[1])
