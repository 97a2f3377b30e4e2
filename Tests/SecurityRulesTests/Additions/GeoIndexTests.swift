import JSONTree
import SecurityRules
import Testing

/// `.geoIndex`: which fields hold the position of a place's children.
@Suite(.timeLimit(.minutes(30))) struct GeoIndexTests {
    @Test func places_areFound_throughLiteralsAndWildcards() throws {
        let rules = try RuleSet(
            parsing: #"""
                {"rules":{
                  "reports":{".geoIndex":{"lat":"position/latitude","lng":"/position/longitude/"}},
                  "live":{"$u":{".indexOn":"at",".geoIndex":{"lat":"lat","lng":"lng","filter":["kind","at"],"order":["rating","kind"]}}}}}
                """#)
        let reports = try #require(rules.geoIndex(at: "/reports"))
        #expect(reports == ("position/latitude", "position/longitude"))
        let live = try #require(rules.geoIndex(at: "/live/ana"))
        #expect(live == ("lat", "lng"))
        #expect(rules.geoIndex(at: "/live") == nil && rules.geoIndex(at: "/") == nil && rules.geoIndex(at: "/reports/r") == nil)
        // The other fields become indexes as if named in .indexOn, each once.
        #expect(rules.indexes(at: "/live/ana") == ["at", "kind", "rating"] && rules.indexes(at: "/reports") == [])
        #expect(rules.unsupported.isEmpty && rules.warnings.filter { $0.message.contains("no path") }.isEmpty)
    }

    private static let form = "A '.geoIndex' names the places of a position: {\"lat\": \"position/latitude\", \"lng\": \"position/longitude\"}."
    private static let path = "is a path below each child, such as \"position/latitude\"."

    @Test(arguments: [
        (#"5"#, ["1:23: \(form)"]), (#""lat""#, ["1:23: \(form)"]), (#"["a","b"]"#, ["1:23: \(form)"]), ("null", ["1:23: \(form)"]),
        (#"{}"#, ["1:23: A '.geoIndex' has a 'lat'.", "1:23: A '.geoIndex' has a 'lng'."]),
        (#"{"lat":"a"}"#, ["1:23: A '.geoIndex' has a 'lng'."]), (#"{"lat":5,"lng":"b"}"#, ["1:30: 'lat' \(path)"]),
        (#"{"lat":"a","lng":""}"#, ["1:40: 'lng' \(path)"]), (#"{"lat":"a.b","lng":"$x"}"#, ["1:30: 'lat' \(path)", "1:42: 'lng' \(path)"]),
        (#"{"lat":"a","lng":"b","lat":"c"}"#, ["1:44: Duplicate key 'lat'."]),
        (#"{"lat":"a","lng":"b","radius":5}"#, ["1:44: A '.geoIndex' has no 'radius'."]),
        (#"{"lat":"a","lng":"b","filter":"s"}"#, ["1:53: 'filter' is a list of paths below each child."]),
        (#"{"lat":"a","lng":"b","order":["s",5]}"#, ["1:57: 'order' is a list of paths below each child."]),
        (#"{"lat":"a","lng":"b","filter":["s","types/*"]}"#, []),
    ]) func faults_areToldAtTheirPlace(_ value: String, _ expected: [String]) {
        #expect(faults("{\"rules\":{\".geoIndex\":\(value)}}").map(\.description) == expected)
    }
}
