import JSONTree
import Outbound
import SecurityRules
import TestEndpoint
import TestHub
import TestSupport
import Testing

@testable import HubServer

/// `/.outbox`, and a notification from the rules to an endpoint.
@Suite(.timeLimit(.minutes(30))) struct OutboxRoutesTests {
    @Test func notification_isSentToEachDevice_andFailsForOne() throws {
        let hub = try NotifyingHub()
        try hub.notify("n1")
        #expect(becomes { hub.topics == ["good"] })
        #expect(try becomes { try hub.entries().count == 1 })
        let entry = try #require(try hub.entries().first)
        #expect(entry["state"] == "dead" && entry["device"] == "/devices/ana/d2" && entry["source"] == "/notes/ana/n1")
        #expect(entry["reason"]?.string?.hasPrefix(#"there is no kind "pigeon""#) == true && entry["title"] == "Lunch n1")
        #expect(entry["rule"]?.string?.contains("/notes/$u/$n") == true)
        #expect(try hub.entries("?state=waiting").isEmpty)
    }

    @Test func deadLetter_isTriedAgain_orDiscarded() throws {
        let hub = try NotifyingHub()
        for name in ["n1", "n2", "n3"] { try hub.notify(name) }
        #expect(try becomes { try hub.entries().count == 3 })
        let ids = try hub.entries().compactMap { $0["id"]?.string }
        #expect(try hub.entries("?limit=2").compactMap { $0["id"]?.string } == Array(ids.prefix(2)))
        #expect(try hub.entries("?limit=2&after=\(ids[1])").compactMap { $0["id"]?.string } == [ids[2]])
        try hub.owner.put("/devices/ana/d2.json", #"{"kind":"ntfy","topic":"mended"}"#)
        #expect(try hub.owner.line("POST", "/.outbox/retry.json?id=\(ids[1])") == "200 {\"count\":1}\n")
        #expect(becomes { hub.topics.contains("mended") })
        #expect(try hub.owner.line("DELETE", "/.outbox.json?id=\(ids[0])") == "200 {\"count\":1}\n")
        #expect(try hub.owner.refusal("DELETE", "/.outbox.json?id=\(ids[0])") == "404 There is no dead letter with this id.")
        #expect(try hub.entries().compactMap { $0["id"]?.string } == [ids[2]])
        #expect(try hub.owner.line("POST", "/.outbox/retry.json?all=true") == "200 {\"count\":1}\n")
        #expect(becomes { hub.topics.filter { $0 == "mended" }.count == 2 })
        #expect(try hub.owner.line("DELETE", "/.outbox.json?all=true") == "200 {\"count\":0}\n")
    }

    @Test func waitingDelivery_isListedWithItsNextAttempt() throws {
        let hub = try NotifyingHub()
        try hub.owner.put("/devices/ana/d2.json", #"{"kind":"ntfy","topic":"busy"}"#)
        try hub.notify("n1")
        #expect(try becomes { try hub.entries("?state=waiting").contains { $0["attempts"] == 1 } })
        let entry = try #require(try hub.entries("?state=waiting").first { $0["attempts"] == 1 })
        let (due, at) = (try #require(entry["due"]?.int), try #require(entry["at"]?.int))
        #expect(entry["state"] == "waiting" && due >= at + 10_000)
        #expect(try hub.entries().isEmpty)
    }

    @Test func event_isSentToItsWebhook() throws {
        let hub = try NotifyingHub()
        try hub.owner.put("/orders/o1.json", #"{"state":"open"}"#)
        try hub.owner.put("/orders/o1/state.json", #""paid""#)
        #expect(becomes { hub.endpoint.requests.count == 2 })
        let bodies = try hub.endpoint.requests.map { try JSONValue($0.body) }
        #expect(hub.endpoint.requests.allSatisfy { $0.path == "/shop" && $0.fields["vigla-signature"] != nil })
        #expect(bodies.map { $0["event"]?["event"] } == ["creation", "change"])
        #expect(bodies.allSatisfy { $0["type"] == "event" && $0["event"]?["path"] == "/orders/o1" })
        #expect(bodies[1]["event"]?["before"] == ["state": "open"] && bodies[1]["event"]?["after"] == ["state": "paid"])
    }

    @Test func deviceThatIsGone_losesItsRow() throws {
        let hub = try NotifyingHub()
        try hub.owner.put("/devices/ana/d2.json", #"{"kind":"webhook","name":"phone"}"#)
        try hub.notify("n1")
        #expect(try becomes { try hub.owner.get("/devices/ana/d2.json") == "200 null" })
        #expect(try hub.owner.get("/devices/ana/d1/topic.json") == #"200 "good""#)
        #expect(try hub.entries().isEmpty)
    }

    @Test func test_isSentToOneDevice() throws {
        let hub = try NotifyingHub()
        let answer = try hub.owner.ask("POST", "/.outbox/test.json", #"{"device":"/devices/ana/d1","title":"Hello","text":"there"}"#)
        let id = try JSONValue(Array(answer.body.utf8))["id"]?.string
        #expect(answer.status == 200 && id?.isEmpty == false)
        #expect(becomes { hub.endpoint.requests.count == 1 })
        let message = try JSONValue(try #require(hub.endpoint.requests.first).body)
        #expect(message["topic"] == "good" && message["title"] == "Hello" && message["message"] == "there")
        for (body, text) in [
            (#"{"device":"/devices/ana/none"}"#, "There is no device at /devices/ana/none."), ("{}", "Expected an object such as"),
            (#"{"device":"/"}"#, "Expected an object such as"), (#"{"device":"/a.b"}"#, "Expected an object such as"),
        ] {
            #expect(try hub.owner.refusal("POST", "/.outbox/test.json", body).hasPrefix("400 \(text)"), "\(body)")
        }
    }

    @Test func faultyRequests_areRefused() throws {
        let hub = try NotifyingHub()
        for target in ["?state=done", "?limit=0", "?limit=1001", "?limit=x"] {
            #expect(try hub.owner.ask("GET", "/.outbox.json\(target)").status == 400, "\(target)")
        }
        for target in ["", "?all=1", "?id=", "?id=a&all=true"] {
            #expect(try hub.owner.ask("POST", "/.outbox/retry.json\(target)").status == 400, "\(target)")
            #expect(try hub.owner.ask("DELETE", "/.outbox.json\(target)").status == 400, "\(target)")
        }
        let get = try hub.owner.ask("GET", "/.outbox/retry.json")
        #expect(get.status == 405 && get.head.contains("Allow: POST"))
        // Without its ending, as all administrative paths.
        #expect(try hub.owner.ask("GET", "/.outbox").status == 200)
        let stranger = try RESTPeer(hub.server)
        for (method, target) in [("GET", ".json"), ("DELETE", ".json?all=true"), ("POST", "/retry.json?all=true"), ("POST", "/test.json")] {
            #expect(try stranger.ask(method, "/.outbox\(target)").status == 401, "\(method) \(target)")
        }
    }
}

/// A hub whose rules notify Ana's two devices: one that works, and one of an unknown kind.
private final class NotifyingHub {
    let server: TestServer
    let owner: RESTPeer
    let endpoint: TestEndpoint

    init() throws {
        let endpoint = try TestEndpoint { request in
            let topic = (try? JSONValue(request.body))?["topic"]?.string
            let status = topic == "busy" ? "503 x" : request.path == "/gone" ? "410 x" : "201 x"
            return .text("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
        }
        let rules = try RuleSet(parsing: Array("""
            {"rules":{".read":true,".write":true,"orders":{"$o":{".webhook":"shop"}},"notes":{"$u":{"$n":{".notify":{
              "devices":"devices/$u","title":"'Lunch ' + $n","body":"'at one'","wait":0}}}}}}
            """.utf8))
        let ntfy = try NtfyServer(url: endpoint.url(), isPrivate: true)
        let webhooks = [
            "shop": try Webhook(url: endpoint.url("/shop"), secret: "a secret of the test", isPrivate: true),
            "phone": try Webhook(url: endpoint.url("/gone"), secret: "a secret of the test", isPrivate: true, acceptsDevices: true),
        ]
        server = try TestServer { settings in
            settings.rules = rules
            settings.outbound.ntfyServers = ["home": ntfy]
            settings.outbound.webhooks = webhooks
        }
        owner = try RESTPeer.owner(server)
        self.endpoint = endpoint
        try owner.put("/devices/ana.json", #"{"d1":{"kind":"ntfy","topic":"good"},"d2":{"kind":"pigeon"}}"#)
    }

    func notify(_ name: String) throws { #expect(try owner.put("/notes/ana/\(name).json", "true") == "200 true") }

    func entries(_ query: String = "") throws -> [JSONValue] {
        let answer = try owner.ask("GET", "/.outbox.json\(query)")
        return try #require(try JSONValue(Array(answer.body.utf8))["entries"]?.elements)
    }

    /// The topics of the messages so far, in their order.
    var topics: [String] { endpoint.requests.compactMap { (try? JSONValue($0.body))?["topic"]?.string } }
}
