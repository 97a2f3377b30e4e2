"""Receivers that know nothing of the hub's code: a push service and a webhook over HTTP, and a mail server.

    receiver.py SECRET      SECRET is the webhook's

It prints the ports, and the keys of a new push subscription, as one line of JSON; then one line for each message that it receives. It ends
with its input. Web Push is decrypted by http_ece and checked by py_vapid, the signature by the code
in the comment of WebhookRequest.swift, and mail is received by aiosmtpd.
"""

import base64
import email
import email.policy
import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import http_ece
from aiosmtpd.controller import Controller
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

SECRET = sys.argv[1]
KEY = ec.generate_private_key(ec.SECP256R1())
AUTH = os.urandom(16)
SOURCE = Path(__file__).resolve().parent.parent.parent / "Sources/Outbound/Channels/WebhookRequest.swift"
lock = threading.Lock()
# is_genuine(secret, headers, body)
exec(re.sub("(?m)^/// ?", "", re.search(r"/// ```python\n(.*?)/// ```", SOURCE.read_text(), re.S)[1]))


def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def report(**values):
    with lock:
        print(json.dumps(values), flush=True)


def push(path, headers, body):
    """Decrypts a message, and checks its sender's token."""
    authorization = headers["Authorization"]
    assert authorization.startswith("vapid t=")
    claims = authorization.split("t=")[1].split(",")[0].split(".")[1]
    report(kind="push", path=path, ttl=headers["TTL"], urgency=headers["Urgency"], topic=headers["Topic"], type=headers["Content-Type"],
           isSigned=bool(Vapid02.verify(authorization)), key=authorization.split("k=")[1],
           claims=json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))),
           message=http_ece.decrypt(body, private_key=KEY, auth_secret=AUTH, version="aes128gcm").decode())


def webhook(path, headers, body):
    """Checks a signature with the code in the comment of WebhookRequest.swift."""
    report(kind="webhook", path=path, isSigned=is_genuine(SECRET, headers, body), delivery=headers["Vigla-Delivery"], message=body.decode(),
           isForgeryRefused=not is_genuine(SECRET, headers, body + b" ") and not is_genuine(SECRET + "x", headers, body))


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            (push if self.path.startswith("/push") else webhook)(self.path, self.headers, body)
            self.send_response(201)
        except Exception as fault:
            report(kind="fault", fault=repr(fault))
            self.send_response(400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Mail:
    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        report(kind="mail", to=envelope.rcpt_tos, id=mail["Message-ID"], subject=mail["Subject"], language=mail["Content-Language"],
               message=mail.get_body(("plain",)).get_content())
        return "250 OK"


class FreePort(Controller):
    """The controller connects to its port at the start, which it does not know if it is 0."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


if __name__ == "__main__":
    http = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    mail = FreePort(Mail(), hostname="127.0.0.1", port=0)
    mail.start()
    report(http=http.server_port, mail=mail.port, auth=text(AUTH),
           p256dh=text(KEY.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)))
    sys.stdin.read()
    mail.stop()
