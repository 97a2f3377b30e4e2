import HubServer
import SecurityRules
import TestHub
import Testing

/// The `.message` of a rule on its way to the client.
@Suite(.timeLimit(.minutes(30))) struct RuleMessageTests {
    private func server() throws -> TestServer {
        let text = #"{"rules":{".read":true,"a":{".write":true,"t":{".validate":"newData.isString()",".message":"t is a text"},"#
            + #""n":{".validate":"newData.val() > 0",".message":"n is \"positive\""},"m":{".validate":false}},"#
            + #""both":{".write":"newData.val() != 'no'",".validate":"newData.isString()",".message":"a text"}}}"#
        let rules = try RuleSet(parsing: text)
        return try TestServer {
            $0.rules = rules
            $0.namespace = "test"
        }
    }

    @Test func violatedMessages_areAnsweredOverREST_asAList() throws {
        let peer = try RESTPeer(try server())
        #expect(try peer.put("/a.json", #"{"t":5,"n":-1}"#) == "400 {\n  \"error\" : [\"t is a text\",\"n is \\\"positive\\\"\"]\n}\n")
        #expect(try peer.patch("/a.json", #"{"t":"x","n":-1}"#) == "400 {\n  \"error\" : [\"n is \\\"positive\\\"\"]\n}\n")
        #expect(try peer.refusal("PUT", "/a/m.json", "1") == "401 Permission denied")
        #expect(try peer.refusal("PUT", "/b.json", "1") == "401 Permission denied")
        #expect(try peer.put("/both.json", "1") == "400 {\n  \"error\" : [\"a text\"]\n}\n")
        #expect(try peer.refusal("PUT", "/both.json", "\"no\"") == "401 Permission denied", "the message is not of the .write")
        #expect(try peer.put("/a.json", #"{"t":"x","n":1}"#).hasPrefix("200 "))
    }

    /// A large write is decided in the background.
    @Test func violatedMessages_areTold_ofLargeWrites() throws {
        let peer = try RESTPeer(try server())
        let many = (0..<30_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",")
        #expect(try peer.put("/a.json", "{\"n\":0,\(many)}") == "400 {\n  \"error\" : [\"n is \\\"positive\\\"\"]\n}\n")
    }

    @Test func violatedMessages_areInTheObserveProtocol() throws {
        let server = try server()
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test")
        try socket.sendText(#"{"id":1,"op":"set","path":"/a","value":{"t":1}}"#)
        #expect(
            try socket.text() == #"{"id":1,"error":{"code":"permission_denied","message":"Permission denied","messages":["t is a text"]}}"#)
        try socket.sendText(#"{"id":2,"op":"set","path":"/b","value":1}"#)
        #expect(try socket.text() == #"{"id":2,"error":{"code":"permission_denied","message":"Permission denied"}}"#)
    }
}
