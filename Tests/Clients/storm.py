"""A place is written at random while the link is cut and the hub is killed, and what an observer was told is held against all commits."""

import json
import random


def storm(run, observer, path, seed, cuts, kills):
    """`observer` hears `added`, `changed`, `removed` and `ready` of `path`, and has been told that nothing is there.

    Each commit leaves the place as no other does. So what is told behind a `reset` must be the place as some commit has left it, and what
    follows the very changes of the commits behind that, each once and in their order, until the next `reset`; and so to the last commit.
    """
    chance = random.Random(seed)
    history = [{}]   # the place after each commit
    kinds = ["cut"] * cuts + ["kill"] * kills
    chance.shuffle(kinds)

    def write(times):
        for _ in range(times):
            place, number = history[-1], len(history)
            keys = chance.sample([f"k{n}" for n in range(12)], chance.choice([0, 0, 1, 3, 6]))
            change = {
                key: None if key in place and chance.random() < 0.4 else f"{number} {'x' * chance.choice([0, 10, 3000])}" for key in keys}
            change["last"] = number
            run.do_other("update", path, change)
            history.append({key: value for key, value in {**place, **change}.items() if value is not None})

    for kind in kinds:
        cuts_before, starts_before = run.link.cuts, run.peer.count(observer, "ready")
        write(chance.randrange(3, 12))
        if kind == "cut":
            # Between two messages or within one.
            run.link.cut(chance.choice([None, 1, chance.randrange(1, 200), chance.randrange(1, 8000)]))
            write(chance.randrange(1, 12))
            run.link.mend()
        else:
            run.hub.kill()
            run.hub.start()
        write(chance.randrange(0, 6))
        if kind == "kill" or run.link.cuts > cuts_before:
            run.wait(lambda: run.peer.count(observer, "ready") > starts_before, "the observer to be taken up again")
    write(1)
    resets = judge(run, observer, history)
    assert resets == kills, f"{resets} fresh starts, where the hub was killed {kills} times"


def judge(run, observer, history):
    """Reads what the observer is told until the last commit; returns how often it began anew."""
    at, fresh, resets = 0, None, 0   # at: the last commit received; fresh: the children received after a reset
    while at < len(history) - 1 or fresh is not None:
        event = run.peer.event(observer)
        kind, key, value = event["event"], event.get("key"), event.get("value")
        if kind == "reset":
            fresh, resets = {}, resets + 1
        elif fresh is not None and kind == "ready":
            assert fresh in history[at:], f"no commit behind {at} has left this: {json.dumps(fresh)[:300]}"
            at, fresh = history.index(fresh, at), None
        elif fresh is not None:
            assert kind == "added" and key not in fresh, f"behind a reset: {json.dumps(event)[:300]}"
            fresh[key] = value
        elif kind != "ready":
            at += 1
            have, goal = dict(history[at - 1]), history[at]
            while True:
                kind, key, value = event["event"], event.get("key"), event.get("value")
                want = "removed" if key not in goal else "added" if key not in have else "changed"
                is_meant = have.get(key) != goal.get(key) and kind == want and value == (have if kind == "removed" else goal).get(key)
                assert is_meant, f"no event of commit {at}, or twice: {json.dumps(event)[:300]}"
                have.pop(key, None)
                have.update({key: goal[key]} if key in goal else {})
                if have == goal:
                    break
                event = run.peer.event(observer)
    return resets
