import HTTPTypes
import JSONTree
import LiveQueries
import Testing
@testable import WireProtocols

/// `where=` and `near=` of REST.
@Suite(.timeLimit(.minutes(30))) struct RESTQueryTests {
    /// Requests `/a.json` with parameters that are percent-encoded here.
    private static func ask(_ parameters: [(String, String)]) throws -> Result<RESTRequest, RESTRefusal> {
        let unreserved = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,-".utf8)
        let query = parameters.map { name, value in
            name + "=" + value.utf8.map { byte -> String in
                if unreserved.contains(byte) { return String(UnicodeScalar(byte)) }
                return "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }.joined()
        }.joined(separator: "&")
        let text = "GET /a.json?\(query) HTTP/1.1\r\nHost: h\r\n\r\n"
        let request = try #require(HTTPRequestParser.requests([Array(text.utf8)]).first).get()
        do throws(RESTRefusal) { return .success(try RESTRequest(request)) } catch { return .failure(error) }
    }

    private static let athens = GeoPoint(latitude: 37.975, longitude: 23.735)
    private static let open = Filter([Condition("status", .equal("open"))])

    @Test func queries_areRead() throws {
        let centre = try #require(Self.athens)
        let circle = NearQuery(centre: centre, metres: 1000, limit: nil)
        let cases: [([(String, String)], Query)] = [
            ([("where", #"[["status","==","open"]]"#)], try Query(TreeQuery(index: .key), where: Self.open)),
            ([("where", "status == open")], try Query(TreeQuery(index: .key), where: Self.open)),
            (
                [("where", "status == open, rating >= 3"), ("orderBy", "\"rating\""), ("limitToLast", "5"), ("startAt", "2")],
                try Query(
                    TreeQuery(index: .child("rating"), start: .init(value: 2), limit: 5, viewFrom: .last),
                    where: Filter([Condition("status", .equal("open")), Condition("rating", .above(3, orEqual: true))]))
            ),
            ([("where", "status == open"), ("limitToFirst", "2")],
                try Query(TreeQuery(index: .key, limit: 2, viewFrom: .first), where: Self.open)),
            ([("near", "37.975,23.735,1000")], try Query(TreeQuery(), near: circle)),
            ([("near", #"{"lat":37.975,"lng":23.735,"radius":1000}"#)], try Query(TreeQuery(), near: circle)),
            (
                [("near", "37.975,23.735,1000,20"), ("where", "status == open")],
                try Query(TreeQuery(), where: Self.open, near: NearQuery(centre: centre, metres: 1000, limit: 20))
            ),
            (
                [("near", "37.975,23.735,1000"), ("limitToFirst", "20")],
                try Query(TreeQuery(limit: 20, viewFrom: .first), near: circle)
            ),
            (
                [("near", "37.975,23.735,1000"), ("orderBy", "\"rating\""), ("limitToLast", "3")],
                try Query(TreeQuery(index: .child("rating"), limit: 3, viewFrom: .last), near: circle)
            ),
        ]
        for (parameters, live) in cases {
            let request = try Self.ask(parameters).get()
            #expect(request.query == live, "\(parameters)")
        }
    }

    @Test func requestsWithoutThem_areWhatTheyWere() throws {
        let plain = try Self.ask([("orderBy", "\"n\""), ("limitToFirst", "2")]).get()
        #expect(plain.query == Query(TreeQuery(index: .child("n"), limit: 2, viewFrom: .first)))
        let none = try Self.ask([("print", "pretty")]).get()
        #expect(none.query == nil)
        #expect(try Self.ask([("where", "[]")]).get().query?.isPlain == true)
    }

    @Test(arguments: [
        ([("where", "status")], "where[0]: must be a path, an operator and a value, as status == open"),
        ([("where", "[5]")], #"where[0]: must be [path, operator, value], as ["status","==","open"]"#),
        ([("where", "[[")], "where: is no JSON"), ([("where", "a ~ 5")], #"where[0]: the operator "~" is not known"#),
        ([("near", "1,2")], "near: needs a \"radius\" or a \"limit\""),
        ([("near", "1")], "near: must be lat,lng,radius or lat,lng,radius,limit, as 37.975,23.735,1000, or an object"),
        ([("near", "1,2,3,4,5")], "near: must be lat,lng,radius"), ([("near", "1,2,x")], "near: must be lat,lng,radius"),
        ([("near", "91,2,3")], "near.lat: must be from -90 to 90"), ([("near", "1,2,-3")], "near.radius: must be greater than 0 metres"),
        ([("near", "1,2,3,2000")], "near.limit: must be at most 1000"), ([("near", "1,2,3"), ("limitToFirst", "2000")], "limitToFirst: the nearest"),
        ([("near", "1,2,3"), ("limitToLast", "2")], "near: the farthest cannot be asked for"),
        ([("near", "1,2,3"), ("startAt", "2")], "near: a range needs an \"orderBy\" beside it"),
        ([("near", "1,2,3"), ("shallow", "true")], "Mixing 'shallow' and querying parameters is not supported"),
        ([("where", "a == 1"), ("shallow", "true")], "Mixing 'shallow' and querying parameters is not supported"),
        ([("where", "a == 1"), ("limitToFirst", "1"), ("limitToLast", "1")], "Only one of limitToFirst and limitToLast"),
    ]) func queriesThatCannotBe_areRefused_withWhatIsWrong(_ parameters: [(String, String)], _ text: String) throws {
        guard case .failure(let refusal) = try Self.ask(parameters) else {
            Issue.record("accepted: \(parameters)")
            return
        }
        #expect(refusal.status.code == 400 && refusal.text.hasPrefix(text), "\(refusal.text)")
    }
}
