"""Does what docs/notifications.md says, step by step: a notification to ntfy, and one to a browser by Web Push.

The ntfy server and the push service are programs of the test: the page's address of ntfy.sh is replaced. The page and its service worker run in
node, which stands in for the browser. What the browser would decrypt, http_ece does.
"""

import base64
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Tests/Packaging")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402
from readme import blocks  # noqa: E402

ADDRESS = "http://127.0.0.1:9000"
PROGRAM = Path(os.environ.get("VIGLA_BIN", ROOT / ".build/debug/vigla")).resolve()
BLOCKS = blocks((ROOT / "docs/notifications.md").read_text())


def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Service:
    """Records POSTs, and accepts them."""

    def __init__(self):
        self.requests = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                self.requests.put((handler.path, dict(handler.headers), body))
                handler.send_response(201)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def next(self):
        return self.requests.get(timeout=120)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Notifications(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vigla-push-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for block in BLOCKS:
            if (block.test or "").startswith("push file "):
                (self.folder / block.test.removeprefix("push file ")).write_text(block.text)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/vigla").symlink_to(PROGRAM)
        self.ntfy, self.push = Service(), Service()
        self.addCleanup(self.ntfy.stop)
        self.addCleanup(self.push.stop)
        config = json.loads((self.folder / "hub.json").read_text())
        # Services of this machine, in place of public ones.
        server = config["outbound"]["ntfy"]["default"]
        self.assertEqual(server["url"], "https://ntfy.sh")
        server.update(url=self.ntfy.url, private=True)
        config["outbound"]["private-hosts"] = ["127.0.0.1"]
        (self.folder / "hub.json").write_text(json.dumps(config))
        self.hub = Hub("--dev", "--data", str(self.folder / "data"), "--config", str(self.folder / "hub.json"),
                       "--rules", str(self.folder / "rules.json"), "--web", str(ROOT / "web"))
        self.addCleanup(self.hub.stop)
        # The keys of the browser's subscription.
        self.key, self.secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)

    def type(self, kind):
        script = "set -euo pipefail\nexport VIGLA_AUTH=owner\n" + "".join(block.text for block in BLOCKS if block.test == kind)
        done = subprocess.run(["bash", "-c", script.replace(ADDRESS, self.hub.url)], cwd=self.folder,
                              env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder)}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def node(self, script, **values):
        """Runs a module beside a file of values, and returns what it prints as JSON."""
        (self.folder / "values.json").write_text(json.dumps(values))
        (self.folder / "browser.mjs").write_text(script)
        done = subprocess.run(["node", "browser.mjs"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_phone(self):
        self.type("push")
        for title, message in (("Test", "This is a test of the hub."), ("Lunch", "at one")):
            path, headers, body = self.ntfy.next()
            sent = json.loads(body)
            self.assertEqual((path, sent["topic"], sent["title"], sent["message"]), ("/", "vigla-demo-x8Kq2bTz", title, message))
        self.assertEqual(sent["click"], "http://127.0.0.1:8000/page.html?show=n1")

    def test_browser(self):
        subscription = {"endpoint": f"{self.push.url}/p/ana", "expirationTime": None, "keys": {
            "p256dh": text(self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)), "auth": text(self.secret)}}
        page = re.search(r"<script type=\"module\">\n(.*?)</script>", (self.folder / "page.html").read_text(), re.S)[1]
        page = page.replace(f"{ADDRESS}/.console/vigla.js", f"{ROOT}/web/vigla.js").replace(ADDRESS, self.hub.url)
        (self.folder / "page.mjs").write_text(page)
        asked = self.node(f"""
            import {{ readFileSync }} from "node:fs";
            import {{ NodeSocket }} from "{ROOT}/web/vigla-node.js";
            globalThis.WebSocket ??= NodeSocket;
            const {{ subscription }} = JSON.parse(readFileSync("values.json"));
            const asked = {{}};
            globalThis.button = {{}};
            globalThis.note = {{}};
            globalThis.Notification = {{ requestPermission: async () => "granted" }};
            const pushManager = {{ subscribe: async (options) => {{ asked.options = options; return {{ toJSON: () => subscription }}; }} }};
            const serviceWorker = {{ register: async (file) => {{ asked.file = file; return {{ pushManager }}; }} }};
            Object.defineProperty(globalThis, "navigator", {{ value: {{ serviceWorker }}, configurable: true }});
            await import("./page.mjs");
            await button.onclick();
            console.log(JSON.stringify({{ ...asked, note: note.textContent }}));
            process.exit(0);
            """, subscription=subscription)
        self.assertEqual(asked["file"], "worker.js")
        self.assertEqual(asked["note"], "This browser gets Ana's notifications.")
        self.assertTrue(asked["options"]["userVisibleOnly"])
        self.type("push browser")
        path, headers, body = self.push.next()
        self.assertEqual(path, "/p/ana")
        self.assertTrue(Vapid02.verify(headers["Authorization"]))
        self.assertEqual(headers["Authorization"].split("k=")[1], asked["options"]["applicationServerKey"])
        message = http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret, version="aes128gcm").decode()
        shown = self.node("""
            import { readFileSync } from "node:fs";
            const { message } = JSON.parse(readFileSync("values.json"));
            const listeners = {}, shown = {}, work = [];
            globalThis.self = {
              addEventListener: (name, listener) => { listeners[name] = listener; },
              registration: { showNotification: async (title, options) => { Object.assign(shown, { title, ...options }); } },
              clients: { openWindow: async (url) => { shown.opened = url; } },
            };
            (0, eval)(readFileSync("worker.js", "utf8"));
            const waitUntil = (promise) => work.push(promise);
            listeners.push({ waitUntil, data: { json: () => JSON.parse(message) } });
            listeners.notificationclick({ waitUntil, notification: { data: shown.data, close: () => { shown.closed = true; } } });
            await Promise.all(work);
            console.log(JSON.stringify(shown));
            """, message=message)
        self.assertEqual((shown["title"], shown["body"], shown["closed"]), ("Dinner", "at eight", True))
        self.assertEqual(shown["opened"], "http://127.0.0.1:8000/page.html?show=n2")

    def test_signature_isCheckedByTheReceiversCode(self):
        """Tests/Push/receiver.py runs the code in the comment of WebhookRequest.swift."""
        source = (ROOT / "Sources/Outbound/Channels/WebhookRequest.swift").read_text()
        code = re.sub("(?m)^/// ?", "", re.search(r"/// ```python\n(.*?)/// ```", source, re.S)[1])
        self.assertEqual([block.text for block in BLOCKS if block.test == "push webhook"], [code])


if __name__ == "__main__":
    unittest.main()
