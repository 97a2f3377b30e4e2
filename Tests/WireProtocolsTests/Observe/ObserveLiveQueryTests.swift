import JSONTree
import LiveQueries
import Testing
@testable import WireProtocols

/// `where` and `near` in the member `query`, and `move`.
@Suite(.timeLimit(.minutes(30))) struct ObserveLiveQueryTests {
    private static let athens = GeoPoint(latitude: 37.975, longitude: 23.735)

    private static func read(_ query: String) throws -> Query? {
        guard case .get(_, let read) = try operation(query) else { return nil }
        return read
    }

    private static func operation(_ query: String) throws -> ObserveOperation {
        try ObserveProtocolTests.parse(#"{"id":1,"op":"get","path":"a","query":\#(query)}"#).get().operation
    }

    private static func fault(_ request: String) throws -> ObserveFault? {
        guard case .invalid(let fault) = try ObserveProtocolTests.parse(request).get().operation else { return nil }
        return fault
    }

    @Test func explain_isAskedOfReads_andOfNothingElse() throws {
        for (text, operation) in [
            (#"{"id":1,"op":"get","path":"a","explain":true}"#, .explained(.get(path: "a"))),
            (#"{"id":1,"op":"count","path":"a","explain":true}"#, .explained(.count(path: "a"))),
            (#"{"id":1,"op":"observe","path":"a","events":["count"],"explain":true}"#, .explained(.observe(path: "a", events: .count))),
            (#"{"id":1,"op":"get","path":"a","explain":false}"#, .get(path: "a")),
        ] as [(String, ObserveOperation)] {
            let read = try ObserveProtocolTests.parse(text).get()
            #expect(read.operation == operation, "\(text)")
            #expect(try ObserveProtocolTests.parse(WireProtocolsTests.text(read.encoded())).get() == read)
        }
        for wrong in ["1", "null", #""true""#] {
            let fault = try Self.fault(#"{"id":1,"op":"get","path":"a","explain":\#(wrong)}"#)
            #expect(fault == ObserveFault(.badRequest, "\"explain\" is true or false", member: "explain"))
        }
        #expect(try Self.fault(#"{"id":1,"op":"set","path":"a","value":1,"explain":true}"#)?.member == "explain")
        let told = ObserveReply.ok(1, ObserveSuccess(seq: 5, count: 2, explain: ["start": "children", "looks": 3])).frame
        #expect(WireProtocolsTests.text(told).hasSuffix(#"{"id":1,"ok":{"seq":5,"count":2,"explain":{"looks":3,"start":"children"}}}"#))
    }

    /// A client's message is decoded to its query, and encoded to exactly this text.
    @Test func queries_areReadAndWritten() throws {
        let centre = try #require(Self.athens)
        let near = NearQuery(centre: centre, metres: 1000, limit: nil)
        let open = Filter([Condition("status", .equal("open"))])
        let cases: [(String, Query)] = [
            (
                #"{"orderBy":"$key","where":[["status","==","open"]]}"#,
                try Query(TreeQuery(index: .key), where: open)),
            (
                #"{"orderBy":"at","startAt":5,"limitToLast":3,"where":[["status","==","open"],["status","!=",null]]}"#,
                try Query(
                    TreeQuery(index: .child("at"), start: .init(value: 5), limit: 3, viewFrom: .last),
                    where: Filter([Condition("status", .notEqual(.null)), Condition("status", .equal("open"))]))),
            (#"{"near":{"lat":37.975,"lng":23.735,"radius":1000}}"#, try Query(TreeQuery(), where: .all, near: near)),
            (
                #"{"near":{"lat":37.975,"lng":23.735,"radius":1000,"limit":20},"where":[["status","==","open"]]}"#,
                try Query(TreeQuery(), where: open, near: NearQuery(centre: centre, metres: 1000, limit: 20))),
            (
                #"{"near":{"lat":37.975,"lng":23.735,"limit":20}}"#,
                try Query(TreeQuery(limit: 20, viewFrom: .first), where: .all, near: NearQuery(centre: centre, metres: nil, limit: nil))),
            (
                #"{"orderBy":"rating","limitToLast":5,"near":{"lat":37.975,"lng":23.735,"radius":0.5}}"#,
                try Query(
                    TreeQuery(index: .child("rating"), limit: 5, viewFrom: .last), where: .all,
                    near: NearQuery(centre: centre, metres: 0.5, limit: nil))),
        ]
        for (text, query) in cases {
            #expect(!query.isPlain)
            #expect(try Self.read(text) == query, "\(text)")
            let request = ObserveRequest(id: 1, .get(path: "a", query: query))
            #expect(WireProtocolsTests.text(request.encoded()) == #"{"id":1,"op":"get","path":"a","query":\#(text)}"#)
            let observe = ObserveRequest(id: 1, .observe(path: "a", events: [.added, .moved], query: query))
            #expect(try ObserveProtocolTests.parse(WireProtocolsTests.text(observe.encoded())).get() == observe)
        }
    }

    @Test func near_isOrderedByDistance_unlessAnOrderIsNamed() throws {
        let nearest = try #require(try Self.read(#"{"near":{"lat":1,"lng":2,"radius":5,"limit":9},"limitToFirst":7}"#))
        #expect(nearest.tree == TreeQuery(index: nil, limit: 7, viewFrom: .first) && nearest.near?.limit == nil)
        #expect(nearest.isByDistance)
        let ordered = try #require(try Self.read(#"{"near":{"lat":1,"lng":2,"radius":5},"orderBy":"$priority"}"#))
        #expect(ordered.tree == TreeQuery(index: .priority) && !ordered.isByDistance)
    }

    /// Without conditions and without a circle, a query stays a plain one.
    @Test func plainQueries_haveNoLiveQuery() throws {
        #expect(try Self.operation(#"{"where":[]}"#) == .get(path: "a"))
        let plain = try #require(try Self.read(#"{"where":[],"orderBy":"t"}"#))
        #expect(plain == Query(TreeQuery(index: .child("t"))) && plain.isPlain)
        #expect(try Self.read(#"{"where":[["a","==",1]]}"#)?.tree == TreeQuery(index: .key))
    }

    @Test func queriesThatCannotBe_areRefused_withTheirMember() throws {
        let many = Array(repeating: #"["a","==",1]"#, count: 17).joined(separator: ",")
        let values = Array(repeating: "1", count: 101).joined(separator: ",")
        let long = String(repeating: "x", count: 9000)
        let cases: [(String, ObserveCode, String)] = [
            (#"{"where":5}"#, .badRequest, "query.where"), (#"{"where":null}"#, .badRequest, "query.where"),
            (#"{"where":[["a","==",1],["b","~",2]]}"#, .badRequest, "query.where[1]"),
            (#"{"where":[["a.b","==",1]]}"#, .badRequest, "query.where[0]"), (#"{"where":[["a","==",[]]]}"#, .badRequest, "query.where[0]"),
            (#"{"where":[["a","in",[]]]}"#, .badRequest, "query.where[0]"),
            (#"{"where":[["a","in",[\#(values)]]]}"#, .tooBig, "query.where[0]"),
            (#"{"where":[\#(many)]}"#, .tooBig, "query.where"), (#"{"where":[["a","==","\#(long)"]]}"#, .tooBig, "query.where"),
            (#"{"where":[["a","==","\#(long)\#(long)\#(long)\#(long)"]]}"#, .tooBig, "query.where"),
            (#"{"where":[],"where":[]}"#, .badRequest, "query.where"),
            (#"{"near":null}"#, .badRequest, "query.near"), (#"{"near":{"lat":1}}"#, .badRequest, "query.near"),
            (#"{"near":{"lat":1,"lng":2}}"#, .badRequest, "query.near"), (#"{"near":{"lat":91,"lng":2}}"#, .badRequest, "query.near.lat"),
            (#"{"near":{"lat":1,"lng":180.5}}"#, .badRequest, "query.near.lng"),
            (#"{"near":{"lat":1,"lng":2,"radius":0}}"#, .badRequest, "query.near.radius"),
            (#"{"near":{"lat":1,"lng":2,"limit":0}}"#, .badRequest, "query.near.limit"),
            (#"{"near":{"lat":1,"lng":2,"limit":1001}}"#, .tooBig, "query.near.limit"),
            (#"{"near":{"lat":1,"lng":2},"limitToFirst":1001}"#, .tooBig, "query.limitToFirst"),
            (#"{"near":{"lat":1,"lng":2,"radius":9},"limitToLast":3}"#, .badRequest, "query.near"),
            (#"{"near":{"lat":1,"lng":2,"radius":9},"startAt":"a"}"#, .badRequest, "query.near"),
            (#"{"near":{"lat":1,"lng":2,"radius":9,"limit":3},"orderBy":"a"}"#, .badRequest, "query.near.limit"),
            (#"{"near":{"lat":1,"lng":2},"orderBy":"a"}"#, .badRequest, "query.near"),
            (#"{"near":{"lat":1,"lng":2,"radius":9,"metres":3}}"#, .badRequest, "query.near"),
        ]
        for (query, code, member) in cases {
            let fault = try Self.fault(#"{"id":1,"op":"get","path":"a","query":\#(query)}"#)
            #expect(fault?.code == code && fault?.member == member, "\(query.prefix(200)): \(String(describing: fault))")
        }
        #expect(try Self.read(#"{"near":{"lat":1,"lng":2},"limitToFirst":1000}"#)?.tree.limit == 1000)
        let fault = try Self.fault(#"{"id":1,"op":"get","path":"a","query":{"where":[["a","~",1]]}}"#)
        #expect(fault?.message == #"query.where[0]: the operator "~" is not known; known are == != < <= > >= in has prefix"#)
    }

    @Test func deepConditions_areRefused_andTheConnectionGoesOn() throws {
        let deep = String(repeating: "[", count: 60) + String(repeating: "]", count: 60)
        let fault = try Self.fault(#"{"id":1,"op":"get","path":"a","query":{"where":\#(deep)}}"#)
        #expect(fault?.code == .badRequest && fault?.member == "query.where")
    }

    // MARK: Moving

    @Test func move_isReadAndWritten() throws {
        let centre = try #require(Self.athens)
        let text = #"{"id":9,"op":"move","sub":1,"near":{"lat":37.975,"lng":23.735}}"#
        #expect(try ObserveProtocolTests.parse(text).get() == ObserveRequest(id: 9, .move(sub: 1, to: centre)))
        #expect(WireProtocolsTests.text(ObserveRequest(id: 9, .move(sub: 1, to: centre)).encoded()) == text)
        let south = try #require(GeoPoint(latitude: -90, longitude: 0))
        #expect(try ObserveProtocolTests.parse(#"{"near":{"lng":-12,"lat":-90},"sub":1,"op":"move","id":9}"#).get()
            == ObserveRequest(id: 9, .move(sub: 1, to: south)))
    }

    @Test func movesThatCannotBe_areRefused_withTheirMember() throws {
        let cases: [(String, String)] = [
            (#""sub":1"#, "near"), (#""near":{"lat":1,"lng":2}"#, "sub"), (#""sub":1,"near":{"lat":1}"#, "near"),
            (#""sub":1,"near":null"#, "near"), (#""sub":1,"near":{"lat":1,"lng":2,"radius":5}"#, "near.radius"),
            (#""sub":1,"near":{"lat":1,"lng":2,"limit":5}"#, "near.limit"), (#""sub":1,"near":{"lat":1,"lng":200}"#, "near.lng"),
            (#""sub":1,"near":{"lat":1,"lng":2},"path":"/a""#, "path"),
        ]
        for (members, member) in cases {
            let fault = try Self.fault(#"{"id":1,"op":"move",\#(members)}"#)
            #expect(fault?.code == .badRequest && fault?.member == member, "\(members): \(String(describing: fault))")
        }
        // Other operations have their circle in the query.
        #expect(try Self.fault(#"{"id":1,"op":"observe","path":"a","near":{"lat":1,"lng":2}}"#)?.member == "near")
    }

    /// Converting degrees to a vector and back causes no visible difference.
    @Test func places_areWrittenAsTheyWereGiven() throws {
        for (latitude, longitude) in [
            (0.0, 0.0), (37.975, 23.735), (-33.8568, 151.2153), (89.999999, -179.999999), (-89.99999999, 0.1), (1e-9, -1e-9), (51.5, 180),
            (12.34567890123, -123.45678901234), (-90, 0), (90, 0),
        ] {
            let point = try #require(GeoPoint(latitude: latitude, longitude: longitude))
            let request = ObserveRequest(id: 1, .move(sub: 1, to: point))
            guard case .move(_, let read) = try ObserveProtocolTests.parse(WireProtocolsTests.text(request.encoded())).get().operation else {
                Issue.record("\(latitude) \(longitude)")
                continue
            }
            #expect(point.metres(to: read) < 1e-4, "\(latitude) \(longitude)")
            #expect(abs(read.latitude - latitude) < 2e-11 && abs(read.longitude - longitude) < 2e-11 / max(1e-9, 1 - latitude.magnitude / 90))
        }
    }
}
