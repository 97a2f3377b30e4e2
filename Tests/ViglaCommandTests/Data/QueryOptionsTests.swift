import ArgumentParser
import JSONTree
import LiveQueries
import TestSupport
import Testing
import ViglaClient
import WireProtocols
@testable import vigla

/// The options of `vigla get` and `vigla watch` that select children.
@Suite(.timeLimit(.minutes(30))) struct QueryOptionsTests {
    /// The REST parameters and the observe query for these arguments.
    private static func asked(_ arguments: [String]) throws -> (rest: [String], observe: Query?) {
        let options = try QueryOptions.parse(arguments)
        return (options.parameters.map { "\($0.name)=\($0.value)" }, options.selection)
    }

    /// The rules decide by the kind and the size of a stored region, which the command does not know.
    @Test func storedRegion_isNotExplained() throws {
        let url = "http://127.0.0.1:9000/p"
        let (stored, box) = (try QueryOptions.parse(["--within", "zones/z1/ring"]), try QueryOptions.parse(["--within", "1,2,3,4"]))
        #expect(stored.hasStoredRegion && !box.hasStoredRegion)
        #expect(stored.caseMembers.isEmpty && box.caseMembers.map(\.name) == ["within", "radius"])
        #expect(throws: (any Error).self) { try RulesExplain.parse([url, "--within", "zones/z1/ring"]) }
        #expect(throws: Never.self) { try RulesExplain.parse([url, "--within", "1,2,3,4"]) }
    }

    @Test func conditionsAndCircles_arePassedOn_inBothProtocols() throws {
        let centre = try #require(GeoPoint(latitude: -33.8568, longitude: 151.2153))
        let cases: [([String], [String], Query)] = [
            (
                ["--where", "status == open", "--where", "rating >= 3"],
                [#"where=[["rating",">=",3],["status","==","open"]]"#],
                try Query(where: Filter([Condition("rating", .above(3, orEqual: true)), Condition("status", .equal("open"))]))
            ),
            (
                ["--where", "name == \"3\"", "--order-by", "at", "--last", "2"],
                [#"orderBy="at""#, #"where=[["name","==","3"]]"#, "limitToLast=2"],
                try Query(TreeQuery(index: .child("at"), limit: 2, viewFrom: .last), where: Filter([Condition("name", .equal("3"))]))
            ),
            (
                ["--near", "-33.8568,151.2153,1000"], [#"near={"lat":-33.8568,"lng":151.2153,"radius":1000}"#],
                try Query(TreeQuery(), near: NearQuery(centre: centre, metres: 1000, limit: nil))
            ),
            (
                ["--near", "-33.8568,151.2153,", "--limit", "5", "--where", "a has b"],
                [#"where=[["a","has","b"]]"#, #"near={"lat":-33.8568,"lng":151.2153}"#, "limitToFirst=5"],
                try Query(
                    TreeQuery(limit: 5, viewFrom: .first), where: Filter([Condition("a", .has("b"))]),
                    near: NearQuery(centre: centre, metres: nil, limit: nil))
            ),
            (
                ["--within", "-34,151,-33,152"], [#"within={"south":-34,"west":151,"north":-33,"east":152}"#],
                try Query(TreeQuery(), within: WithinQuery(text: "[-34,151,-33,152]"))
            ),
            (
                ["--within", "zones/z1/ring", "--limit", "5"], [#"orderBy="$key""#, #"within="zones/z1/ring""#, "limitToFirst=5"],
                try Query(TreeQuery(limit: 5, viewFrom: .first), within: WithinQuery(.stored("zones/z1/ring")))
            ),
            (
                ["--near", "-33.8568,151.2153,9", "--order-by", "rating", "--last", "5"],
                [#"orderBy="rating""#, #"near={"lat":-33.8568,"lng":151.2153,"radius":9}"#, "limitToLast=5"],
                try Query(
                    TreeQuery(index: .child("rating"), limit: 5, viewFrom: .last), near: NearQuery(centre: centre, metres: 9, limit: nil))
            ),
        ]
        for (arguments, rest, live) in cases {
            let found = try Self.asked(arguments)
            #expect(found.rest == rest)
            #expect(found.observe == live, "\(arguments)")
        }
    }

    @Test func optionsWithoutThem_areWhatTheyWere() throws {
        let plain = try Self.asked(["--limit", "2"])
        #expect(plain.rest == [#"orderBy="$key""#, "limitToFirst=2"] && plain.observe?.isPlain == true)
        let none = try Self.asked([])
        #expect(none.rest.isEmpty && none.observe == nil)
    }

    @Test(arguments: [
        (["--where", "rating > three"], "--where 'rating > three': > takes a number, and three is none"),
        (["--where", "status == open and rating > 3"], "--where 'status == open and rating > 3': open and rating > 3 is taken for more than a value"),
        (["--where", "name == \"An"], "the quotes of \"An are not those of a text"),
        (["--where", "status"], "--where 'status': must be a path, an operator and a value"),
        (["--where", "a == 1", "--where", "a ~ 1"], "--where 'a ~ 1': the operator \"~\" is not known"),
        (["--near", "1"], "--near: near must be lat,lng,radius"), (["--near", "1,200,5"], "--near: near.lng must be from -180 to 180"),
        (["--within", "1,2,3"], "--within: within must be south,west,north,east"),
        (["--within", "[[0,0],[1,1],[0,1],[1,0]]"], "--within: within crosses or touches itself"),
        (["--within", "1,2,3,4", "--near", "1,2,3"], "--within and --near exclude each other"),
        (["--shallow", "--within", "1,2,3,4"], "--shallow goes with --limit and --last only"),
        (["--shallow", "--where", "a == 1"], "--shallow goes with --limit and --last only"),
        (["--shallow", "--near", "1,2,3"], "--shallow goes with --limit and --last only"),
    ]) func optionsThatCannotBe_areRefused_withWhatIsWrong(_ arguments: [String], _ text: String) throws {
        let refused = try Command.run(["get", "http://127.0.0.1:1/a"] + arguments)
        #expect(refused.code == 64 && refused.error.contains(text), "\(refused.error)")
    }

    private static let rules = #"""
        {"rules": {".write": true, "open": {".read": true},
          "around": {".read": "query.near && query.radius <= 500 && query.where['kind'] == 'food'", ".geoIndex": {"lat": "lat", "lng": "lng"}},
          "zoned": {".read": "query.within == 'box' && query.radius <= 500", ".geoIndex": {"lat": "lat", "lng": "lng"}},
          "paged": {".read": "query.orderByKey && query.limitToFirst <= 50"}}}
        """#

    private static func hub() throws -> RunningHub {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--rules", try folder.file("rules.json", rules)], folder: folder)
        let places = #"{"a":{"lat":1,"lng":1.002,"kind":"food"},"b":{"lat":1,"lng":1,"kind":"food"},"c":{"lat":1,"lng":1,"kind":"bar"}}"#
        #expect(try Command.run("set", hub.url + "/around", places).code == 0)
        return hub
    }

    @Test func table_ofWhatIsNear_hasTheNearestFirst_andHowFarItIs() throws {
        let hub = try Self.hub()
        let query = ["get", hub.url + "/around", "--near", "1,1,500", "--where", "kind == food"]
        let table = try Command.run(query + ["--format", "table"])
        #expect(table.output.split(separator: "\n").map { $0.split(separator: " ").prefix(2) } == [["key", "metres"], ["b", "0"], ["a", "222.4"]], "\(table)")
        #expect(table.error.isEmpty)
        // By a field, too.
        let byKey = try Command.run(query + ["--order-by", "key", "--format", "table"])
        #expect(byKey.output.split(separator: "\n").map { $0.split(separator: " ").prefix(2) } == [["key", "metres"], ["a", "222.4"], ["b", "0"]], "\(byKey)")
        let hinted = try Command.run(query + ["--order-by", "distance", "--auth", "owner"])
        #expect(hinted.error.contains("--order-by distance is the order by a child of that name. Without --order-by the nearest come first."))
    }

    @Test func missingPoints_areToldWithTheLineOfTheRulesFile() throws {
        let hub = try Self.hub()
        for command in [["get"], ["get", "--format", "table"], ["watch"]] {
            let refused = try Command.run([command[0], hub.url + "/open/reports", "--near", "1,1,500"] + command.dropFirst())
            let line = #"{ "rules": { "open": { "reports": { ".geoIndex": { "lat": "lat", "lng": "lng" } } } } }"#
            #expect(refused.code == 1 && refused.error.contains(line), "\(refused)")
        }
    }

    @Test func refusedQuery_isExplained_byItsForm() throws {
        let hub = try Self.hub()
        let user = try Command.run("token", "mint", "--uid", "ana").output.split(separator: "\n").first.map(String.init) ?? ""
        for (words, advice) in [
            (["/paged"], "Or they allow no read of all of it, but only a query"),
            (["/paged", "--limit", "51"], "Or they allow only queries of another form"),
            (["/around", "--near", "1,1,501", "--where", "kind == food", "--format", "table"], "Or they allow only queries of another form"),
        ] {
            for credential in [[], ["--auth", user]] {
                let refused = try Command.run(["get", hub.url + words[0]] + words.dropFirst() + credential)
                #expect(refused.code == 1 && refused.error.contains(advice), "\(refused)")
            }
        }
        // A request that is not a read has no query.
        let closed = try Command.run("get", hub.url + "/paged", "--limit", "50")
        #expect(closed.code == 0, "\(closed)")
    }

    @Test(arguments: [
        (["/paged"], "denied"), (["/paged", "--limit", "50"], "allowed"), (["/paged", "--limit", "51"], "denied"),
        (["/paged", "--order-by", "score", "--limit", "5"], "denied"), (["/paged", "--last", "5"], "denied"),
        (["/around", "--near", "1,1,500", "--where", "kind == food"], "allowed"),
        (["/around", "--near", "1,1,501", "--where", "kind == food"], "denied"), (["/around", "--near", "1,1,500"], "denied"),
        (["/around", "--near", "1,1,,5", "--where", "kind == food"], "denied"),
        (["/around", "--near", "1,1,500", "--where", "kind == bar"], "denied"),
        (["/zoned", "--within", "1,1,1.005,1.005"], "allowed"), (["/zoned", "--within", "1,1,1.05,1.005"], "denied"),
        (["/zoned", "--within", "[[1,1],[1,1.001],[1.001,1]]"], "denied"), (["/around", "--within", "1,1,1.001,1.001"], "denied"),
        (["/around", "--near", "1,1,500", "--where", "kind == food", "--where", "n > 3", "--limit", "3"], "allowed"),
    ]) func explanationOfAQuery_isTheDecisionAboutIt(_ words: [String], _ decision: String) throws {
        let hub = try Self.hub()
        let explained = try Command.run(["rules", "explain", hub.url + words[0], "--auth", "owner"] + words.dropFirst())
        #expect(explained.code == 0 && explained.output.hasPrefix("\(decision): read \(words[0]) as a signed-out caller"), "\(explained)")
        let asked = try Command.run(["get", hub.url + words[0]] + words.dropFirst())
        #expect((asked.code == 0) == (decision == "allowed"), "\(asked)")
        #expect(try Command.run(["rules", "explain", hub.url + words[0], "--limit", "1", "--write", "1"]).code == 64)
        #expect(try Command.run(["rules", "explain", hub.url + words[0], "--shallow"]).code == 64)
    }
}
