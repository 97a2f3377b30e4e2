"""Clients of the hubs in containers: one that writes and remembers what was acknowledged, and visitors with addresses of their own."""

import http.client
import json
import ssl
import subprocess
import threading
import time

PORT = 9000                                # of a hub, and where the compose files publish it


class Hub:
    """A hub at its published port, or at its container's address, asked as its administrator."""

    def __init__(self, secret, host="127.0.0.1"):
        self.secret, self.host = secret, host

    def ask(self, method, path, body=None, connection=None):
        """(status, text). A connection that is given stays open."""
        own = connection or http.client.HTTPConnection(self.host, PORT, timeout=20)
        try:
            own.request(method, path, body, {"Authorization": f"Bearer {self.secret}"})
            answer = own.getresponse()
            return answer.status, answer.read().decode()
        finally:
            if connection is None:
                own.close()

    def get(self, path):
        status, text = self.ask("GET", f"/{path}.json")
        if status != 200:
            raise OSError(f"GET /{path}.json answers {status}: {text}")
        return json.loads(text)

    def put(self, path, value):
        status, text = self.ask("PUT", f"/{path}.json", json.dumps(value))
        if status != 200:
            raise OSError(f"PUT /{path}.json answers {status}: {text}")


    def link_for(self, email):
        """The link that a mail to a new account would have, with which its user confirms the address."""
        accounts = "/identitytoolkit.googleapis.com/v1/projects/-/accounts"
        for path, body in ((accounts, {"email": email, "password": "correct horse battery"}),
                           (f"{accounts}:sendOobCode", {"requestType": "VERIFY_EMAIL", "email": email, "returnOobLink": True})):
            status, text = self.ask("POST", path, json.dumps(body))
            if status != 200:
                raise OSError(f"POST {path} answers {status}: {text}")
        return json.loads(text)["oobLink"]

    def put_until_taken(self, path, value):
        """For a minute, as an app does: while hubs and servers take over from each other, writes are refused."""
        until = time.monotonic() + 60
        while True:
            try:
                return self.put(path, value)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > until:
                    raise

    def comes_to_have(self, path, value):
        """Whether it answers so within a minute: a hub of a cluster shows what another one has acknowledged a moment later."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if self.get(path) == value:
                    return True
            except (OSError, http.client.HTTPException):
                pass
        return False


class Writers:
    """Clients that write, one write after the other, until the hub is gone. `acknowledged`: place → value."""

    def __init__(self, hub, root, count=8):
        self.hub, self.root = hub, root
        self.acknowledged = {}
        self.enough = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self.write, args=(number,), daemon=True) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def write(self, number):
        connection = http.client.HTTPConnection(self.hub.host, PORT, timeout=20)
        step = 0
        while True:
            place = f"w{number}-{step}"
            try:
                status, _ = self.hub.ask("PUT", f"/{self.root}/{place}.json", str(step), connection)
            except (OSError, http.client.HTTPException):
                return
            if status == 200:
                self.acknowledged[place] = step
                self.enough.release()
            step += 1

    def wait(self, count):
        for _ in range(count):
            if not self.enough.acquire(timeout=60):
                raise OSError(f"fewer than {count} writes were acknowledged within a minute")

    def finish(self):
        for thread in self.threads:
            thread.join()

    def lost(self):
        """What was acknowledged and is not there."""
        held = self.hub.get(self.root) or {}
        return [place for place, value in self.acknowledged.items() if held.get(place) != value]


class Visitor:
    """Somebody with an address of his own in the network of a proxy's container, as the internet's visitors have theirs.

    The address is added to this machine's end of that network, a bridge, and goes with it.
    """

    def __init__(self, engine, network, address, proxy, port, authority=None):
        bridge = f"br-{engine.inspect(network)['Id'][:12]}"
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", bridge], check=True)
        self.address, self.proxy, self.port, self.authority = address, proxy, port, authority
        self.cookie = None                 # by which a balancer keeps a visitor at one hub

    def ask(self, path, body=None):
        """(status, object). With an authority by TLS, for the name localhost."""
        source = (self.address, 0)
        if self.authority:
            connection = LocalhostTLS(self.proxy, self.port, timeout=20, source_address=source,
                                      context=ssl.create_default_context(cadata=self.authority))
        else:
            connection = http.client.HTTPConnection(self.proxy, self.port, timeout=20, source_address=source)
        headers = {"Host": "localhost"} | ({"Cookie": self.cookie} if self.cookie else {})
        connection.request("POST" if body is not None else "GET", path, body and json.dumps(body), headers)
        answer = connection.getresponse()
        if given := answer.headers["Set-Cookie"]:
            self.cookie = given.partition(";")[0]
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text)

    def signs_up(self):
        """Whether the hub lets him make an account."""
        status, answer = self.ask("/identitytoolkit.googleapis.com/v1/accounts:signUp?key=any", {"returnSecureToken": True})
        if status != 200 and "TOO_MANY_ATTEMPTS" not in json.dumps(answer):
            raise OSError(f"signing up answers {status}: {answer}")
        return status == 200


class LocalhostTLS(http.client.HTTPSConnection):
    """A connection to an address, whose certificate is for localhost."""

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self.sock = self._context.wrap_socket(self.sock, server_hostname="localhost")
