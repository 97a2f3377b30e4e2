"""The metrics of a hub, those that docs/operations.md tells of and those that the dashboard shows are the same."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Tests/Hostile")]
sys.dont_write_bytecode = True

import wire            # noqa: E402
from hub import Hub    # noqa: E402

RULES = '{"rules":{"open":{".read":true,".write":true},"closed":{"$x":{".read":false}}}}'
NAME = r"vigla_\w+"
# Suffixes of a histogram's samples.
PARTS = r"_(bucket|sum|count)$"
# Absent in normal operation.
SOMETIMES = {"vigla_degraded_reason"}


def table():
    """Names in the first column of the table of metrics: (all, those that are there without a further option)."""
    page = (ROOT / "docs/operations.md").read_text()
    section = page[page.index("## Metrics"):page.index("## Logs")]
    names, always = set(), set()
    for line in section.splitlines():
        if match := re.match(r"\| (`vigla_.*?) \| (.*)", line):
            found = set(re.findall(f"`({NAME})", match[1]))
            names |= found
            if not match[2].startswith("with `--"):
                always |= found
    return names, always - SOMETIMES


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A hub with a certificate of which something of everything was asked."""
        cls.folder = Path(tempfile.mkdtemp(prefix="vigla-metrics-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        key, certificate, data = (str(cls.folder / name) for name in ("key.pem", "cert.pem", "data"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        cls.hub = Hub("--data", data, "--tls-cert", certificate, "--tls-key", key, "--tls-port", "0", rules=RULES)
        cls.addClassCleanup(cls.hub.stop)
        observer = wire.Observe(cls.hub.port)
        observer.tell(op="observe", path="/open", events=["value"])
        observer.frame()
        for method, path, body in (("PUT", "open/x.json", b"1"), ("PUT", "closed/x.json", b"1"),
                                   ("POST", "identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=any",
                                    b'{"email":"a@b.example","password":"wrong horse"}')):
            wire.http(cls.hub.port, method, f"/{path}", body, {"Content-Type": "application/json"})
        while b'"event":"value"' not in observer.frame()[1]:
            pass
        # Keys and bytes are counted on request.
        while "vigla_data_keys{" not in (page := wire.http(cls.hub.port, "GET", "/.metrics")[1].decode()):
            pass
        cls.page = page
        observer.close()

    def names(self):
        """Of all metrics on the page; those of a histogram's samples are one."""
        histograms = set(re.findall(rf"^# TYPE ({NAME}) histogram$", self.page, re.M))
        samples = re.findall(rf"^({NAME})[{{ ]", self.page, re.M)
        return {name if (name := re.sub(PARTS, "", sample)) in histograms else sample for sample in samples}

    def test_page_isPrometheusText(self):
        typed = re.findall(rf"^# TYPE ({NAME}) (?:counter|gauge|histogram)$", self.page, re.M)
        for line in self.page.splitlines():
            self.assertRegex(line, rf'^(# (HELP|TYPE) {NAME} \S.*|{NAME}(\{{(\w+="[^"\n]*",?)*\}})? -?[0-9.e+-]+)$')
        self.assertEqual(set(typed) - SOMETIMES, self.names())

    def test_document_hasEveryMetric_andNoOther(self):
        names, always = table()
        self.assertEqual(self.names() - names, set(), "not in docs/operations.md")
        self.assertEqual(always - self.names(), set(), "not on the page")

    def test_dashboard_showsWhatIsThere(self):
        panels = json.loads((ROOT / "Examples/grafana/vigla.json").read_text())["panels"]
        asked = re.findall(rf"\b({NAME})(?:\{{([^}}]*)\}})?", " ".join(target["expr"] for panel in panels for target in panel["targets"]))
        self.assertGreater(len(asked), 20)
        for name, labels in asked:
            sample = re.search(rf"^{name}(\{{.*\}})? ", self.page, re.M)
            self.assertTrue(sample, f"{name} is not there")
            for label in re.findall(r"(\w+)\s*[=!]~?\"", labels):
                self.assertTrue(label in ("instance", "job") or f'{label}="' in (sample[1] or ""), f"{name} has no {label}")


if __name__ == "__main__":
    unittest.main()
