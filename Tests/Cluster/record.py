"""The record of what was asked and answered, and whether the hubs agree with it."""

import threading
import time
from collections import Counter

from machines import ENDED_AT_LAST


class World:
    def __init__(self, machines, seed):
        self.machines, self.seed = machines, seed
        self.lock = threading.Lock()
        self.isQuiet = False
        self.outcomes = {}          # note: None while it is asked, then "ok", "unknown" or "refused"
        self.tills = {}             # value of the till: the buyer who was told that it is theirs
        self.seen = set()           # states shown to watchers: till and counts at one moment
        self.left, self.ended, self.guests = {}, {}, 0
        self.acknowledged = self.unknown = self.refused = 0
        self.reasons = Counter()    # why writes were refused
        self.acknowledgedAt = time.monotonic()
        self.longest = 0.0
        self.faults = []

    def check(self, isSo, text):
        if not isSo:
            self.faults.append(text)

    # MARK: Reports of the people

    def asked(self, note):
        with self.lock:
            self.outcomes[note] = None

    def answered(self, note, status, text):
        with self.lock:
            if status == "ok":
                self.outcomes[note] = "ok"
                self.acknowledged += 1
                now = time.monotonic()
                self.longest = max(self.longest, now - self.acknowledgedAt)
                self.acknowledgedAt = now
            elif status == "unavailable":
                self.outcomes[note] = "refused"
                self.refused += 1
                self.reasons[text] += 1
            else:
                self.faults.append(f"{note} was answered {status}: {text}")

    def bought(self, value, name, status, text):
        with self.lock:
            if status == "ok":
                self.check(value not in self.tills, f"the till was {value} for {name}, and for {self.tills.get(value)}")
                self.tills[value] = name
            elif status not in ("datastale", "unavailable"):
                self.faults.append(f"the till was answered {status}: {text}")

    # MARK: Rounds

    def begin_round(self):
        with self.lock:
            self.longest, self.acknowledgedAt = 0.0, time.monotonic()

    def wait_for_writes(self, seconds):
        """Until a write of now is acknowledged.
        Returns the longest time without one in this round."""
        since = time.monotonic()
        while self.acknowledgedAt < since:
            if time.monotonic() - since > seconds:
                raise AssertionError(f"no write was acknowledged for {seconds} s")
            time.sleep(0.02)
        return self.longest

    def wait_until(self, what, isSo, seconds):
        end = time.monotonic() + seconds
        while not isSo():
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {seconds} s")
            time.sleep(0.1)

    def hush(self):
        """Nobody asks for anything any more, and what was under way is answered, or lost with its hub. Returns what all hubs hold."""
        self.isQuiet = True
        time.sleep(0.5)
        return self.settle(60)

    def writer(self):
        """The machine whose hub says that it writes the namespace; None while none does."""
        for machine in self.machines:
            if machine.role() == "writing":
                return machine
        return None

    def settle(self, seconds):
        """Until all hubs hold the same, twice in a row."""
        end, before = time.monotonic() + seconds, None
        trees = []
        while True:
            try:
                trees = [machine.get("/.json?format=export") for machine in self.machines]
                if all(tree == trees[0] for tree in trees) and trees[0] == before:
                    return trees[0] or {}
                before = trees[0]
            except OSError as error:
                trees = [error]
            if time.monotonic() > end:
                raise AssertionError(f"the hubs do not hold the same after {seconds} s: {differences(trees)}")
            time.sleep(0.3)

    def check_all(self, people):
        """Nobody asks for anything meanwhile. Returns the seconds until all hubs held the same."""
        began = time.monotonic()
        tree = self.hush()
        took = time.monotonic() - began
        self._check_notes(tree)
        self._check_order()
        till = tree.get("tally", {}).get("till") or 0
        with self.lock:
            wrong = [value for value in self.tills if value > till]
            self.check(not wrong, f"the till is {till}, and {wrong[:3]} were acknowledged")
        self._check_guests(tree)
        for person in people:
            if person.failure:
                self.faults.append(f"{person.name}: {person.failure!r}")
        self.isQuiet = False
        with self.lock:
            self.unknown = sum(outcome is None for outcome in self.outcomes.values())
            if self.faults:
                raise AssertionError(f"{len(self.faults)} faults: " + "; ".join(self.faults[:5]))
        return took

    def _check_notes(self, tree):
        groups = tree.get("notes") or {}
        for group, notes in groups.items():
            count = tree.get("tally", {}).get(group, 0)
            self.check(count == len(notes or {}), f"group {group} has {len(notes or {})} notes and counts {count}")
        found = {note for notes in groups.values() for note in (notes or {})}
        with self.lock:
            lost = [note for note, outcome in self.outcomes.items() if outcome == "ok" and note not in found]
            made = [note for note, outcome in self.outcomes.items() if outcome == "refused" and note in found]
            strange = [note for note in found if note not in self.outcomes]
        self.check(not lost, f"{len(lost)} acknowledged writes are lost, as {lost[:3]}")
        self.check(not made, f"{len(made)} refused writes were made, as {made[:3]}")
        self.check(not strange, f"{len(strange)} writes that nobody asked for, as {strange[:3]}")

    def _check_order(self):
        """Of two states that were seen anywhere, one comes before the other: nothing in it is newer than in the other."""
        states = sorted(self.seen.copy())
        wrong = [(a, b) for a, b in zip(states, states[1:]) if any(x > y for x, y in zip(a, b))]
        self.check(not wrong, f"{len(wrong)} pairs of states were seen that are not in one order, as {wrong[:2]}")

    def _check_guests(self, tree):
        gone = tree.get("gone") or {}
        twice = [guest for guest, times in gone.items() if times != 1]
        self.check(not twice, f"{len(twice)} disconnects were made more than once, as {twice[:3]}")
        late = time.time() - ENDED_AT_LAST
        missing = [guest for guest, end in self.ended.items() if self.left.get(guest) and end < late and guest not in gone]
        self.check(not missing, f"{len(missing)} disconnects were never made, as {missing[:3]}")


def differences(trees):
    if any(isinstance(tree, Exception) or tree is None for tree in trees):
        return [repr(tree)[:200] for tree in trees]
    names = {name for tree in trees for name in tree}
    return {name: [str(tree.get(name))[:80] for tree in trees] for name in names if len({str(tree.get(name)) for tree in trees}) > 1}
