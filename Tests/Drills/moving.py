"""Moving in: the lines of docs/moving-in.md, with a hub in the vendor's place and exports of the vendor's shape."""

import json
import os
import subprocess
import sys
from pathlib import Path

from drill import Drill, request

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "Tests/Packaging"))

from readme import blocks  # noqa: E402

PAGE = "docs/moving-in.md"
# As exported by the vendor's console: lists where keys are numbers, with gaps, priorities, push ids.
DATA = {
    "posts": {"-NxA1b2C3d4E5f6G7h8i": {"author": "u1", "text": "γειά σου, \"world\"", "at": 1718000000000},
              "-NxA1b2C3d4E5f6G7h8j": {"author": "u2", "text": "", "at": 1718000000001}},
    "scores": {"ana": {".value": 3, ".priority": 1}, "bo": {".value": 9, ".priority": "a"}},
    "seats": [None, "ana", None, {"name": "bo"}],
    "settings": {"ratio": 0.1, "large": 9007199254740993, "off": False},
}
READ = {**DATA, "scores": {"ana": 3, "bo": 9}}
# The vendor's example (github.com/firebase/scrypt): the password is user1password.
KEY = "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA=="
ACCOUNTS = {"users": [
    {"localId": "u1", "email": "user1@example.org", "emailVerified": True, "displayName": "One", "lastSignedInAt": "1486324412000",
     "createdAt": "1486324412000", "salt": "42xEC+ixf3L2lw==", "providerUserInfo": [],
     "passwordHash": "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="},
    {"localId": "u2", "email": "user2@example.org", "emailVerified": False, "createdAt": "1486324413000", "disabled": False,
     "customAttributes": "{\"editor\":true}",
     "providerUserInfo": [{"providerId": "google.com", "rawId": "110000000000000000000", "email": "user2@example.org"}]},
]}
RULES = """{
  // What the vendor's console shows, comments and all.
  "rules": { "posts": { ".read": true, ".indexOn": ["at"], "$post": { ".write": "auth != null" } }, "settings": { ".read": true } }
}
"""


class MovingIn(Drill):
    """Data, rules, accounts; then both run, and what old apps write comes over."""

    def test(self):
        lines = [block.text for block in blocks((ROOT / PAGE).read_text()) if block.test == "drills"]
        self.assertEqual(len(lines), 4, f"the blocks of {PAGE}")
        vendor_data, data = self.folder / "vendor", self.folder / "data"
        vendor = self.serving(vendor_data)
        vendor_secret = self.secret(vendor_data)

        def at_vendor(path, value):
            method = "DELETE" if value is None else "PUT"
            self.assertEqual(request(f"{vendor.url}/{path}.json", method, value, vendor_secret)[0], 200)

        at_vendor("", DATA)
        for name, text in {"export.json": json.dumps(DATA, indent=2, ensure_ascii=False), "accounts.json": json.dumps(ACCOUNTS),
                           "key.txt": KEY, "rules.json": RULES, "firebase-secret.txt": vendor_secret}.items():
            (self.folder / name).write_text(text)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/vigla").symlink_to(os.environ["VIGLA_BIN"])
        (self.folder / "Examples").symlink_to(ROOT / "Examples")
        self.environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "VIGLA_AUTH_FILE": f"{data}/admin-secret.txt"}
        *before, with_hub, followed = lines
        for text in before:
            self.type(text)

        hub = self.serving(data, "--namespace", "my-app")
        places = {"http://127.0.0.1:9000": hub.url, "https://my-app.firebaseio.com": vendor.url}
        self.type(with_hub, places)
        secret = self.secret(data)
        self.assertEqual(request(f"{hub.url}/.json", secret=secret), (200, READ))
        self.assertEqual(request(f"{hub.url}/scores/bo/.priority.json", secret=secret), (200, "a"))
        # As the apps' users see it: the rules, and the old password, twice: the second time with the hub's own hash.
        self.assertEqual(request(f"{hub.url}/posts.json"), (200, DATA["posts"]))
        self.assertEqual(request(f"{hub.url}/seats.json")[0], 401)
        sign_in = f"{hub.url}/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=any"
        who = {"email": "user1@example.org", "returnSecureToken": True}
        self.assertEqual(request(sign_in, "POST", {**who, "password": "user2password"})[0], 400)
        for _ in range(2):
            status, session = request(sign_in, "POST", {**who, "password": "user1password"})
            self.assertEqual((status, session.get("localId")), (200, "u1"), session)

        # Both run. Values that new apps write stay, whatever happens to the old database, the hub and this program.
        def becomes_there(path, value):
            self.becomes(f"{path} is {value}", lambda: request(f"{hub.url}/{path}.json", secret=secret)[1] == value)

        follower = self.start(followed, places)
        at_vendor("posts/p3", {"author": "u1", "text": "from an old app"})
        becomes_there("posts/p3/text", "from an old app")
        self.assertEqual(request(f"{hub.url}/posts/p4.json", "PUT", {"author": "u2", "text": "from a new app"}, secret)[0], 200)
        self.assertEqual(request(f"{hub.url}/posts/-NxA1b2C3d4E5f6G7h8i/text.json", "PUT", "edited by a new app", secret)[0], 200)
        vendor.halt()
        vendor.start()
        at_vendor("seats/2", "eve")
        becomes_there("seats/2", "eve")
        hub.halt()
        at_vendor("posts/p3", None)
        hub.start()
        becomes_there("posts/p3", None)
        self.end(follower)
        at_vendor("settings/off", True)
        follower = self.start(followed, places)
        becomes_there("settings/off", True)
        self.end(follower)
        want = json.loads(json.dumps(READ))
        want["posts"]["p4"] = {"author": "u2", "text": "from a new app"}
        want["posts"]["-NxA1b2C3d4E5f6G7h8i"]["text"] = "edited by a new app"
        want["seats"][2], want["settings"]["off"] = "eve", True
        self.assertEqual(request(f"{hub.url}/.json", secret=secret), (200, want))

    def words(self, text, places):
        """A block, with the addresses of this drill's hubs."""
        for there, here in places.items():
            text = text.replace(there, here)
        return text

    def type(self, text, places={}):
        done = subprocess.run(["bash", "-euxo", "pipefail", "-c", self.words(text, places)], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)

    def start(self, text, places):
        with (self.folder / "follow.log").open("a") as log:
            started = subprocess.Popen(["bash", "-c", f"exec {self.words(text, places).strip()}"], cwd=self.folder, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end, started)
        return started

    def end(self, started):
        if started.poll() is None:
            started.terminate()
        self.assertEqual(started.wait(timeout=60), 0, (self.folder / "follow.log").read_text())


DRILLS = [MovingIn]
