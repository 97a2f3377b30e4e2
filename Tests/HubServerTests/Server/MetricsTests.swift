import HubEngine
@testable import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Values of `/.metrics` that no other test covers.
@Suite(.timeLimit(.minutes(30))) struct MetricsTests {
    @Test func observers_areCounted_andWhatTheyCountAs() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test")
        try socket.sendText(#"{"id":1,"op":"observe","path":"/a","events":["value"]}"#)
        try socket.sendText(#"{"id":2,"op":"observe","path":"/a/b/c/d/e/f/g/h","events":["value"]}"#)
        #expect(try server.metric(#"vigla_observers{namespace="test"}"#, becomes: { $0 == 2 }))
        #expect(try server.metric(#"vigla_observers_counted{namespace="test"}"#) == 3)
        try socket.sendText(#"{"id":3,"op":"unobserve","sub":2}"#)
        #expect(try server.metric(#"vigla_observers{namespace="test"}"#, becomes: { $0 == 1 }))
        #expect(try server.metric(#"vigla_observers_counted{namespace="test"}"#) == 1)
    }

    @Test func commitsOfTheHubItself_areCounted_byTheirCause() throws {
        let server = try TestServer()
        let name = #"vigla_system_commits_total{namespace="test",cause="account_deletion"}"#
        let socket = try server.realtime().socket
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/users/ana","d":1}}}"#)
        #expect(try server.metric(#"vigla_commits_total{namespace="test"}"#, becomes: { $0 == 1 }))
        #expect(try server.metric(name) == 0)
        let database = try #require(server.server.hub.database("test"))
        let hub = Client(lane: 0, dialect: .system)
        database.submit(.system([TreeWrite(Path(["users", "ana"]), WriteValue(.null))], .accountDeletion), from: hub)
        #expect(try server.metric(name, becomes: { $0 == 1 }))
        #expect(try server.metric(#"vigla_commits_total{namespace="test"}"#) == 2)
    }

    @Test func writesThatFollow_areCounted_byTheKeyOfTheRules() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{".write":true,"a":{".removes":"b"},"e":{"$e":{".counts":{"n":"count(v/$e)"},".copy":"copy/$e"}}}}
            """#)
        let server = try TestServer { $0.rules = rules }
        let socket = try server.realtime().socket
        func name(_ cause: String) -> String { #"vigla_system_writes_total{namespace="test",cause="\#(cause)"}"# }
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/b","d":1}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":3,"a":"p","b":{"p":"/e/x/t","d":1}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":4,"a":"p","b":{"p":"/a","d":null}}}"#)
        #expect(try server.metric(name("removes"), becomes: { $0 == 1 }))
        #expect(try server.metric(name("counts")) == 1 && server.metric(name("copy")) == 1)
        #expect(try server.metric(#"vigla_countings_total{namespace="test"}"#) == 1)
    }

    @Test func workOfQueries_isTold() throws {
        let server = try TestServer()
        let socket = try server.realtime().socket
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":{"x":1,"y":2}}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"q","b":{"p":"/a","q":{"i":".value","l":5,"vf":"r"},"t":1,"h":""}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":3,"a":"p","b":{"p":"/a/z","d":3}}}"#)
        #expect(try server.metric(#"vigla_query_changes_total{namespace="test"}"#, becomes: { $0 == 1 }))
        #expect(try server.metric(#"vigla_children_sorted_total{namespace="test"}"#) == 2)
        #expect(try server.metric(#"vigla_children_sorted_beside_total{namespace="test"}"#) == 0)
        #expect(try server.metric(#"vigla_followed_places_total{namespace="test"}"#) == 0)
        #expect(try server.metric(#"vigla_observers_asked_total{namespace="test"}"#) == 1)
        #expect(try server.metric(#"vigla_foreseen_commits_total{namespace="test"}"#) == 0)
    }

    @Test func latencies_areCounted_byKindOfRequest() throws {
        let server = try TestServer()
        let socket = try server.realtime().socket
        func count(_ kind: String) -> String { #"vigla_request_seconds_count{namespace="test",kind="\#(kind)"}"# }
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/a","d":2}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/a"}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":4,"a":"q","b":{"p":"/a","h":""}}}"#)
        #expect(try server.metric(count("observe"), becomes: { $0 == 1 }))
        #expect(try server.metric(count("write"), becomes: { $0 == 2 }))
        #expect(try server.metric(count("read")) == 1)
        let page = server.server.metricsText()
        #expect(page.contains(#"vigla_request_seconds_bucket{namespace="test",kind="write",le="+Inf"} 2"#))
        #expect(page.contains(#"kind="write",le="0.0001"}"#) && page.contains(#"kind="write",le="10"}"#))
    }

    @Test func refusals_areCounted_byTheNearestPlaceOfTheRules() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"users":{"$uid":{".write":"auth.uid == $uid"}}}}"#)
        let server = try TestServer { $0.rules = rules }
        let socket = try server.realtime().socket
        func count(_ request: String, _ place: String) -> String {
            #"vigla_rule_refusals_total{namespace="test",request="\#(request)",place="\#(place)"}"#
        }
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/users/ana/name","d":1}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/users/bo","d":1}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/users"}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":4,"a":"q","b":{"p":"/else","h":""}}}"#)
        // A label appears with its first count.
        #expect(becomes { server.server.metricsText().contains(count("listen", "/") + " 1\n") })
        #expect(try server.metric(count("write", "/users/$uid")) == 2)
        #expect(try server.metric(count("get", "/users")) == 1)
    }

    /// A write that no content could make the rules allow does not reach a database's queue.
    @Test func writesThatWereRefusedUnread_areCounted_too() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"users":{"$uid":{".write":"auth.uid == $uid"}}}}"#)
        let server = try TestServer { $0.rules = rules }
        let peer = try RESTPeer(server)
        let large = "\"" + String(repeating: "x", count: 2 * server.server.settings.limits.largeRequestBytes) + "\""
        #expect(try peer.put("/users/ana.json?ns=test", large).hasPrefix("401"))
        let count = #"vigla_rule_refusals_total{namespace="test",request="write",place="/users/$uid"}"#
        #expect(try server.metric(count) == 1)
    }

    @Test func events_areCounted_byTheFirstKeyOfTheirPlace_timesTheirObservers() throws {
        let server = try TestServer()
        let (one, other) = (try server.realtime().socket, try server.realtime().socket)
        for socket in [one, other] { try socket.sendText(#"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/chat/room","h":""}}}"#) }
        #expect(try server.metric(#"vigla_observers{namespace="test"}"#, becomes: { $0 == 2 }))
        try one.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/chat/room/x","d":"hello"}}}"#)
        let bytes = #"{"t":"d","d":{"b":{"p":"chat/room/x","d":"hello"},"a":"d"}}"#.utf8.count
        let told = #"vigla_event_bytes_total{namespace="test",path="/chat"}"#
        #expect(becomes { server.server.metricsText().contains(told) })
        #expect(try server.metric(told, becomes: { $0 >= 2 * bytes && $0 <= 2 * (bytes + 10) }))
    }

    @Test func process_isDescribed() throws {
        let server = try TestServer()
        let page = server.server.metricsText()
        #expect(page.contains("vigla_build_info{version=") && page.contains("# TYPE vigla_request_seconds histogram"))
        #expect(try server.metric("vigla_resident_memory_bytes") > 1 << 20)
        #expect(try server.metric("vigla_open_descriptors") > 3)
    }

    /// Data keys and rule places may contain quotes.
    @Test func labels_areEscaped() {
        #expect(MetricsPage.escaped(#"/a"b\c"#) == #"/a\"b\\c"#)
        #expect(MetricsPage.escaped("/a\nb") == "/a\\nb" && MetricsPage.escaped("/ä") == "/ä")
        // The quote and the combining mark after it are one Character.
        #expect(MetricsPage.escaped("a\"\u{301}b\\\u{301}") == "a\\\"\u{301}b\\\\\u{301}")
        #expect(MetricsPage.escaped(String(repeating: "x", count: 768)).count == 768)
    }
}
