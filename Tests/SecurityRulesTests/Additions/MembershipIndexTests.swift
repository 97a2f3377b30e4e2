import JSONTree
import SecurityRules
import Testing

/// `".indexOn": ["types/*"]`: an index for each member of a set.
@Suite(.timeLimit(.minutes(30))) struct MembershipIndexTests {
    @Test func members_areDeclared_andNothingElse() throws {
        let rules = try RuleSet(
            parsing: #"""
                {"rules":{"p":{".indexOn":["types/*","types/bar","a/b/*",".value"]},"s":{".indexOn":"*"},
                  "n":{".geoIndex":{"lat":"x","lng":"y","filter":["kinds/*"]}}}}
                """#)
        for (place, name, expected) in [
            ("p", "types/cafe", .asMember), ("p", "types/bar", .byName), ("p", "types", nil), ("p", "types/cafe/x", nil),
            ("p", "cafe", nil), ("p", "a/b/c", .asMember), ("p", "a/c", nil), ("p", ".value", .byName), ("p", "types/*", .byName),
            ("s", "cafe", .asMember), ("s", "a/b", nil), ("s", ".value", nil), ("n", "kinds/k", .asMember), ("q", "types/cafe", nil),
        ] as [(Path, String, RuleSet.IndexDeclaration?)] {
            #expect(rules.declaresIndex(name, at: place) == expected, "\(place) \(name)")
        }
        #expect(rules.warnings.isEmpty && rules.unsupported.isEmpty)
    }

    @Test func check_warnsOfAStarElsewhere() throws {
        let found = try RuleSet(parsing: #"{"rules":{"p":{".indexOn":["a/*/b","types/*"]}}}"#).warnings.map(\.message)
        #expect(found == [#".indexOn "a/*/b": a * stands for the members of a set, at the end: "types/*"."#])
    }
}
