import JSONTree
import SecurityRules
import Testing

/// Places in rule keys: each segment is one name, wildcard or field, and any other syntax is refused at its column.
@Suite(.timeLimit(.minutes(30))) struct PlaceTemplateTests {
    private static let parts = [
        "$id-lead", "lead-$id", "{user}-y", "y-{user}", "{a}{b}", "*-x", "x-*", "**", "$", "$$id", "${user}", "x}", "$i d",
    ]

    /// Each key that takes a place: the rules contain `PLACE` for it; the fault is in its second segment.
    @Test(arguments: [
        #"{"$id":{".removes":"PLACE"}}"#, #"{"$id":{".removes":["x","PLACE"]}}"#, #"{"$id":{".copy":"PLACE"}}"#,
        #"{"$id":{".copy":{"to":"PLACE/$f","each":"friends/$f"}}}"#, #"{"$id":{".copy":{"to":"x/$f","each":"PLACE/$f"}}}"#,
        #"{"$id":{".counts":{"n":"PLACE"}}}"#, #"{"$id":{".inbox":{"to":"PLACE/$u/$id","each":"s/$u","value":1}}}"#,
        #"{"$id":{".inbox":{"to":"i/$u/$id","each":"PLACE/$u","value":1}}}"#, #"{"$id":{".expire":{"at":"1","log":"PLACE","value":1}}}"#,
    ]) func partsOfASegment_areRefused_atTheirColumn(_ rules: String) throws {
        for part in Self.parts {
            let place = rules.contains(".counts") ? "count(of/\(part)/$id)" : "of/\(part)"
            let text = "{\"rules\":{\"a\":\(rules.replacing("PLACE", with: place))}}"
            let found = faults(text)
            let column = try #require(text.firstRange(of: "of/" + part)).lowerBound.utf16Offset(in: text) + 4
            #expect(found.map(\.line) == [1] && found.map(\.column) == [column], "\(text) \(found)")
            #expect(found.first?.message.hasPrefix("'\(part)' is made of parts.") == true, "\(found)")
        }
    }

    @Test(arguments: ["$id", "{user}", "{user/uid}", "x-y", "x y", "a$".replacing("$", with: "_"), "é"])
    func wholeSegments_areTaken(_ part: String) {
        #expect(faults("{\"rules\":{\"a\":{\"$id\":{\".removes\":\"of/\(part)\"}}}}") == [])
    }

    @Test(arguments: ["{*}", "{a/*}", "{$id}", "{a{b}", "{}"]) func valueOfNoChild_isRefused(_ part: String) {
        #expect(faults("{\"rules\":{\"a\":{\"$id\":{\".removes\":\"of/\(part)\"}}}}").map(\.column) == [38])
    }

    /// Names in a patch and in a row are not places.
    @Test(arguments: [
        #"{"at":"1","patch":{"{user}":1}}"#, #"{"at":"1","patch":{"a/{user}/b":1}}"#, #"{"at":"1","patch":{"a":{"{user}":1}}}"#,
        #"{"at":"1","log":"l","value":{"{user}":1}}"#,
    ]) func valueAsAName_isRefused(_ expire: String) {
        #expect(faults("{\"rules\":{\"a\":{\"$id\":{\".expire\":\(expire)}}}}").count == 1)
    }

    /// Rules that an earlier version accepted keep their access rules, without their writes to other places.
    @Test func rulesInForce_holdWithoutSuchPlaces() throws {
        let text = #"""
            {"rules":{".read":true,"a":{"$id":{".removes":["of/$id-lead","of/$id"],".copy":"of/{u}-y/$id",".counts":{"n":"count(of/*-x)"},
              ".inbox":{"to":"i/$u-x/$id","each":"s/$u","value":1}}}}}
            """#
        let rules = try RuleSet(inForce: text)
        #expect(rules.unsupported.count == 4 && rules.allowsRead("/a", root: .null, auth: .null, now: 0))
        let old: Node = ["a": ["x": 1], "of": ["x": 1, "y": 1]]
        let found = try rules.consequences(of: ["/a/x"], old: old, new: ["of": old.child("of")])
        #expect(found.tree == ["of": ["y": 1]])
    }
}
