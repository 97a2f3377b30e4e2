"""The clients of the observe protocol against the real hub: each carries out every scenario of scenarios.json. See Tests/Clients/run.

A scenario has `rules` (else everything is open) and `steps`:

    {"ask": "set", "path": "/a", "value": 1}     the client asks (peer.py has the calls); "answer" is what it is told, "error"
                                                 some members of the refusal
    {"begin": "set", "turn": "w", …}             the same, without waiting; {"answered": "w", "error": {"code": "connection_lost"}}
    {"observe": "feed", "path": "/a", "events": ["added"]}
    {"told": "feed", "events": [{"event": "added", "key": "k", "value": 1, "prev": null}, …]}
                                                 these are the next events, and nothing else; "…" is any text, and seq never decreases
    {"told_last": "feed", "event": {…}}          events come until this one
    {"nothing": "feed"}                          nothing has been told: the client asks the hub for something, which would come behind it
    {"nothing_yet": "feed"}                      the same without asking: there is no connection
    {"other": "set", "path": "/a", "value": 1}   somebody else writes: set, update (paths below "path") or remove
    {"until": "/a", "is": 1}                     waits until somebody else finds that there
    {"state": "connected"}                       waits until the client says so (again); "error" as above
    {"hub": "kill" | "stop" | "start"}           SIGKILL, SIGTERM; it keeps its port and its data
    {"link": "cut" | "mend" | "hold"}            the network between them (link.py); cut and mend with "after": 2000, bytes
    {"at_once": 20, "step": {"ask": …}}          so many of this step, all begun before any is answered
    {"storm": {…}}                               storm.py

`{"TOKEN": {"sub": "ana"}}` anywhere in a step is a token of this development hub with these claims, `{"REPEAT": ["ab", 3]}` the text
ababab. A scenario that begins with `"starts": "stopped"` makes the client while no hub runs.
"""

import base64
import collections
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Tests/Clients")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402
from link import Link  # noqa: E402
from storm import storm  # noqa: E402

DEADLINE = int(os.environ.get("VIGLA_CLIENTS_SECONDS", 120))  # seconds after which a client counts as hanging
OPEN = {"rules": {".read": True, ".write": True}}
wanted = os.environ.get("VIGLA_CLIENTS", "")
FILE = json.loads((ROOT / "Tests/Clients/scenarios.json").read_text())


def node_has_sockets():
    said = subprocess.run(["node", "--experimental-websocket", "-p", "typeof WebSocket"], capture_output=True, text=True)
    return said.stdout.strip() == "function"


def clients():
    """Name → the command of a peer."""
    here = ROOT / "Tests/Clients"
    found = {
        "vigla.js with vigla-node.js": ["node", str(here / "peer.mjs")], "vigla.py": [sys.executable, str(here / "peer.py")],
        "ViglaClient": [os.environ["VIGLA_CLIENT_PEER"]],
    }
    if node_has_sockets():
        found["vigla.js with Node's sockets"] = ["node", "--experimental-websocket", "--no-warnings", str(here / "peer.mjs")]
    if wanted == "Deno":  # the other runtimes share its code: packages_test.py runs a program with it each time
        found["vigla.js with Deno"] = [str(Path(sys.executable).parent / "deno"), "run", "--allow-all", str(here / "peer.mjs")]
    return found


