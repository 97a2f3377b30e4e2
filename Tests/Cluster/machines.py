"""Three machines on this one: a NATS server and a hub in a network namespace of each, joined by a switch that can be cut.

    switch   10.77.N.1 ── link N ── 10.77.N.2   machine N: nats-server, vigla

Needs root and `unshare --net --mount`, which `run` does for itself: nothing of it is seen from outside.
"""

import json
import os
import select
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

PLACES = ("/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/usr/bin/nats-server")
NATS = next((path for path in PLACES if os.access(path, os.X_OK)), None)
PRESENCE = 5   # s of silence after which a hub ends a session; what those of a lost hub have left is written 10 s later


def sh(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


class Machine:
    def __init__(self, number, count, program, folder):
        self.number, self.program, self.folder = number, program, Path(folder) / f"m{number}"
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
            log_file: "{self.folder / 'nats.log'}"
            jetstream {{ store_dir: "{self.folder / 'nats'}", max_memory_store: 67108864, max_file_store: 4294967296 }}
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
        self.nats = self._run(NATS, "-c", str(self.folder / "nats.conf"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

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

    def halt_hub(self):
        self.hub.terminate()
        self.hub.wait(timeout=60)

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

    # MARK: What it says

    def get(self, path, timeout=10):
        request = urllib.request.Request(f"http://{self.address}:9000{path}", headers={"Authorization": "Bearer owner"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read() or b"null")

    def role(self):
        """What its hub is for the namespace; None where it does not say."""
        try:
            health = self.get("/.health", timeout=1)
        except urllib.error.HTTPError as error:
            health = json.loads(error.read() or b"{}")
        except OSError:
            return None
        return health.get("cluster", {}).get("namespaces", {}).get("default")

    def end(self):
        for process in (self.hub, self.nats):
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        self.log.close()


class Machines(list):
    def __init__(self, program, folder, rules, count=3):
        sh("mount", "-t", "tmpfs", "none", "/run")      # ip keeps the names of namespaces there
        sh("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.rules = Path(folder) / "rules.json"
        self.rules.write_text(json.dumps(rules))
        super().__init__(Machine(n, count, program, folder) for n in range(1, count + 1))
        for machine in self:
            machine.start_nats()
        for machine in self:
            machine.start_hub(str(self.rules))

    def start_hub(self, machine):
        machine.start_hub(str(self.rules))

    def end(self):
        for machine in self:
            machine.end()
