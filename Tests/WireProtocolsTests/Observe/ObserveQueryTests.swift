import JSONTree
import LiveQueries
import Testing
@testable import WireProtocols

/// The member `query` of the observe protocol.
@Suite(.timeLimit(.minutes(30))) struct ObserveQueryTests {
    private static func operation(_ query: String) throws -> ObserveOperation {
        try ObserveProtocolTests.parse(#"{"id":1,"op":"get","path":"a","query":\#(query)}"#).get().operation
    }

    /// Each is decoded, and encoded by a client to exactly this text.
    private static let queries: [(String, TreeQuery)] = [
        (#"{"orderBy":"$key","limitToLast":50}"#, TreeQuery(index: .key, limit: 50, viewFrom: .last)),
        (#"{"orderBy":"$value"}"#, TreeQuery(index: .value)), (#"{"orderBy":"$priority"}"#, TreeQuery(index: .priority)),
        (
            #"{"orderBy":"a/b","startAt":5,"limitToFirst":1}"#,
            TreeQuery(index: .child("a/b"), start: .init(value: 5, inclusive: true), limit: 1, viewFrom: .first)),
        (
            #"{"orderBy":"t","startAfter":5,"endBefore":"x"}"#,
            TreeQuery(
                index: .child("t"), start: .init(value: 5, key: "[MAX_NAME]", inclusive: false),
                end: .init(value: "x", key: "[MIN_NAME]", inclusive: false))),
        (
            #"{"orderBy":"t","startAfter":[null,"k"],"endAt":[true,"l"]}"#,
            TreeQuery(
                index: .child("t"), start: .init(value: .null, key: "k", inclusive: false),
                end: .init(value: true, key: "l", inclusive: true))),
        (
            #"{"orderBy":"t","equalTo":1.5}"#,
            TreeQuery(index: .child("t"), start: .init(value: 1.5, inclusive: true), end: .init(value: 1.5, inclusive: true))),
        (
            #"{"orderBy":"$key","startAfter":"k","endBefore":"k"}"#,
            TreeQuery(index: .key, start: .init(value: "k", inclusive: false), end: .init(value: "k", inclusive: false))),
    ]

    @Test func queries_areReadAndWritten() throws {
        for (text, query) in Self.queries {
            let request = ObserveRequest(id: 1, .get(path: "a", query: Query(query)))
            #expect(try Self.operation(text) == request.operation, "\(text)")
            #expect(WireProtocolsTests.text(request.encoded()) == #"{"id":1,"op":"get","path":"a","query":\#(text)}"#)
            let observe = ObserveRequest(id: 1, .observe(path: "a", events: [.added, .moved], query: Query(query)))
            #expect(try ObserveProtocolTests.parse(WireProtocolsTests.text(observe.encoded())).get() == observe)
        }
    }

    @Test func order_isByKey_unlessItIsNamed_andAllOfItIsThePlace() throws {
        #expect(try Self.operation(#"{"limitToFirst":2}"#) == .get(
            path: "a", query: Query(TreeQuery(index: .key, limit: 2, viewFrom: .first))))
        #expect(try Self.operation("{}") == .get(path: "a"))
        #expect(try Self.operation(#"{"orderBy":"$key"}"#) == .get(path: "a"))
    }

    @Test func queriesThatMeanNothing_areRefused_withTheirMember() throws {
        let cases: [(String, ObserveCode, String)] = [
            ("5", .badRequest, "query"), ("null", .badRequest, "query"), (#"{"orderBy":5}"#, .badRequest, "query.orderBy"),
            (#"{"orderBy":"a#"}"#, .badRequest, "query.orderBy"), (#"{"orderBy":""}"#, .badRequest, "query.orderBy"),
            (#"{"limitToFirst":0}"#, .badRequest, "query.limitToFirst"), (#"{"limitToLast":"2"}"#, .badRequest, "query.limitToLast"),
            (#"{"limitToLast":1.5}"#, .badRequest, "query.limitToLast"),
            (#"{"limitToFirst":1,"limitToLast":1}"#, .badRequest, "query.limitToLast"),
            (#"{"startAt":"a","startAfter":"b"}"#, .badRequest, "query.startAfter"),
            (#"{"endAt":"a","endBefore":"b"}"#, .badRequest, "query.endBefore"),
            (#"{"equalTo":"a","endBefore":"b"}"#, .badRequest, "query.endBefore"),
            (#"{"startAt":5}"#, .badRequest, "query.startAt"), (#"{"startAt":["a","b"]}"#, .badRequest, "query.startAt"),
            (#"{"orderBy":"t","startAt":{}}"#, .badRequest, "query.startAt"),
            (#"{"orderBy":"t","startAt":[]}"#, .badRequest, "query.startAt"),
            (#"{"orderBy":"t","startAt":[1]}"#, .badRequest, "query.startAt"),
            (#"{"orderBy":"t","startAt":[1,2]}"#, .badRequest, "query.startAt"),
            (#"{"orderBy":"t","startAt":[1,"k",2]}"#, .badRequest, "query.startAt"),
            (#"{"orderBy":"t","startAt":[{},"k"]}"#, .badRequest, "query.startAt"),
            (#"{"limitToFirst":1,"limitToFirst":2}"#, .badRequest, "query.limitToFirst"),
            (#"{"who":[["a","==",1]]}"#, .notSupported, "query.who"),
        ]
        for (query, code, member) in cases {
            guard case .invalid(let fault) = try Self.operation(query) else { Issue.record("\(query)"); continue }
            #expect(fault.code == code && fault.member == member, "\(query): \(fault)")
        }
        let set = #"{"id":1,"op":"set","path":"a","value":1,"query":{}}"#
        guard case .invalid(let fault) = try ObserveProtocolTests.parse(set).get().operation else { return #expect(Bool(false)) }
        #expect(fault.member == "query")
    }
}
