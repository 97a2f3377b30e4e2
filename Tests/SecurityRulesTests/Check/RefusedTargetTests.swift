import JSONTree
import SecurityRules
import Testing

/// Consequences that the rules would always refuse: `rules check` warns of them, and a refusal names them.
@Suite(.timeLimit(.minutes(30))) struct RefusedTargetTests {
    private static let noOthers = #""$other":{".validate":false}"#

    private static let row = #""p":{"$p":{".inbox":{"to":"i/$u/$p","each":"s/$u","value":{"k":"'new'"}}}},"#

    /// The first words of the warning; nil for no warning.
    @Test(arguments: [
        // a counter next to the allowed names
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"t":{},\#(noOthers)}},"v":{}"#,
            "The counter 'n' is always refused by /e/$e/$other.validate"),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"n":{},\#(noOthers)}},"v":{}"#, nil),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"$other":{".validate":"$other == 'n'"}}},"v":{}"#, nil),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"$other":{".validate":"$other == 'm'"}}},"v":{}"#, "The counter 'n' is always refused"),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"n":{".validate":"newData.isString()"}}},"v":{}"#, "The counter 'n' is always refused"),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"n":{".validate":"newData.val() >= 0 && !newData.hasChildren()"}}},"v":{}"#, nil),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"n":{".validate":"auth.provider == 'hub'"}}},"v":{}"#, nil),
        (#""e":{"$e":{".counts":{"n":"count(v/$e)"},"n":{".validate":"auth.provider == 'password'"}}},"v":{}"#,
            "The counter 'n' is always"),
        (#""e":{"$e":{".validate":"auth.uid == $e",".counts":{"n":"count(v/$e)"}}},"v":{}"#,
            "The counter 'n' is always refused by /e/$e.validate"),
        (#""e":{"$e":{".validate":"newData.hasChildren(['t', 'n'])",".counts":{"n":"count(v/$e)"}}},"v":{}"#, nil),
        (#""e":{"$e":{".validate":"newData.child('n').val() == null",".counts":{"n":"count(v/$e)"}}},"v":{}"#, "The counter 'n' is always"),
        (#""e":{"$e":{".validate":"newRoot.child('e').child($e).child('n').isNumber()",".counts":{"n":"count(v/$e)"}}},"v":{}"#, nil),
        // copies and rows, where any key is refused
        (#""p":{"$p":{".copy":"q/$p"}},"q":{"$q":{".validate":false}}"#, "The copy is always refused by /q/$q.validate"),
        (#""p":{"$p":{".copy":"q/$p"}},"q":{"a":{},"$q":{".validate":false}}"#, nil),
        (#""p":{"$p":{".copy":"q/$p"}},"q":{"a":{".validate":"1 == 2"},"$q":{".validate":false}}"#, "The copy is always refused"),
        (#""p":{"$p":{".copy":"q/$p"}},"q":{"a":{".validate":false}}"#, nil),
        (#""p":{"$p":{".inbox":{"to":"i/$u/$p","each":"s/$u","value":{"k":"'new'","at":"now"}}}},"i":{"$u":{"$p":{"k":{},\#(noOthers)}}}"#,
            "The row is always refused by /i/$u/$p/$other.validate"),
        (#"\#(row)"i":{"$u":{"$p":{".validate":"newData.hasChild('at')"}}}"#,
            "The row is always refused by /i/$u/$p.validate"),
        (#"\#(row)"i":{"$u":{"$p":{"k":{".validate":"newData.isString()"}}}}"#,
            nil),
        (#""p":{"$p":{".inbox":{"to":"i/$u/$p","each":"s/$u","value":{"k":5}}}},"i":{"$u":{"$q":{"k":{".validate":"newData.isString()"}}}}"#,
            "The row is always refused by /i/$u/$q/k.validate"),
        // expiries, removals, defaults
        (#""d":{"$d":{".expire":{"at":"5","patch":{"s":"'late'"}},"s":{".validate":"newData.val() == 'open'"}}}"#,
            "This patch is always refused"),
        (#""d":{"$d":{".expire":{"at":"5","patch":{"s":"'late'"}},"s":{".validate":"newData.val() == 'late'"}}}"#, nil),
        (#""d":{"$d":{".expire":{"at":"5","log":"l","value":{"x":"now"}}}},"l":{"$l":{\#(noOthers)}}"#,
            "This row is always refused by /l/$l/$other"),
        (#""d":{"$d":{".removes":"x/$d/part"}},"x":{"$x":{".validate":"newData.hasChild('part')"}}"#,
            "Where something else remains beside it"),
        (#""d":{"$d":{".removes":"x/$d"}},"x":{"$x":{".validate":"newData.hasChild('part')"}}"#, nil),
        (#""d":{"$d":{"by":{".default":"'x'",".validate":"newData.val() == 'y'"}}}"#,
            "This default is always refused by /d/$d/by.validate"),
        (#""d":{"$d":{"by":{".default":"auth.uid",".validate":"newData.val() == auth.uid"}}}"#, nil),
    ] as [(String, String?)]) func check_warnsOfWhatIsAlwaysRefused(_ places: String, _ warning: String?) throws {
        let warnings = try RuleSet(parsing: "{\"rules\":{\(places),\"w\":{\".write\":\"auth != null\"}}}").warnings
            .map(\.message).filter { !$0.hasPrefix(".validate never runs") }
        #expect(warnings.count == (warning == nil ? 0 : 1), "\(warnings)")
        if let warning { #expect(warnings.first?.hasPrefix(warning) == true, "\(warnings)") }
    }

    @Test func warning_namesBothPlaces() throws {
        let rules = try RuleSet(parsing: """
            {"rules":{"e":{"$e":{".write":true,
              ".counts":{"n":"count(v/$e)"},
              "$other":{".validate":false}}}}}
            """)
        #expect(rules.warnings.map(\.description).last == "2:18: The counter 'n' is always refused by /e/$e/$other.validate (3:25), and "
            + "every write of its node, and of what it counts, with it.")
    }

    /// The warning is right: such a write is refused, and the refusal names the consequence.
    @Test func refusal_namesTheCounter() throws {
        let rules = try RuleSet(parsing: """
            {"rules":{"e":{"$e":{".write":true,".counts":{"n":"count(v/$e)"},"t":{},"$other":{".validate":false}}},
              "v":{"$e":{"$u":{".write":true}}}}}
            """)
        func trace(_ path: Path, _ old: Node, _ new: Node) -> RuleTrace {
            rules.explainWrite([path], old: old, new: new, auth: .null, now: 0, following: ConsequenceLimits())
        }
        let node: Node = ["x": ["t": 1]]
        for trace in [trace("/e/x", .null, ["e": node]), trace("/v/x/u", ["e": node], ["e": node, "v": ["x": ["u": 1]]])] {
            #expect(!trace.isAllowed && trace.refuser == "/e/$e/$other.validate")
            #expect(trace.reason == "/e/$e/$other.validate is not true for /e/x/n, which follows by /e/$e.counts.")
            #expect(trace.description.contains("Validation failed for /e/x/n, which follows by /e/$e.counts."))
        }
        let own = trace("/e/x", .null, ["e": ["x": ["z": 1]]])
        #expect(own.reason == "/e/$e/$other.validate is not true.")
    }
}
