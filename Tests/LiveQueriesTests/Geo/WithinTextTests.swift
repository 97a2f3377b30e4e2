import JSONTree
import LiveQueries
import Testing

/// The forms of a region: as text, as JSON, and stored in the tree.
@Suite(.timeLimit(.minutes(30))) struct WithinTextTests {
    private static func json(_ text: String) throws -> JSONValue { try JSONValue(Array(text.utf8)) }

    @Test(arguments: [
        ("37.9,23.6,38.1,23.9", #"{"south":37.9,"west":23.6,"north":38.1,"east":23.9}"#),
        (" -1 , 2,3 , -4.5", #"{"south":-1,"west":2,"north":3,"east":-4.5}"#),
        ("[1,2,3,4]", #"{"south":1,"west":2,"north":3,"east":4}"#),
        (" {\"east\":4,\"north\":3,\"west\":2,\"south\":1}", #"{"south":1,"west":2,"north":3,"east":4}"#),
        ("[[1,2],[1,3],[2,2.5],[1,2]]", "[[1,2],[1,3],[2,2.5]]"), ("zones/z1/ring", #""zones/z1/ring""#),
        ("/zones/z1", #""zones/z1""#), (#""zones/z1""#, #""zones/z1""#), ("a//b", #""a/b""#),
        (#"{"lat":1,"lng":2,"radius":30}"#, #"{"lat":1,"lng":2,"radius":30}"#),
        ("-90,-180,90,180", #"{"south":-90,"west":-180,"north":90,"east":180}"#),
    ]) func text_isReadAsItsJSON(_ text: String, _ json: String) throws {
        let within = try WithinQuery(text: text)
        #expect(within.json.json == json)
        #expect(try WithinQuery(Self.json(json)) == within)
    }

    @Test(arguments: [
        ("", "within"), ("1", "within"), ("1,2,3", "within"), ("1,2,3,4,5", "within"), ("a,b", "within"), ("1,2,NaN,4", "within"),
        ("[", "within"),
        ("91,0,92,0", "within.south"), ("1,0,2,-181", "within.east"), ("2,0,1,0", "within.south"), ("[[1,2],[3,4,5],[6,7]]", "within[1]"),
        ("[[1,2],[3,200],[6,7]]", "within[1]"), (#"{"south":1,"up":2}"#, "within"), (#"{"lat":91,"lng":2,"radius":3}"#, "within.lat"),
        (String(repeating: "a", count: 70_000), "within"),
    ]) func otherTexts_areRefused(_ text: String, _ member: String) {
        do throws(QueryFault) {
            let read = try WithinQuery(text: text)
            Issue.record("accepted: \(text.prefix(99)): \(read)")
        } catch { #expect(error.member == member, "\(error)") }
    }

    private static func stored(_ node: Node, named name: String = "within") throws(QueryFault) -> Region {
        var visits = 0
        return try Region(stored: node, named: name, visits: &visits)
    }

    /// Strings are copied to read them, and there may be 4,000 of a megabyte.
    @Test func longTexts_endTheReading() throws {
        func read(_ node: Node) -> (fault: QueryFault?, visits: Int) {
            var visits = 0
            do throws(QueryFault) { _ = try Region(stored: node, named: "zones/z1", visits: &visits) } catch { return (error, visits) }
            return (nil, visits)
        }
        func texts(_ bytes: Int) -> Node {
            .object((0..<1_000).map { (Key("k\($0)"), .string(Text(String(repeating: "x", count: bytes)))) })
        }
        let (short, long) = (read(texts(16)), read(texts(17)))
        #expect(short.fault?.member == "zones/z1" && short.visits > 1_000)
        #expect(long.fault?.description.hasPrefix("zones/z1: must be a box") == true && long.visits < 10, "\(long)")
    }

    @Test(arguments: [
        #"{"south":1,"west":2,"north":3,"east":4}"#, "[1,2,3,4]", "[[1,2],[1,3],[2,2.5]]",
        #"[{"lat":1,"lng":2},{"lat":1,"lng":3},{"lat":2,"lng":2.5}]"#,
        #"{"type":"Polygon","coordinates":[[[2,1],[3,1],[2.5,2],[2,1]]]}"#, #"{"lat":1,"lng":2,"radius":30}"#,
    ]) func storedRegion_isReadAsInRequests(_ json: String) throws {
        #expect(try Self.stored(Node(json: json)) == Region(Self.json(json)))
    }

    @Test func storedRing_mayHaveAnyKeys_andIsBounded() throws {
        let pushed = #"{"-N1":{"lat":1,"lng":2},"-N2":{"0":1,"1":3},"-N5":{"lat":2,"lng":2.5}}"#
        #expect(try Self.stored(Node(json: pushed)) == Region(Self.json("[[1,2],[1,3],[2,2.5]]")))
        // A removed point leaves a gap.
        #expect(try Self.stored(Node(json: #"{"0":[1,2],"2":[1,3],"7":[2,2.5]}"#)) == Region(Self.json("[[1,2],[1,3],[2,2.5]]")))
        func fault(_ node: Node) -> QueryFault? {
            do throws(QueryFault) { _ = try Self.stored(node, named: "zones/z1") } catch { return error }
            return nil
        }
        #expect(fault(.null)?.description == "zones/z1: is not stored: nothing is there")
        #expect(fault("x")?.member == "zones/z1")
        let large = Node.object((0..<10_000).map { (Key("\($0)"), ["lat": .number(Double($0) / 200), "lng": 1]) })
        #expect(fault(large)?.reason == .tooBig)
        #expect(fault(try Node(json: #"{"a":{"b":{"c":1}},"d":2}"#))?.member == "zones/z1")
    }
}
