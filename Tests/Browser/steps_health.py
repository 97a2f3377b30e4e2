"""Steps: the health of a hub on the page."""

import base64
import json

from websockets.sync.client import connect

from administrator import be_administrator, looks_right
from client import Client
from page import another_hub, quiet_until_here

# An unsigned token, which a development hub accepts.
ANA = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (
    {"alg": "none", "typ": "JWT"}, {"sub": "ana", "iat": 0, "exp": 1 << 33})) + "."


def health_showsWhatHappens(page, hub, client):
    with another_hub(page, "--dev", "--bytes-by-user") as watched:
        be_administrator(page, watched, "health")
        page.until("return vigla.health.readings >= 2", "two readings")
        assert page.find(".health-word").text == "Serving, and accepting writes"
        assert page.run("return vigla.health.figures.operations") is not None
        page.until("return vigla.health.figures.keys === 0 && vigla.health.figures.data === 0", "the keys and bytes of an empty database")
        before = page.run("return vigla.health.figures.connections")
        clients = [Client(watched) for _ in range(5)]
        with connect(f"ws://{watched.address}/.observe", compression=None) as observer:
            observer.send('{"id":1,"op":"observe","path":"/n/3","events":["value"]}')
            observer.recv(timeout=20)
            observer.send(json.dumps({"id": 2, "op": "auth", "token": ANA}))
            observer.recv(timeout=20)
            for i in range(200):
                clients[0].set(f"/n/{i % 7}", i)
            page.until("return document.getElementById('list-by-path')?.innerText.startsWith('Bytes of events by top-level path\\n/n')", "the bytes by the first key")
            page.until("return /^Bytes sent by user\\nana\\n[\\d.]+ k?B$/.test(document.getElementById('list-by-user')?.innerText)", "the bytes by user")
        page.until("return vigla.health.figures.connections >= arguments[0] + 4", "the connections to be counted", before)
        page.until("return document.querySelector('#chart-operations svg').getAttribute('aria-label').match(/requests [^;]*at most ([\\d.]+)/)?.[1] >= 10", "the rate of operations to rise")
        for one in clients:
            one.socket.close()
        page.until("return document.getElementById('list-close-reasons').innerText.includes('peer_closed')", "why they ended")
        page.until("return vigla.health.log.some((line) => line.startsWith('connections '))", "the log's lines")
        page.find(".health-all summary").click()
        page.type("#metrics-search", "commits_total")
        page.until("const rows = [...document.querySelectorAll('.health-table tbody tr')]; return rows.length && rows.every((row) => row.textContent.includes('commits_total'))", "the metrics that were asked for")
        page.find(".health-all summary").click()
        looks_right(page, "health")
        quiet_until_here(page)


CLUSTER = {"name": "trial", "hubs": [
    {"id": "a1", "address": "http://10.0.0.1:9000", "startedAt": 1, "answers": False, "writes": 5, "lag": 0},
    {"id": "b2", "address": "http://10.0.0.2:9000", "startedAt": 1, "answers": True, "writes": 11, "lag": 0},
    {"id": "c3", "address": "", "startedAt": 1, "answers": False, "writes": 0, "lag": 1200}], "shards": []}


def hubOfACluster_showsTheOthers(page, hub, client):
    """What Tests/ViglaCommandTests/Cluster/ClusterTests.swift reads of three hubs, as one hub's answers."""
    with another_hub(page, "--dev") as watched:
        be_administrator(page, watched, "health")
        page.until("return vigla.health.readings >= 1", "a reading")
        assert not page.run("return document.getElementById('list-cluster')"), "it is alone"
        page.run("""const [real, cluster] = [window.fetch, arguments[0]];
                    window.fetch = async (url, options) => {
                      if (String(url).includes('/.inspect/cluster.json')) return Response.json(cluster);
                      const answer = await real(url, options);
                      return String(url).includes('/.health') ? Response.json({ ...await answer.json(), cluster: {} }) : answer;
                    };""", CLUSTER)
        page.until("return document.getElementById('list-cluster') !== null", "the hubs")
        assert page.find("#list-cluster").text.split("\n") == [
            "Cluster trial: shards that each hub writes", "http://10.0.0.2:9000, this one", "11", "http://10.0.0.1:9000", "5",
            "c3, 1.2 k behind", "0"], page.find("#list-cluster").text


def hiddenHealth_asksForNothing(page, hub, client):
    with another_hub(page, "--dev") as watched:
        be_administrator(page, watched, "health")
        page.until("return vigla.health.readings >= 1", "a reading")
        page.run("vigla.go({ tab: 'users' })")
        readings = page.run("return vigla.health.readings")
        page.until("return vigla.users.all", "the other tab")
        page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 2600)")
        assert page.run("return vigla.health.readings") <= readings + 1, "what had been asked may still have come, no more"


def page_isSmall_overTheWire(page, hub, client):
    """All of the page, every tab shown once: at most 212 KB with the heads of the answers. It was 205 KB until the tab Outbox, which has 6 KB."""
    with another_hub(page, "--dev") as watched:
        be_administrator(page, watched, "rules")
        page.until("return vigla.rules.isChecked", "the tab")
        for tab in page.run("return [...document.querySelectorAll('button[data-tab]')].map((tab) => tab.dataset.tab)"):
            page.run("vigla.go({ tab: arguments[0] })", tab)
            page.until("return document.querySelector(`section.tab[data-tab=${arguments[0]}]:not([hidden])`) !== null", f"the tab {tab}", tab)
        files = page.run("""return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
                            .filter((entry) => entry.name.includes('/.console/')).map((entry) => [entry.name.split('/').at(-1), entry.transferSize])""")
        assert len(files) > 30, files
        total = sum(size for _, size in files)
        assert total <= 212_000, f"{total} bytes: {sorted(files, key=lambda file: -file[1])[:10]}"
        print(f"   {len(files)} files, {total} bytes over the wire")


STEPS = [health_showsWhatHappens, hubOfACluster_showsTheOthers, hiddenHealth_asksForNothing, page_isSmall_overTheWire]
