import ArgumentParser
import JSONTree
import LiveQueries
import TestSupport
import Testing
import ViglaClient
import WireProtocols
@testable import vigla

/// The options of `vigla get` and `vigla watch` that choose children.
@Suite(.timeLimit(.minutes(30))) struct QueryOptionsTests {
    /// What REST is asked, and the observe protocol.
    private static func asked(_ arguments: [String]) throws -> (rest: [String], observe: ObserveQuery?) {
        let options = try QueryOptions.parse(arguments)
        return (options.parameters.map { "\($0.name)=\($0.value)" }, options.selection)
    }

    @Test func conditionsAndCircles_arePassedOn_inBothProtocols() throws {
        let centre = try #require(GeoPoint(latitude: -33.8568, longitude: 151.2153))
        let cases: [([String], [String], LiveQuery)] = [
            (
                ["--where", "status == open", "--where", "rating >= 3"],
                [#"where=[["rating",">=",3],["status","==","open"]]"#],
                try LiveQuery(where: Filter([Condition("rating", .above(3, orEqual: true)), Condition("status", .equal("open"))]))
            ),
            (
                ["--where", "name == \"3\"", "--order-by", "at", "--last", "2"],
                [#"orderBy="at""#, #"where=[["name","==","3"]]"#, "limitToLast=2"],
                try LiveQuery(TreeQuery(index: .child("at"), limit: 2, viewFrom: .last), where: Filter([Condition("name", .equal("3"))]))
            ),
            (
                ["--near", "-33.8568,151.2153,1000"], [#"near={"lat":-33.8568,"lng":151.2153,"radius":1000}"#],
                try LiveQuery(TreeQuery(), near: NearQuery(centre: centre, metres: 1000, limit: nil))
            ),
            (
                ["--near", "-33.8568,151.2153,", "--limit", "5", "--where", "a has b"],
                [#"where=[["a","has","b"]]"#, #"near={"lat":-33.8568,"lng":151.2153}"#, "limitToFirst=5"],
                try LiveQuery(
                    TreeQuery(limit: 5, viewFrom: .first), where: Filter([Condition("a", .has("b"))]),
                    near: NearQuery(centre: centre, metres: nil, limit: nil))
            ),
            (
                ["--near", "-33.8568,151.2153,9", "--order-by", "rating", "--last", "5"],
                [#"orderBy="rating""#, #"near={"lat":-33.8568,"lng":151.2153,"radius":9}"#, "limitToLast=5"],
                try LiveQuery(
                    TreeQuery(index: .child("rating"), limit: 5, viewFrom: .last), near: NearQuery(centre: centre, metres: 9, limit: nil))
            ),
        ]
        for (arguments, rest, live) in cases {
            let found = try Self.asked(arguments)
            #expect(found.rest == rest)
            #expect(found.observe?.live == live, "\(arguments)")
        }
    }

    @Test func optionsWithoutThem_areWhatTheyWere() throws {
        let plain = try Self.asked(["--limit", "2"])
        #expect(plain.rest == [#"orderBy="$key""#, "limitToFirst=2"] && plain.observe?.live == nil)
        let none = try Self.asked([])
        #expect(none.rest.isEmpty && none.observe == nil)
    }

    @Test(arguments: [
        (["--where", "status"], "--where 'status': must be a path, an operator and a value"),
        (["--where", "a == 1", "--where", "a ~ 1"], "--where 'a ~ 1': the operator \"~\" is not known"),
        (["--near", "1"], "--near: near must be lat,lng,radius"), (["--near", "1,200,5"], "--near: near.lng must be from -180 to 180"),
        (["--shallow", "--where", "a == 1"], "--shallow goes with --limit and --last only"),
        (["--shallow", "--near", "1,2,3"], "--shallow goes with --limit and --last only"),
    ]) func optionsThatCannotBe_areRefused_withWhatIsWrong(_ arguments: [String], _ text: String) throws {
        let refused = try Command.run(["get", "http://127.0.0.1:1/a"] + arguments)
        #expect(refused.code == 64 && refused.error.contains(text), "\(refused.error)")
    }
}
