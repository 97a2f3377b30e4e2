"""What an app's SDK sends to a hub's accounts, and an event stream of the database: without any SDK."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request


class Refused(Exception):
    """An error answer; `str` is its message. The database says it in one string, accounts in an object."""

    def __init__(self, status, body):
        error = body["error"]
        super().__init__(error if isinstance(error, str) else error["message"])
        self.status = status
        self.body = body


def ask(url, body=None, method=None, headers=None):
    """JSON to JSON. Without a body a GET."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(error.code, json.load(error)) from None


class Client:
    """An app with an API key, which is no secret."""

    def __init__(self, hub):
        self.hub = hub

    def call(self, name, **body):
        return ask(f"{self.hub.url}/identitytoolkit.googleapis.com/v1/accounts:{name}?key=any", body)

    def sign_in(self, email, password):
        return self.call("signInWithPassword", email=email, password=password, returnSecureToken=True)

    def refresh(self, session):
        """New tokens of a session, as a sign-in answers them."""
        url = f"{self.hub.url}/securetoken.googleapis.com/v1/token?key=any"
        tokens = ask(url, {"grantType": "refresh_token", "refreshToken": session["refreshToken"]})
        return {"idToken": tokens["access_token"], "refreshToken": tokens["refresh_token"]}

    def data(self, path, session, value=None):
        """Reads, or with a value writes, a place of the database as a user."""
        url = f"{self.hub.url}{path}.json?" + urllib.parse.urlencode({"auth": session["idToken"]})
        return ask(url, value, "GET" if value is None else "PUT")


class EventStream:
    """`text/event-stream` of a place of the database, as a user."""

    def __init__(self, hub, path, session):
        self.connection = http.client.HTTPConnection(hub.address, timeout=60)
        query = urllib.parse.urlencode({"auth": session["idToken"]})
        self.connection.request("GET", f"{path}.json?{query}", headers={"Accept": "text/event-stream"})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise AssertionError(f"{self.answer.status} {self.answer.read()}")

    def next(self):
        """Name and data of the next event, which for those that end the stream is a plain text; None at the end."""
        name = None
        while line := self.answer.readline():
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data" and name != "keep-alive":
                return name, json.loads(value) if name in ("put", "patch") else value
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()
        self.connection.close()
