"""What the drills have in common: commands, requests, and a folder with something of everything in it."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from hub import Hub

PASSWORD = "correct horse battery"
RULES = {"rules": {
    "users": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid"}},
    "news": {".read": True},
}}
CONTENT = {
    "news": {"n1": {"text": "all is well", "at": 1718000000000}, "n2": {"text": "καλημέρα", "at": 1718000000001.5}},
    "off": {"a": False},
}


def command(*words, program=None, may_fail=False, **environment):
    """What a command of the program says; a failure is a failure of the drill unless it may."""
    done = subprocess.run([program or os.environ["VIGLA_BIN"], *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}, timeout=120)
    if done.returncode and not may_fail:
        raise AssertionError(f"vigla {' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}")
    return (done.returncode, done.stdout) if may_fail else done.stdout


def request(url, method="GET", body=None, secret=None, form=False):
    """(status, value) of an answer."""
    fields = {"Authorization": f"Bearer {secret}"} if secret else {}
    if body is not None:
        fields["Content-Type"] = "application/x-www-form-urlencoded" if form else "application/json"
    data = None if body is None else body.encode() if form else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data, fields, method=method), timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def sign_in(hub, email="ana@example.org"):
    return request(f"{hub.url}/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=any", "POST",
                   {"email": email, "password": PASSWORD, "returnSecureToken": True})


def refresh(hub, token):
    return request(f"{hub.url}/securetoken.googleapis.com/v1/token?key=any", "POST",
                   f"grant_type=refresh_token&refresh_token={token}", form=True)


class Drill(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="vigla-drill-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def serving(self, data, *options, **how):
        """A hub of a data folder; stopped at the end of the drill, if it was not before."""
        hub = Hub("--data", str(data), *options, **how)
        self.addCleanup(lambda: hub.log.closed or hub.stop())
        return hub

    def secret(self, data):
        return (Path(data) / "admin-secret.txt").read_text().strip()

    def becomes(self, what, condition, seconds=60):
        until = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), until, f"it does not become so: {what}")
            time.sleep(0.1)

    def fill(self, hub, data):
        """Data, rules, an account and its session."""
        secret = self.secret(data)
        self.assertEqual(request(f"{hub.url}/.json", "PUT", CONTENT, secret)[0], 200)
        rules, words = self.folder / "deployed.json", self.folder / "password.txt"
        rules.write_text(json.dumps(RULES))
        words.write_text(PASSWORD + "\n")
        command("rules", "deploy", hub.url, rules, VIGLA_AUTH=secret)
        command("user", "add", hub.url, "--email", "ana@example.org", "--password-file", words, VIGLA_AUTH=secret)
        status, session = sign_in(hub)
        self.assertEqual(status, 200, session)
        own = f"{hub.url}/users/{session['localId']}.json"
        self.assertEqual(request(own, "PUT", {"name": "Ana"}, session["idToken"]), (200, {"name": "Ana"}))
        return session

    def look(self, hub, data, session=None):
        """That everything of `fill` is there, and in force."""
        secret = self.secret(data)
        status, everything = request(f"{hub.url}/.json", secret=secret)
        self.assertEqual(status, 200, everything)
        users = everything.pop("users")
        self.assertEqual(everything, CONTENT)
        status, again = sign_in(hub)
        self.assertEqual(status, 200, again)
        self.assertEqual(users, {again["localId"]: {"name": "Ana"}})
        own = f"{hub.url}/users/{again['localId']}.json"
        self.assertEqual(request(own, secret=again["idToken"]), (200, {"name": "Ana"}))
        self.assertEqual(request(own)[0], 401)
        self.assertEqual(request(f"{hub.url}/news/n1/text.json"), (200, "all is well"))
        self.assertEqual(request(f"{hub.url}/news.json", "PUT", 1)[0], 401)
        if session:
            status, renewed = refresh(hub, session["refreshToken"])
            self.assertEqual(status, 200, renewed)
        self.assertTrue(re.search("ana@example.org", command("user", "list", hub.url, VIGLA_AUTH=secret)))
