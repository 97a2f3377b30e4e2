import JSONTree
import SecurityRules
import Testing

/// `.message`: the text that clients are sent for refused writes.
@Suite(.timeLimit(.minutes(30))) struct MessageTests {
    private static let rules = #"""
        {"rules":{
          "p":{"$p":{".write":"auth != null",".message":{".write":"sign in",".validate":"t is needed"},
            ".validate":"newData.hasChild('t')",
            "t":{".validate":"newData.isString()",".message":"t is a text"},
            "n":{".validate":"newData.val() > 0",".message":"n is positive"},
            "m":{".validate":"newData.val() == 1"},
            "l":{"$i":{".validate":"newData.val() < 5",".message":"less than 5"}}}},
          "w":{".write":"auth.uid == 'a'",".message":"only a","x":{".write":"auth.uid == 'b'",".message":"or b"},"y":{".write":false}},
          "mute":{".write":"auth.uid == 'a'"},
          "both":{".write":"auth.uid == 'a'",".validate":"newData.isNumber()",".message":"a number"},
          "open":{".write":true,".validate":"newData.val() != 13",".message":"not 13"}}}
        """#

    struct Row: Sendable, CustomTestStringConvertible {
        let path: String
        let value: String
        let uid: String?
        let messages: [String]
        init(_ path: String, _ value: String, as uid: String? = "a", _ messages: String...) {
            (self.path, self.value, self.uid, self.messages) = (path, value, uid, messages)
        }
        var testDescription: String { "\(path) \(value) \(uid ?? "-")" }
    }

    @Test(arguments: [
        Row("/p/1", #"{"t":5}"#, "t is a text"), Row("/p/1", #"{"t":5,"n":-1}"#, "t is a text", "n is positive"),
        Row("/p/1", #"{"t":5,"n":-1}"#, as: nil, "sign in"), Row("/p/1", #"{"t":"x","m":2}"#),
        Row("/p/1", #"{"t":5,"m":2}"#, "t is a text"),
        Row("/p/1", #"{"n":"x","t":"x"}"#, "n is positive"), Row("/p/1", #"{"t":"x","l":[7,8,9]}"#, "less than 5"),
        Row("/p/1", #"{"n":1}"#, "t is needed"),
        // The message belongs to the .validate, so a client without the write permission learns nothing from it.
        Row("/both", #""x""#, "a number"), Row("/both", #""x""#, as: "b"), Row("/both", "5", as: nil),
        Row("/w", "1", as: "b", "only a"), Row("/w/x", "1", as: "c", "only a", "or b"), Row("/w/y", "1", as: "b", "only a"),
        Row("/w/z", "1", as: nil, "only a"), Row("/mute", "1", as: "b"), Row("/none", "1"), Row("/open", "13", "not 13"),
        Row("/open/x", "null", as: nil), Row("/p", #"{"1":{"t":5}}"#),
    ]) func refusedWrite_isToldItsMessages(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let path = try Path(parsing: row.path)
        var new = Node.null
        new.set(try Node(json: row.value), at: path)
        let auth: Node = row.uid.map { ["uid": .string($0)] } ?? .null
        let messages = rules.messages(ofRefused: [path], old: .null, new: new, auth: auth, now: 0)
        #expect(messages == row.messages)
    }

    /// Several places: no message if one place is refused without a message, otherwise the messages of all.
    @Test func refusedUpdate_isToldTheMessagesOfAllItsPlaces() throws {
        let rules = try RuleSet(parsing: Self.rules)
        func messages(_ values: [(Path, Node)], _ auth: Node) -> [String] {
            var new = Node.null
            for (path, value) in values { new.set(value, at: path) }
            return rules.messages(ofRefused: values.map(\.0), old: .null, new: new, auth: auth, now: 0)
        }
        let ada: Node = ["uid": "a"]
        #expect(messages([("/p/1", ["t": 5]), ("/p/2", ["t": "x", "n": 0]),
        ("/open", 13)], ada) == ["t is a text", "n is positive", "not 13"])
        #expect(messages([("/p/1", ["t": 5]), ("/none", 1)], ada) == [])
        #expect(messages([("/p/1", ["t": 5]), ("/w", 1)], ["uid": "b"]) == ["only a"])
        #expect(messages([("/p/1", ["t": 5]), ("/p/2", ["t": 6])], .null) == ["sign in"])
        // Children of the previous row's place are evaluated with the right data.
        #expect(messages([("/p/1/t", 5), ("/p/1/n", 1), ("/p/2/t", "x"), ("/p/2/n", -1)], ada) == ["t is a text", "n is positive"])
    }

    @Test(arguments: [
        (#"{"a":{".message":"x"}}"#, "1:27: A '.message' stands beside the '.validate' or '.write' that it explains."),
        (#"{"a":{".read":true,".message":"x"}}"#, "1:40: A '.message' stands beside the '.validate' or '.write' that it explains."),
        (#"{"a":{".write":true,".message":5}}"#, "1:41: Expected a text of at most 1000 bytes."),
        (#"{"a":{".write":true,".message":""}}"#, "1:41: Expected a text of at most 1000 bytes."),
        (#"{"a":{".write":true,".message":{}}}"#, "1:41: Expected a text of at most 1000 bytes."),
        (#"{"a":{".write":true,".message":{"en":"x"}}}"#, "1:42: A '.message' is a text, or {\".write\": …, \".validate\": …}."),
        (#"{"a":{".write":true,".message":{".write":5}}}"#, "1:51: Expected a text of at most 1000 bytes."),
        (#"{"a":{".write":true,".message":{".validate":"x"}}}"#,
            "1:54: A '.message' stands beside the '.validate' or '.write' that it explains."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        #expect(faults("{\"rules\":\(rules)}").map(\.description) == [message])
    }

    @Test func length_andCount_areBounded() throws {
        func text(_ length: Int) -> String {
            "{\"rules\":{\".write\":true,\".message\":\"\(String(repeating: "x", count: length))\"}}"
        }
        #expect(faults(text(1_000)) == [] && faults(text(1_001)).count == 1)
        let places = (0..<150).map { "\"k\($0)\":{\".validate\":false,\".message\":\"m\($0)\"}" }.joined(separator: ",")
        let rules = try RuleSet(parsing: "{\"rules\":{\".write\":true,\(places)}}")
        let new = Node.object((0..<150).map { (Key("k\($0)"), .int(1)) })
        #expect(rules.messages(ofRefused: [.root], old: .null, new: new, auth: .null, now: 0).count == 100)
        #expect(try !RuleSet(parsing: #"{"rules":{}}"#).hasMessages && rules.hasMessages)
    }
}
