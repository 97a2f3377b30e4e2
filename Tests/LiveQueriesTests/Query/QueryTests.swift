import JSONTree
import Testing

@testable import LiveQueries

struct QueryValueTests {
    private func near(_ json: String, _ limits: NearLimits = NearLimits()) throws -> NearQuery {
        try NearQuery(JSONValue(Array(json.utf8)), limits: limits)
    }

    @Test(arguments: [
        (#"5"#, "near: must be an object, as {\"lat\":37.9,\"lng\":23.7,\"radius\":1000}"),
        (#"{"lat":1}"#, "near: \"lng\" is missing"),
        (#"{"lat":"1","lng":2}"#, "near.lat: must be a number"),
        (#"{"lat":91,"lng":2}"#, "near.lat: must be from -90 to 90"),
        (#"{"lat":9,"lng":-181}"#, "near.lng: must be from -180 to 180"),
        (#"{"lat":9,"lng":8,"radius":0}"#, "near.radius: must be greater than 0 metres"),
        (#"{"lat":9,"lng":8,"radius":null}"#, "near.radius: must be a number"),
        (#"{"lat":9,"lng":8,"limit":0}"#, "near.limit: must be an integer greater than 0"),
        (#"{"lat":9,"lng":8,"limit":2.5}"#, "near.limit: must be an integer greater than 0"),
        (#"{"lat":9,"lng":8,"metres":2}"#, "near: has no member \"metres\""),
    ])
    func near_namesTheMember_andWhatIsWrong(_ json: String, _ message: String) {
        #expect(#expect(throws: QueryFault.self) { try near(json) }?.description == message)
    }

    @Test func nearest_admitsTheLimit_andRefusesOneMore() throws {
        var limits = NearLimits()
        limits.nearest = 5
        #expect(try near(#"{"lat":1,"lng":2,"limit":5}"#, limits).limit == 5)
        #expect(#expect(throws: QueryFault.self) { try near(#"{"lat":1,"lng":2,"limit":6}"#, limits) }?.reason == .tooBig)
    }

    @Test func query_refusesWhatCannotStandTogether() throws {
        let circle = try near(#"{"lat":1,"lng":2,"radius":100}"#)
        let nearest = try near(#"{"lat":1,"lng":2,"limit":3}"#)
        let all = try near(#"{"lat":1,"lng":2}"#)
        func member(_ tree: TreeQuery, _ near: NearQuery) -> String? {
            do throws(QueryFault) {
                _ = try Query(tree, near: near)
                return nil
            } catch { return error.member }
        }
        #expect(member(TreeQuery(), circle) == nil)
        #expect(member(TreeQuery(limit: 3), all) == nil)
        #expect(member(TreeQuery(), all) == "near")
        #expect(member(TreeQuery(limit: 3, viewFrom: .last), circle) == "near")
        #expect(member(TreeQuery(start: TreeQuery.Bound(value: 3)), circle) == "near")
        #expect(member(TreeQuery(index: .value, limit: 3), circle) == nil)
        #expect(member(TreeQuery(index: .value), nearest) == "near.limit")
        #expect(member(TreeQuery(index: .value), all) == "near")
    }

    @Test func queries_areEqual_whenTheySayTheSame() throws {
        let bound = TreeQuery.Bound(value: 3)
        let written = TreeQuery.Bound(value: 3, inclusive: true)
        let filter = Filter([Condition("a", .equal(1))])
        #expect(
            try Query(TreeQuery(start: bound, limit: 3), where: filter)
                == Query(TreeQuery(index: .priority, start: written, limit: 3, viewFrom: .first), where: filter))
        #expect(try Query(TreeQuery(index: .key, viewFrom: .last), where: filter) == Query(TreeQuery(index: .key), where: filter))
        #expect(try Query(where: filter) != Query())
        #expect(
            try Query(TreeQuery(limit: 3), near: near(#"{"lat":1,"lng":180}"#))
                == Query(TreeQuery(), near: near(#"{"lat":1,"lng":-180,"limit":3}"#)))
    }
}