class Peer:
    """A process with one client, and what it says."""

    def __init__(self, command, address, options):
        self.process = subprocess.Popen([*command, address, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.turns = 0
        self.answers = {}     # turn → queue of one
        self.observers = {}   # name → queue of events
        self.states = queue.Queue()
        self.counts = collections.Counter()
        self.seqs = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "turn" in said:
                self.answers[said["turn"]].put(said)
            elif "observer" in said:
                self.counts[said["observer"], said["event"]["event"]] += 1
                self.observers[said["observer"]].put(said["event"])
            else:
                self.states.put(said)

    def count(self, name, event):
        """How often an observer was told such an event."""
        return self.counts[name, event]

    def begin(self, call, members):
        self.turns += 1
        self.answers[self.turns] = queue.Queue()
        if call == "observe":
            self.observers[members["as"]] = queue.Queue()
        self.process.stdin.write(json.dumps({"turn": self.turns, "call": call, **members}) + "\n")
        self.process.stdin.flush()
        return self.turns

    def answer(self, turn):
        return self.answers[turn].get(timeout=DEADLINE)

    def ask(self, call, **members):
        said = self.answer(self.begin(call, members))
        if "error" in said:
            raise AssertionError(f"{call} {members}: {said['error']}")
        return said["ok"]

    def event(self, name):
        try:
            event = self.observers[name].get(timeout=DEADLINE)
        except queue.Empty:
            raise AssertionError(f"{name} is told nothing more") from None
        seq = event.pop("seq", None)
        if seq is not None:
            if event["event"] == "reset":
                self.seqs[name] = seq
            assert seq >= self.seqs.get(name, 0), f"{name}: commit {seq} behind {self.seqs[name]}"
            self.seqs[name] = seq
        return event

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the client does not end when it is closed") from None
        finally:
            self.process.stdout.close()


def is_like(told, meant):
    """Equal, with "…" for any text."""
    if isinstance(meant, dict) and isinstance(told, dict):
        return meant.keys() == told.keys() and all(is_like(told[key], meant[key]) for key in meant)
    if isinstance(meant, list) and isinstance(told, list):
        return len(meant) == len(told) and all(map(is_like, told, meant))
    return meant == "…" and isinstance(told, str) or (meant == told and isinstance(meant, bool) == isinstance(told, bool))


def written_out(step):
    if isinstance(step, dict):
        if "TOKEN" in step:
            parts = [{"alg": "none", "typ": "JWT"}, {"iat": int(time.time()), "exp": int(time.time()) + 3600, **step["TOKEN"]}]
            return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
        if "REPEAT" in step:
            text, times = step["REPEAT"]
            return text * times
        return {key: written_out(value) for key, value in step.items()}
    return [written_out(value) for value in step] if isinstance(step, list) else step


class Run:
    """One scenario with one client."""

    def __init__(self, command, scenario):
        self.folder = tempfile.TemporaryDirectory(prefix="vigla-clients-")
        self.hub = Hub("--dev", "--data", self.folder.name, rules=json.dumps(scenario.get("rules", OPEN)))
        self.link = Link(self.hub.port)
        if scenario.get("starts") == "stopped":
            self.hub.kill()
        self.peer = Peer(command, f"http://127.0.0.1:{self.link.port}", written_out(scenario.get("options", {})))
        self.begun = {}

    def close(self):
        self.link.close()
        self.hub.stop()
        self.folder.cleanup()

    def do(self, step):
        verb = next(name for name in step if hasattr(self, f"do_{name}"))
        members = dict(step)
        getattr(self, f"do_{verb}")(members.pop(verb), **members)

    # ---- actions of the client

    def do_ask(self, call, **members):
        self.do_begin(call, **{name: value for name, value in members.items() if name not in ("answer", "error")})
        self.do_answered("", **{name: value for name, value in members.items() if name in ("answer", "error")})

    def do_begin(self, call, **members):
        name = members.pop("turn", "")
        self.begun[name] = self.peer.begin(call, members)

    def do_answered(self, name, answer="…any", error=None):
        said = self.peer.answer(self.begun[name])
        self.expect(said, answer, error)

    @staticmethod
    def expect(said, answer, error):
        if error is None:
            assert "ok" in said, f"refused: {said}"
            assert answer == "…any" or is_like(said["ok"], answer), f"answered {said['ok']}, not {answer}"
        else:
            assert "error" in said, f"not refused, but answered: {said}"
            for member, value in error.items():
                assert is_like(said["error"].get(member), value), f"refused with {said['error']}, not {error}"

    def do_observe(self, name, **members):
        self.peer.ask("observe", **{"as": name}, **members)

    def do_at_once(self, count, step):
        members = dict(step)
        call = members.pop("ask")
        expected = {"answer": members.pop("answer", "…any"), "error": members.pop("error", None)}
        for turn in [self.peer.begin(call, members) for _ in range(count)]:
            self.expect(self.peer.answer(turn), **expected)

    # ---- events of the client

    def do_told(self, name, events):
        for number, meant in enumerate(events):
            told = self.peer.event(name)
            if told["event"] == "ended" and isinstance(told.get("error"), dict):
                told["error"] = {member: told["error"].get(member) for member in meant.get("error", ["code"])}
            assert is_like(told, meant), f"event {number} of {name} is {json.dumps(told)}, not {json.dumps(meant)}"

    def do_told_last(self, name, event):
        while not is_like(told := self.peer.event(name), event):
            assert told["event"] == event["event"], f"{name} is told {told}"

    def do_nothing(self, name):
        self.peer.ask("ping")
        assert self.peer.observers[name].empty(), f"{name} is told {self.peer.event(name)}"

    def do_nothing_yet(self, name):
        assert self.peer.observers[name].empty(), f"{name} is told {self.peer.event(name)}"

    def do_state(self, state, error=None):
        while (said := self.peer.states.get(timeout=DEADLINE))["state"] != state:
            pass
        for member, value in (error or {}).items():
            assert is_like(said["error"][member], value), f"{said} has not {error}"

    # ---- others

    def do_other(self, what, path, value=None):
        method = {"set": "PUT", "update": "PATCH", "remove": "DELETE"}[what]
        body = None if what == "remove" else json.dumps(value).encode()
        urllib.request.urlopen(urllib.request.Request(self.address(path), body, method=method), timeout=DEADLINE).close()

    def address(self, path):
        return f"{self.hub.url}{path.rstrip('/')}.json?auth=owner" if path != "/" else f"{self.hub.url}/.json?auth=owner"

    def found(self, path):
        with urllib.request.urlopen(self.address(path), timeout=DEADLINE) as answer:
            return json.load(answer)

    def do_until(self, path, **meant):
        self.wait(lambda: is_like(self.found(path), meant["is"]), f"{path} to be {meant['is']}")

    @staticmethod
    def wait(is_so, what):
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, f"waited {DEADLINE} s for {what}"
            time.sleep(0.01)

    def do_hub(self, what):
        {"start": self.hub.start, "stop": self.hub.halt, "kill": self.hub.kill}[what]()

    def do_link(self, what, after=None):
        {"cut": lambda: self.link.cut(after), "mend": lambda: self.link.mend(after), "hold": self.link.hold}[what]()

    def do_storm(self, facts):
        storm(self, **facts)


class Scenarios(unittest.TestCase):
    """Made below: a test for each client and scenario."""


def a_test(command, scenario):
    def test(self):
        run = Run(command, scenario)
        number, step = 0, None
        try:
            for number, step in enumerate(scenario["steps"]):
                run.do(written_out(step))
        except (AssertionError, queue.Empty) as error:
            run.peer.process.kill()
            reason = str(error) or f"nothing came for {DEADLINE} s"
            raise AssertionError(f"step {number}, {json.dumps(step)[:300]}: {reason}") from None
        finally:
            try:
                run.peer.end()
            finally:
                run.close()
    return test


for client, command in clients().items():
    if wanted in client:
        for scenario in FILE["scenarios"]:
            name = f"{client}: {scenario['name']}"
            setattr(Scenarios, f"test {name}", a_test(command, scenario))

if __name__ == "__main__":
    unittest.main()
