"""Three machines on this one: a NATS server and a hub in a network namespace of each, joined by a switch that can be cut.

    switch   10.77.N.1 ── link N ── 10.77.N.2   machine N: nats-server, vigla

Needs root and `unshare --net --mount`, which `run` does for itself: nothing of it is seen from outside.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path


PRESENCE = 5   # s of silence after which a hub ends a session; disconnect writes of a lost hub are written 10 s later
ENDED_AT_LAST = 4 * PRESENCE + 20     # a lost hub's sessions end after a while, and so does a hanging connection


def sh(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


class Machine:
    def __init__(self, number, count, programs, folder):
        self.number, self.folder = number, Path(folder) / f"m{number}"
        self.program, self.server = programs
        self.address = f"10.77.{number}.2"
        self.name, self.link = f"machine{number}", f"link{number}"
        self.others = [n for n in range(1, count + 1) if n != number]
        self.nats = self.hub = None
        self.folder.mkdir(parents=True)
        self.log = open(self.folder / "hub.log", "a")
        self._join()
        routes = ", ".join(f"nats-route://10.77.{n}.2:6222" for n in range(1, count + 1) if n != number)
        (self.folder / "nats.conf").write_text(f"""
            server_name: n{number}
            listen: 0.0.0.0:4222
            http: 0.0.0.0:8222
            log_file: "{self.folder / 'nats.log'}"
            jetstream {{
                store_dir: "{self.folder / 'nats'}", max_memory_store: 67108864, max_file_store: 4294967296
                sync_interval: always
            }}
            cluster {{ name: chaos, listen: {self.address}:6222, routes: [{routes}] }}
            """)
        self.servers = ",".join(f"nats://10.77.{n}.2:4222" for n in range(1, count + 1))

    def _join(self):
        sh("ip", "netns", "add", self.name)
        sh("ip", "link", "add", self.link, "type", "veth", "peer", "name", f"up{self.number}")
        sh("ip", "link", "set", f"up{self.number}", "netns", self.name)
        sh("ip", "addr", "add", f"10.77.{self.number}.1/24", "dev", self.link)
        sh("ip", "link", "set", self.link, "up")
        for words in (("addr", "add", f"{self.address}/24", "dev", f"up{self.number}"), ("link", "set", f"up{self.number}", "up"),
                      ("link", "set", "lo", "up"), ("route", "add", "default", "via", f"10.77.{self.number}.1")):
            sh("ip", "-n", self.name, *words)

    def _run(self, *words, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.name, *words], stdin=subprocess.DEVNULL, **options)

    def start_nats(self):
        self.nats = self._run(self.server, "-c", str(self.folder / "nats.conf"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_hub(self, rules):
        self.hub = self._run(
            self.program, "serve", "--dev", "--host", "0.0.0.0", "--port", "9000", "--data", str(self.folder / "data"), "--rules", rules,
            "--cluster", self.servers, "--cluster-name", "chaos", "--cluster-address", f"http://{self.address}:9000",
            "--presence-deadline", f"{PRESENCE}", stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, "VIGLA_DEV_ANY_HOST": "1"})
        said = self.hub.stdout.readline() if select.select([self.hub.stdout], [], [], 60)[0] else ""
        if "vigla ready" not in said:
            raise AssertionError(f"hub {self.number} did not become ready: {said}\n{self.last_words()}")

    def last_words(self):
        return "".join((self.folder / "hub.log").read_text(errors="replace").splitlines(True)[-15:])

    # MARK: Faults

    def kill(self, which):
        process = getattr(self, which)
        process.kill()
        process.wait()

    def halt(self, which):
        """Ends it in order."""
        process = getattr(self, which)
        process.terminate()
        process.wait(timeout=60)

    def stop(self, which):
        getattr(self, which).send_signal(signal.SIGSTOP)

    def go_on(self, which):
        getattr(self, which).send_signal(signal.SIGCONT)

    def cut(self, from_clients):
        """Off from the other machines; also from the clients, or they still reach it."""
        if from_clients:
            sh("ip", "link", "set", self.link, "down")
        else:
            for n in self.others:
                sh("ip", "-n", self.name, "route", "add", "blackhole", f"10.77.{n}.0/24")

    def join(self, from_clients):
        if from_clients:
            sh("ip", "link", "set", self.link, "up")
            return
        for n in self.others:
            sh("ip", "-n", self.name, "route", "del", "blackhole", f"10.77.{n}.0/24")

    # MARK: Requests

    def get(self, path, timeout=10):
        request = urllib.request.Request(f"http://{self.address}:9000{path}", headers={"Authorization": "Bearer owner"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read() or b"null")

    def monitor(self, path):
        """What its NATS server says of itself; None where it does not."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:8222{path}", timeout=1) as answer:
                return json.loads(answer.read())
        except OSError:
            return None

    def _streams(self):
        accounts = (self.monitor("/jsz?streams=true") or {}).get("account_details", [])
        return [stream for account in accounts for stream in account.get("stream_detail", []) if stream["name"][-1].isdigit()]

    def ends(self):
        """The last message of each log, as its server knows it."""
        return {stream["name"]: stream["state"]["last_seq"] for stream in self._streams()}

    def logs(self):
        """The logs of the shards, as its server knows them, the longest first: the name, and that of the server which leads it."""
        streams = self._streams()
        streams.sort(key=lambda stream: -stream["state"]["messages"])
        return [(stream["name"], stream.get("cluster", {}).get("leader")) for stream in streams]

    def reason(self):
        """Why its hub is not well; empty where it is, or does not answer."""
        return self.health().get("reason", "")

    def role(self):
        """What its hub is for the namespace; None where it does not say."""
        return self.health().get("cluster", {}).get("namespaces", {}).get("default")

    def health(self):
        try:
            return self.get("/.health", timeout=1)
        except urllib.error.HTTPError as error:
            return json.loads(error.read() or b"{}")
        except OSError:
            return {}

    def end(self):
        for process in (self.hub, self.nats):
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        self.log.close()


class Machines(list):
    """
    :param programs: the hub's and the NATS server's.
    """

    def __init__(self, programs, folder, rules, count=3):
        sh("mount", "-t", "tmpfs", "none", "/run")      # ip keeps the names of namespaces there
        sh("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.rules = Path(folder) / "rules.json"
        self.rules.write_text(json.dumps(rules))
        super().__init__(Machine(n, count, programs, folder) for n in range(1, count + 1))
        for machine in self:
            machine.start_nats()
        for machine in self:
            machine.start_hub(str(self.rules))

    def start_hub(self, machine):
        machine.start_hub(str(self.rules))

    def keep_logs(self):
        """A copy of all that the servers have, made while none of them goes on."""
        while True:
            ends = [machine.ends() for machine in self]
            for machine in self:
                machine.stop("nats")
            for machine in self:
                shutil.rmtree(machine.folder / "kept", ignore_errors=True)
                shutil.copytree(machine.folder / "nats", machine.folder / "kept")
            for machine in self:
                machine.go_on("nats")
            # Lets pending log writes arrive: hubs write occasionally themselves, when a hub joins or is given up.
            time.sleep(1)
            if all(ends) and [machine.ends() for machine in self] == ends:
                return

    def put_logs_back(self):
        for machine in self:
            machine.kill("nats")
        for machine in self:
            shutil.rmtree(machine.folder / "nats")
            (machine.folder / "kept").rename(machine.folder / "nats")
            machine.start_nats()

    def end(self):
        for machine in self:
            machine.end()
