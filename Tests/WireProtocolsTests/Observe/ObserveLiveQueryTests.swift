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
        #expect(nearest.isByPosition)
        let ordered = try #require(try Self.read(#"{"near":{"lat":1,"lng":2,"radius":5},"orderBy":"$priority"}"#))
        #expect(ordered.tree == TreeQuery(index: .priority) && !ordered.isByPosition)
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
        #expect(try ObserveProtocolTests.parse(text).get() == ObserveRequest(id: 9, .move(sub: 1, to: .centre(centre))))
        #expect(WireProtocolsTests.text(ObserveRequest(id: 9, .move(sub: 1, to: .centre(centre))).encoded()) == text)
        let south = try #require(GeoPoint(latitude: -90, longitude: 0))
        #expect(try ObserveProtocolTests.parse(#"{"near":{"lng":-12,"lat":-90},"sub":1,"op":"move","id":9}"#).get()
            == ObserveRequest(id: 9, .move(sub: 1, to: .centre(south))))
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
        let both = try Self.fault(#"{"id":1,"op":"move","sub":1,"near":{"lat":1,"lng":2},"within":[1,2,3,4]}"#)
        #expect(both?.member == "within")
        // Other operations have their circle in the query.
        #expect(try Self.fault(#"{"id":1,"op":"observe","path":"a","near":{"lat":1,"lng":2}}"#)?.member == "near")
    }

    // MARK: Regions

    @Test(arguments: [
        (#"{"within":{"south":37.9,"west":23.6,"north":38.1,"east":23.9}}"#, nil),
        (#"{"within":[37.9,23.6,38.1,23.9]}"#, #"{"within":{"south":37.9,"west":23.6,"north":38.1,"east":23.9}}"#),
        (#"{"within":[-10,170,10,-170]}"#, #"{"within":{"south":-10,"west":170,"north":10,"east":-170}}"#),
        (#"{"within":"zones/z1/ring"}"#, nil),
        (#"{"within":[[1,2],[1.5,-3],[-2,3]]}"#, nil),
        (#"{"within":[{"lat":1,"lng":2},{"lat":1.5,"lng":-3},{"lat":-2,"lng":3}]}"#, #"{"within":[[1,2],[1.5,-3],[-2,3]]}"#),
        (#"{"within":{"type":"Polygon","coordinates":[[[2,1],[-3,1.5,120],[3,-2],[2,1]]]}}"#, #"{"within":[[1,2],[1.5,-3],[-2,3]]}"#),
        (
            #"{"orderBy":"rating","limitToLast":5,"within":"/zones/z1","where":[["a","==",1]]}"#,
            #"{"orderBy":"rating","limitToLast":5,"within":"zones/z1","where":[["a","==",1]]}"#
        ),
        (
            #"{"within":[1,2,3,4],"limitToFirst":5}"#,
            #"{"orderBy":"$key","limitToFirst":5,"within":{"south":1,"west":2,"north":3,"east":4}}"#
        ),
    ]) func within_isReadAndWritten(_ query: String, _ written: String?) throws {
        let read = try #require(try Self.read(query))
        let text = WireProtocolsTests.text(ObserveRequest(id: 1, .get(path: "a", query: read)).encoded())
        #expect(text == #"{"id":1,"op":"get","path":"a","query":\#(written ?? query)}"#)
        #expect(try Self.read(written ?? query) == read && read.hasArea && read.near == nil)
    }

    @Test func regionsThatCannotBe_areRefused_withTheirMember() throws {
        let points = (0..<1_002).map { "[\(Double($0) / 100),\($0 % 2)]" }.joined(separator: ",")
        let cases: [(String, ObserveCode, String)] = [
            (#"{"within":5}"#, .badRequest, "query.within"),
            (#"{"within":{}}"#, .badRequest, "query.within"),
            (#"{"within":""}"#, .badRequest, "query.within"),
            (#"{"within":"a..b"}"#, .badRequest, "query.within"),
            (#"{"within":{"south":1,"west":2,"north":3}}"#, .badRequest, "query.within"),
            (#"{"within":{"south":1,"west":2,"north":3,"east":181}}"#, .badRequest, "query.within.east"),
            (#"{"within":{"south":4,"west":2,"north":3,"east":8}}"#, .badRequest, "query.within.south"),
            (#"{"within":[1,2,3,"4"]}"#, .badRequest, "query.within[0]"),
            (#"{"within":[[0,0],[1,1],[91,0]]}"#, .badRequest, "query.within[2]"),
            (#"{"within":[[0,0],[1,1],[0,1],[1,0]]}"#, .badRequest, "query.within"),
            (#"{"within":[[0,0],[1,1]]}"#, .badRequest, "query.within"),
            (#"{"within":{"type":"Polygon","coordinates":[[[0,0],[1,1],[0,1]],[[0,0],[0.1,0],[0,0.1]]]}}"#, .badRequest, "query.within.coordinates"),
            (#"{"within":{"type":"Point","coordinates":[0,0]}}"#, .badRequest, "query.within.type"),
            (#"{"within":{"type":"Polygon","coordinates":[[[0,0],[0,91],[0,1]]]}}"#, .badRequest, "query.within.coordinates[0][1]"),
            (#"{"within":{"lat":1,"lng":2,"radius":0}}"#, .badRequest, "query.within.radius"),
            (#"{"within":[1,2,3,4],"near":{"lat":1,"lng":2,"radius":3}}"#, .badRequest, "query.within"),
            (#"{"within":[1,2,3,4],"startAt":"a"}"#, .badRequest, "query.within"),
            (#"{"within":[\#(points)]}"#, .tooBig, "query.within"),
            (#"{"within":[\#(String(repeating: " ", count: 70_000))]}"#, .tooBig, "query.within"),
        ]
        for (query, code, member) in cases {
            let fault = try Self.fault(#"{"id":1,"op":"get","path":"a","query":\#(query)}"#)
            #expect(fault?.code == code && fault?.member == member, "\(query.prefix(200)): \(String(describing: fault))")
        }
        let fault = try Self.fault(#"{"id":1,"op":"get","path":"a","query":{"within":[[0,0],[1,1],[0,1],[1,0]]}}"#)
        #expect(fault?.message == "query.within: crosses or touches itself: the edges after points 0 and 2, counted from 0")
    }

    @Test func moveOfARegion_isReadAndWritten() throws {
        let text = #"{"id":9,"op":"move","sub":1,"within":{"south":37.9,"west":23.6,"north":38.1,"east":23.9}}"#
        let box = try #require(GeoBox(south: 37.9, west: 23.6, north: 38.1, east: 23.9))
        let request = ObserveRequest(id: 9, .move(sub: 1, to: .within(WithinQuery(.region(.box(box))))))
        #expect(try ObserveProtocolTests.parse(text).get() == request)
        #expect(WireProtocolsTests.text(request.encoded()) == text)
        let fault = try Self.fault(#"{"id":1,"op":"move","sub":1,"within":{"south":1}}"#)
        #expect(fault?.code == .badRequest && fault?.member == "within")
    }

    /// Converting degrees to a vector and back causes no visible difference.
    @Test func places_areWrittenAsTheyWereGiven() throws {
        for (latitude, longitude) in [
            (0.0, 0.0), (37.975, 23.735), (-33.8568, 151.2153), (89.999999, -179.999999), (-89.99999999, 0.1), (1e-9, -1e-9), (51.5, 180),
            (12.34567890123, -123.45678901234), (-90, 0), (90, 0),
        ] {
            let point = try #require(GeoPoint(latitude: latitude, longitude: longitude))
            let request = ObserveRequest(id: 1, .move(sub: 1, to: .centre(point)))
            guard case .move(_, .centre(let read)) = try ObserveProtocolTests.parse(WireProtocolsTests.text(request.encoded())).get().operation else {
                Issue.record("\(latitude) \(longitude)")
                continue
            }
            #expect(point.metres(to: read) < 1e-4, "\(latitude) \(longitude)")
            #expect(abs(read.latitude - latitude) < 2e-11 && abs(read.longitude - longitude) < 2e-11 / max(1e-9, 1 - latitude.magnitude / 90))
        }
    }
}
