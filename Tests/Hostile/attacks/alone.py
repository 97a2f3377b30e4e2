"""Attacks that start and stop their hubs themselves: ends, clocks, disks that lie. `runner` is the one of `run`."""

import json
import random
import threading
import time

import wire
from attack import attack

ACCOUNTS = "/identitytoolkit.googleapis.com/v1/accounts"


def account(port, call, body, timeout=10):
    status, answer = wire.http(port, "POST", f"{ACCOUNTS}:{call}?key=any", json.dumps(body).encode(), {"Content-Type": "application/json"}, timeout)
    return status, json.loads(answer or b"{}")


def refresh(port, token, timeout=10):
    body = f"grant_type=refresh_token&refresh_token={token}".encode()
    status, answer = wire.http(
        port, "POST", "/securetoken.googleapis.com/v1/token?key=any", body, {"Content-Type": "application/x-www-form-urlencoded"}, timeout)
    return status, json.loads(answer or b"{}")


def reason(answer):
    error = answer.get("error", answer)
    return error.get("message", "ok") if isinstance(error, dict) else str(error)


ADA = {"email": "ada@example.org", "password": "correct horse", "returnSecureToken": True}


@attack("sign-ins-at-stop", "SIGTERM under 50 sign-ins, look-ups and refreshes at a time, 40 times; the exit code must be 0", alone=True)
def sign_ins_at_stop(runner):
    rounds = 5 if runner.quick else runner.options.stops
    codes, answered, tokens = [], 0, None
    folder = runner.folder()
    for number in range(rounds):
        hub = runner.hub(folder, {"rules": {}}, options=["--dev"], keep=number > 0)
        if not hub.port:
            return {"fault": f"the hub did not start: {hub.said}{hub.log.read_text()[-300:]}"}
        if number == 0:
            account(hub.port, "signUp", ADA)
            _, tokens = account(hub.port, "signInWithPassword", ADA)
        done = threading.Event()
        counts = [0] * 50

        def storm(me, port=hub.port, done=done, counts=counts):
            while not done.is_set():
                try:
                    if me % 10 == 0:
                        account(port, "signInWithPassword", ADA, 3)
                    elif me % 3 == 0:
                        refresh(port, tokens["refreshToken"], 3)
                    else:
                        account(port, "lookup", {"idToken": tokens["idToken"]}, 3)
                    counts[me] += 1
                except (wire.Closed, OSError, ValueError, IndexError):
                    time.sleep(0.005)

        threads = [threading.Thread(target=storm, args=(me,), daemon=True) for me in range(50)]
        for thread in threads:
            thread.start()
        time.sleep(0.15 + random.random() * 0.2)
        codes.append(hub.stop())
        done.set()
        for thread in threads:
            thread.join(5)
        answered += sum(counts)
    bad = [code for code in codes if code != 0]
    return {"rounds": rounds, "answered": answered, "exit_codes": {str(code): codes.count(code) for code in set(codes)},
            "fault": f"{len(bad)} of {rounds} stops ended with {sorted(set(bad))}" if bad else None}


