import HubEngine
@testable import HubServer
import JSONTree
import TestHub
import Testing

/// What `/.metrics` says that nothing else shows.
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
}