@attack("clock-steps", "the clock is a day ahead during a sign-in, then 200 days behind during a refresh, and right again (shim)", alone=True)
def clock_steps(runner):
    folder = runner.folder()
    shim = runner.shim(folder)
    hub = runner.hub(folder, {"rules": {}}, environment=shim.environment)
    if not hub.port:
        return {"fault": f"the hub did not start: {hub.said}{hub.log.read_text()[-300:]}"}
    faults, seen = [], {}

    def note(name, status, answer):
        seen[name] = "ok" if status == 200 else f"{status} {reason(answer)}"
        if status != 200:
            faults.append(f"{name}: {seen[name]}")

    try:
        note("sign up", *account(hub.port, "signUp", ADA))
        status, tokens = account(hub.port, "signInWithPassword", ADA)
        note("sign in", status, tokens)
        shim.page.clock_seconds = 86_400
        note("sign in, ahead", *account(hub.port, "signInWithPassword", ADA))
        # One wrong password, as every user types now and then.
        account(hub.port, "signInWithPassword", {**ADA, "password": "wrong horse"})
        shim.page.clock_seconds = 0
        time.sleep(3)
        note("sign in, corrected", *account(hub.port, "signInWithPassword", ADA))
        # The clock of a machine without a battery starts in the past.
        shim.page.clock_seconds = -200 * 86_400
        status, renewed = refresh(hub.port, tokens.get("refreshToken", ""))
        seen["refresh, behind"] = "ok" if status == 200 else f"{status} {reason(renewed)}"
        shim.page.clock_seconds = 0
        note("refresh, corrected", *refresh(hub.port, renewed.get("refresh_token") or tokens.get("refreshToken", "")))
        hub.stop()
        hub = runner.hub(folder, {"rules": {}}, environment=shim.environment, keep=True)
        note("sign in, after a restart", *account(hub.port, "signInWithPassword", ADA))
        note("refresh, after a restart", *refresh(hub.port, tokens.get("refreshToken", "")))
    finally:
        hub.stop()
    return {**seen, "fault": "; ".join(faults) or None}


@attack("refused-by-disk", "fdatasync fails (shim), the write is refused, SIGKILL: is it there after the restart?", alone=True)
def refused_by_disk(runner):
    folder = runner.folder()
    shim = runner.shim(folder)
    hub = runner.hub(folder, {"rules": {}}, environment=shim.environment)
    peer = wire.Realtime(hub.port, hub.secret)
    first = peer.put("a", "1")[0]
    shim.page.sync_fails = 1
    status, answer = peer.put("b", "2")
    hub.kill()
    shim.page.sync_fails = 0
    hub = runner.hub(folder, {"rules": {}}, environment=shim.environment, keep=True)
    try:
        if not hub.port:
            return {"fault": f"the hub did not start again: {hub.said}{hub.log.read_text()[-300:]}"}
        found = wire.http(hub.port, "GET", "/b.json", fields={"Authorization": f"Bearer {hub.secret}"})[1].decode().strip()
    finally:
        hub.stop()
    text = answer.decode()
    fault = None
    if found != "null" and "unknown" not in text and "may " not in text:
        fault = "the refused write is there, and the answer did not say that it may be"
    if status == "ok":
        fault = "a write was acknowledged that was not forced to the disk"
    return {"first": first, "refused": status, "answer": text[-200:], "found": found, "fault": fault}


@attack("flipped-bit", "one bit is flipped in the write-ahead log after SIGKILL: acknowledged writes must not vanish in silence", alone=True)
def flipped_bit(runner):
    folder = runner.folder()
    hub = runner.hub(folder, {"rules": {}})
    peer = wire.Realtime(hub.port, hub.secret)
    written = sum(peer.put(f"w/n{number:02}", str(number))[0] == "ok" for number in range(50))
    hub.kill()
    log = hub.data / "vigla.sqlite-wal"
    content = bytearray(log.read_bytes())
    content[len(content) * 2 // 5] ^= 4
    log.write_bytes(content)
    hub = runner.hub(folder, {"rules": {}}, keep=True)
    try:
        if not hub.port:
            hub.process.wait(timeout=10)
            return {"acknowledged": written, "start": "refused", "exit_code": hub.process.returncode, "said": hub.log.read_text().strip()[-300:],
                    "fault": None if hub.process.returncode > 0 else "the start ended with a signal"}
        body = wire.http(hub.port, "GET", "/w.json", fields={"Authorization": f"Bearer {hub.secret}"})[1]
    finally:
        hub.stop()
    left = len(json.loads(body) or {})
    return {"acknowledged": written, "start": "went on", "left": left, "log_bytes": len(content),
            "fault": f"{left} of {written} acknowledged writes are left, in silence" if left < written else None}
