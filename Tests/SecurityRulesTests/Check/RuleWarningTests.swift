import JSONTree
import SecurityRules
import Testing

/// Warnings of `vigla rules check` for accepted files, and its suggestions for refused ones.
@Suite(.timeLimit(.minutes(30))) struct RuleWarningTests {
    struct Row: Sendable {
        let rules: String
        let warnings: [String]
        init(_ rules: String, _ warnings: String...) { (self.rules, self.warnings) = (rules, warnings) }
    }

    @Test(arguments: [
        Row(#"{"a":{".read":true}}"#),
        Row(#"{".read":true}"#, "1:19: .read at the root hands out everything"),
        Row(#"{".write":"1 == 1"}"#, "1:20: .write at the root hands out everything"),
        Row(#"{"a":{".read":false,".write":"false"}}"#),
        Row(#"{"a":{".read":true,"b":{".read":false}}}"#, "1:42: .read changes nothing"),
        Row(#"{"a":{".write":"auth != null && false"}}"#),
        Row(#"{"a":{".write":"false && auth != null"}}"#, "1:25: .write never grants"),
        Row(#"{"a":{".read":true,"b":{".read":"auth != null"}}}"#, "1:42: .read changes nothing"),
        Row(#"{"$a":{".read":"$a == 1"}}"#, "1:26: A string never equals a number"),
        Row(#"{"$a":{".read":"$a != 1"}}"#, "1:26: A string never equals a number: this is always true"),
        Row(#"{"$a":{".read":"now < $a"}}"#, "1:26: A number and a string cannot be ordered"),
        Row(#"{"$a":{".read":"auth != null"}}"#),
        Row(#"{"$a":{"b":{".read":"auth.uid == $a"}}}"#),
        Row(#"{"$_a":{".read":"auth != null"},"b":{"$other":{".write":"auth != null"}}}"#),
        Row(#"{"$a":{}}"#),
        Row(#"{"a":{".write":"auth != null","$a":{".removes":{"to":"b/$a","if":"auth.uid == $a"}}}}"#, "1:75: 'auth' is the hub here"),
        Row(
            #"{"a":{".write":"auth != null","$a":{".inbox":{"to":"b/$u/$a","each":"c/$u","not":"auth.uid","value":{"x":"auth.uid","y":"$a"}}}}}"#,
            "1:91: 'auth' is the hub here", "1:115: 'auth' is the hub here"),
        Row(#"{"a":{"read":{}}}"#, "1:23: 'read' is a child of this name: did you mean '.read'?"),
        Row(#"{"a":{".read":"auth.ui == 'x'"}}"#, "1:25: auth has uid, provider and token; auth.ui is null. Did you mean 'uid'?"),
        Row(
            #"{"a":{".read":"auth.email == 'x'"}}"#,
            "1:25: auth has uid, provider and token; auth.email is null. Claims are in auth.token."),
        Row(#"{"a":{".validate":"newData.exists()"}}"#, "1:28: .validate never runs"),
        Row(#"{"a":{".validate":"newData.exists()","b":{".write":"auth != null"}}}"#),
        Row(#"{"e":{"$d":{"$e":{".write":"auth != null"}}},"d":{"$d":{".counts":{"c":"count(e/$d)"},"c":{".validate":"newData.isNumber()"}}}}"#),
        Row(#"{"e":{"$e":{".write":"auth != null",".copy":"d/$e"}},"d":{"$d":{".validate":"newData.exists()","x":{".validate":"newData.exists()"}}}}"#),
        Row(
            #"{"e":{"$e":{".write":"auth != null",".copy":"d/$e"}},"f":{"$d":{".validate":"newData.exists()"}}}"#,
            "1:86: .validate never runs"),
        Row(#"{"a":{".write":"auth != null","b":{".validate":"newData.exists()"}}}"#),
        Row(#"{"a":{".indexOn":["k","k"]}}"#, #"1:27: .indexOn "k": stands there twice."#),
        Row(#"{"a":{".indexOn":".key"}}"#, #"1:27: .indexOn ".key": keys are always in order"#),
        Row(#"{"a":{".indexOn":"$k/b"}}"#, #"1:27: .indexOn "$k/b": is no path of a child"#),
        Row(#"{"a":{".indexOn":"/b/"}}"#, #"1:27: .indexOn "/b/": is better written as "b"."#),
        Row(#"{"a":{".indexOn":"name","name":{}}}"#, #"1:27: .indexOn "name": is a child of this very place"#),
        Row(#"{"a":{".indexOn":[".value",".priority","a/b"]}}"#),
        Row(#"{"a":{".geoIndex":{"lat":"p/lat","lng":"p/lng","filter":["s"],"order":["r","p/lat"]}}}"#),
        Row(#"{"a":{".geoIndex":{"lat":"p","lng":"p"}}}"#, #"1:28: .geoIndex: "lat" and "lng" are the same place."#),
        Row(#"{"a":{".geoIndex":{"lat":"lat","lng":"lng"},"lat":{},"lng":{}}}"#, #"1:28: .geoIndex "lat": is a child of this very place."#),
        Row(#"{"a":{".geoIndex":{"lat":"lat","lng":"lng"},"$x":{"lat":{},"lng":{}}}}"#),
        Row(
            #"{"a":{".indexOn":["s","k"],".geoIndex":{"lat":"x","lng":"y","filter":["s","s","k"],"order":["$k","s"]}}}"#,
            #"1:84: .geoIndex "s": stands there twice."#, #"1:102: .geoIndex "$k": is no path of a child"#),
        Row(
            #"{"a":{".write":"auth != null","message":{".validate":"newData.isString()"},"count":{},"copy":{"$x":{}},"#
                + #""read":{"$u":{".validate":"newData.isString()"}},"expire":{".validate":true}}}"#),
        Row(
            #"{"a":{".read":"query.radius <= 5 || auth != null",".geoIndex":{"lat":"x","lng":"y"}}}"#,
            "1:25: query.radius is null where only the nearest are asked for, and without near and within: the whole rule fails then"),
        Row(
            #"{"a":{".read":"(!(query.limit > 50 && query.limit > 60) && query.limit < 100) || auth != null"}}"#,
            "1:28: query.limit is null without a limit: the whole rule fails then"),
        Row(
            #"{"a":{".read":"(query.limit <= 5 ? query.limit >= 1 : query.limit > 50) || auth != null"}}"#,
            "1:26: query.limit is null without a limit: the whole rule fails then"),
        Row(#"{"a":{".read":"auth != null || query.radius <= 5",".geoIndex":{"lat":"x","lng":"y"}}}"#),
        Row(#"{"a":{".read":"(query.radius != null && query.radius <= 5) || auth != null",".geoIndex":{"lat":"x","lng":"y"}}}"#),
        Row(#"{"a":{".read":"(query.near && query.limit <= 5) || auth != null"}}"#, "1:40: query.limit is null without a limit"),
        Row(#"{"a":{".read":"(query.limitToFirst == 5 && query.limitToFirst <= 9) || auth != null"}}"#),
        Row(#"{"a":{".read":"auth == null || query.limit < 5 || now > 9"}}"#, "1:41: query.limit is null without a limit"),
        Row(#"{"a":{".read":"(query.near ? query.limit <= 5 : false) || auth != null"}}"#, "1:39: query.limit is null without a limit"),
        Row(#"{"a":{".read":"(query.limit == null || query.limit <= 5) || auth != null"}}"#),
        Row(#"{"a":{".read":"(query.limit != 5 && query.limit <= 9) || auth != null"}}"#, "1:46: query.limit is null without a limit"),
        Row(
            #"{"a":{".read":"auth != null",".geoIndex":{"lat":"x","lng":"y"},".count":{"radius":1000,"least":5}}}"#,
            "1:24: .read lets users without a name see what .count hides"),
        Row(#"{"a":{".read":"auth.provider == 'x'",".geoIndex":{"lat":"x","lng":"y"},".count":{"radius":1000,"least":5}}}"#),
        Row(#"{"a":{".write":"auth != null",".rate":{"perSecond":1,"burst":1},"rate":{}}}"#),
        Row(#"{"a":{".rate":{"perSecond":1,"burst":1},"b":{"$c":{".write":"auth != null"}}}}"#),
        Row(#"{"a":{".read":"auth != null",".rate":{"perSecond":1,"burst":1}}}"#, "1:47: .rate counts nothing: no .write"),
        Row(
            #"{"a":{".write":"auth != null",".rate":{"perSecond":2,"burst":5},"b":{".rate":{"perSecond":2,"burst":5}}}}"#,
            "1:87: .rate never refuses: one above"),
        Row(#"{"a":{".write":"auth != null",".rate":{"perSecond":2,"burst":5},"b":{".rate":{"perSecond":1,"burst":9}}}}"#),
        Row(#"{"a":{".write":"auth != null",".rate":{"perSecond":2,"burst":5},"b":{".rate":{"perSecond":9,"burst":1}}}}"#),
        Row(#"{"a":{".read":"query.near && query.radius <= 5"}}"#, "1:39: query.radius is always null here"),
        Row(#"{"a":{".read":"query.within == 'box'"}}"#, "1:25: query.within is always null here"),
        Row(#"{"a":{".read":"query.near && query.radius <= 5",".geoIndex":{"lat":"x","lng":"y"}}}"#),
        Row(
            #"{"a":{".geoIndex":{"lat":"x","lng":"y"},"b":{".read":"query.radius != null"},".read":"query.radius != null"}}"#,
            "1:64: query.radius is always null here"),
    ]) func file_isWarnedOf(_ row: Row) throws {
        let text = "{\"rules\":" + row.rules + "}"
        let warnings = try RuleSet(parsing: text).warnings
        #expect(warnings.count == row.warnings.count, "\(warnings)")
        for (warning, expected) in zip(warnings, row.warnings) { #expect(warning.description.hasPrefix(expected), "\(warning)") }
    }

    @Test(arguments: [
        (#"{"a":{"read":"auth != null"}}"#, "did you mean '.read'?"), (#"{"a":{"counts":{"n":"count(b)"}}}"#, "did you mean '.counts'?"),
        (#"{"a":{"rate":{"perSecond":5}}}"#, "did you mean '.rate'?"), (#"{"a":{"$x":"true"}}"#, nil), (#"{"a":{"b":{"n":5}}}"#, nil),
        (#"{".raed":true}"#, "did you mean '.read'?"),
        (#"{".expires":"1"}"#, "did you mean '.expire'?"), (#"{".geo":1}"#, "unknown key '.geo'"),
        (#"{".indexon":["a"]}"#, "did you mean '.indexOn'?"), (#"{".read":"dta.exists()"}"#, "did you mean 'data'?"),
        (#"{".write":"newdata.exists()"}"#, "did you mean 'newData'?"),
        (#"{"$user":{".read":"auth.uid == $usr"}}"#, "did you mean '$user'?"),
        (#"{".read":"data.exist()"}"#, "did you mean 'exists'?"), (#"{".read":"data.val().beginWith('a')"}"#, "did you mean 'beginsWith'?"),
        (#"{".read":"query.wher.a == 1"}"#, "did you mean 'where'?"),
        (#"{".geoIndex":{"lat":"a","lgn":"b","lng":"b"}}"#, "did you mean 'lng'?"),
        (#"{".geoindex":{}}"#, "did you mean '.geoIndex'?"),
        (#"{".read":"query.orderByChlid == 'a'"}"#, "did you mean 'orderByChild'?"),
    ] as [(String, String?)]) func slip_isRefused_withASuggestion(_ rules: String, _ hint: String?) {
        let errors = faults("{\"rules\":" + rules + "}")
        #expect(errors.map(\.hint) == [hint])
        #expect(!errors.contains { $0.description.contains("mean") })
    }

    @Test(arguments: ["zzzzzz.exists()", "data.frobnicate()"]) func unknownName_hasNoSuggestion_whenNothingIsNear(_ expression: String) {
        #expect(faults("{\"rules\":{\".read\":\(quoted(expression))}}").map(\.hint) == [nil])
    }

    /// Whether a rule is reported because both sides of an `==` can be missing.
    @Test(arguments: [
        ("root.child('owner').val() == auth.uid", true), ("auth.uid == root.child('owner').val()", true),
        ("auth != null && root.child('owner').val() == auth.uid", false),
        ("auth.uid != null && data.child('owner').val() == auth.uid", false),
        ("data.exists() && data.child('owner').val() == auth.uid", true),
        ("data.child('owner').exists() && data.child('owner').val() == auth.uid", false),
        ("data.hasChild('o/p') && data.child('o').child('p').val() == auth.uid", false),
        ("data.child('owner').isString() && data.child('owner').val() == auth.uid", false),
        ("data.child('owner').val('') == auth.uid", false), ("auth.uid == $k", false), ("data.val() == 'open'", false),
        ("root.child('tenant').val() == auth.token.tenant", true),
        ("auth != null && root.child('tenant').val() == auth.token.tenant", true),
        ("auth.token.tenant != null && root.child('tenant').val() == auth.token.tenant", false),
        ("auth.token.tenant.length > 0 && root.child('tenant').val() == auth.token.tenant", false),
        ("root.child('of').child(auth.uid).val() == auth.token.group", true), ("root.child('of').child(auth.uid).val() == auth.uid", false),
        ("auth != null && data.child('owner').val() == auth.token.sub", false), ("data.child('a').val() == data.child('b').val()", false),
        ("auth.provider == 'password' && data.val() == auth.uid", false),
        ("data.val() == auth.uid ? auth.token.admin == true : false", false),
        ("!(data.val() == auth.uid)", false), ("query.orderByChild == 'own' && query.equalTo == auth.uid", true),
        ("auth != null && query.orderByChild == 'own' && query.equalTo == auth.uid", false),
        ("query.where.owner == auth.uid", true), ("auth != null && query.where.owner == auth.uid", false),
        ("query.where.owner != null && query.where.owner == auth.uid", false), ("query.where.a == query.where.b", false),
        // The same place, however it is named, and children that are checked together.
        ("root.child('of/' + auth.uid).val() != null && root.child('of/' + auth.uid).val() == auth.token.group", false),
        ("root.child('of/' + auth.uid).val() == auth.token.group", true),
        ("root.child(data.child('t').val()).val() != null && root.child(data.child('t').val()).val() == auth.token.t", false),
        ("root.child($k.toLowerCase()).exists() && root.child($k.toLowerCase()).val() == auth.token.t", false),
        ("data.hasChildren(['owner', 'x']) && data.child('owner').val() == auth.uid", false),
        ("data.hasAny(['owner']) && data.child('owner').val() == auth.uid", false),
        ("data.hasAny(['other', 'owner']) && data.child('owner').val() == auth.uid", true),
        ("data.hasChildren(['other']) && data.child('owner').val() == auth.uid", true),
        // Another branch grants anyway, or this one never does.
        ("!data.exists() || data.val() == auth.uid", false),
        ("data.child('o').val() == auth.uid || (data.hasChild('p') || auth.token.t.length > 5)", true),
        ("root.child(auth.token.x).val() == auth.uid || data.child('y').exists()", false),
        ("!data.exists() || (auth != null && data.child('c').val() == auth.uid)", false),
        ("data.child('public').val() == true || data.child('owner').val() == auth.uid", true),
        ("(data.child('x').val() == null && auth.uid == data.child('owner').val()) || data.child('y').exists()", true),
        ("data.child('y').exists() || (root.child(auth.uid).exists() && data.child('owner').val() == auth.uid)", false),
        ("$k == 'z' ? false : data.child('owner').val() == auth.uid", true),
        ("isOwner(data)", true), ("auth != null && isOwner(data)", false), ("isOwner(data.child('x'))", true),
    ]) func missingSides_areWarnedOf_whereTheRuleThenGrants(_ expression: String, _ isWarned: Bool) throws {
        let functions = expression.contains("isOwner") ? #""functions":{"isOwner(x)":"x.child('owner').val() == auth.uid"},"# : ""
        let rules = try RuleSet(parsing: "{\(functions)\"rules\":{\"$k\":{\".read\":\(quoted(expression))}}}")
        let warnings = rules.warnings
        #expect(warnings.count == (isWarned ? 1 : 0), "\(warnings)")
        #expect(warnings.allSatisfy { $0.message.hasPrefix("Both sides of this == can be missing") })
        // Such a rule does grant access where nothing is stored: to an anonymous caller, or to a user without claims.
        let query = QueryVariables(orderByChild: "own")
        let grants = [Node.null, ["uid": "u", "provider": "x", "token": ["sub": "u"]]].contains {
            rules.allowsRead("/k", root: ["k": ["other": 1]], auth: $0, now: 0, query: query)
        }
        if isWarned { #expect(grants) }
    }

    @Test func nullField_inAFunction_isWarnedOfWhereTheAlternativeCallsIt() throws {
        let rules = try RuleSet(parsing: """
            {"functions": {"small(n)": "n <= 5"}, "rules": {
              "a": {".read": "small(query.limit) || auth != null"},
              "b": {".read": "small(query.limitToFirst) || auth != null"}}}
            """)
        #expect(rules.warnings.map { "\($0.line) \($0.message.prefix(17))" } == ["2 query.limit is nu", "3 query.limitToFirs"])
    }

    /// The check evaluates a bounded number of alternatives of one rule, however deeply they are nested.
    @Test(arguments: [false, true]) func nullFields_areExaminedUpToALimit(_ isNested: Bool) throws {
        let rule = (0..<RulesLimits.comparisonsTried + 20).reduce("auth != null") { rule, i in
            isNested ? "(query.limit != \(i) && (query.limit > \(i) || \(rule)))" : "query.limit > \(i) || \(rule)"
        }
        let rules = try RuleSet(parsing: "{\"rules\":{\"$k\":{\".read\":\(quoted(rule))}}}")
        #expect(rules.warnings.count == RulesLimits.comparisonsTried)
    }

    /// Neither of two comparisons that grant without an owner makes the other harmless.
    @Test func missingSides_areWarnedOf_inBothBranches() throws {
        let rule = "data.child('o').val() == auth.uid || data.child('o').val() == auth.token.sub"
        let rules = try RuleSet(parsing: "{\"rules\":{\"$k\":{\".read\":\(quoted(rule))}}}")
        #expect(rules.warnings.count == 2, "\(rules.warnings)")
        #expect(rules.allowsRead("/k", root: ["k": ["other": 1]], auth: .null, now: 0))
    }

    @Test func missingSides_areFoundInLinearTime_besideALongSum() throws {
        let rule = "data.child('o').val() == auth.uid && now" + String(repeating: " + 1", count: 200) + " > 0"
        #expect(try RuleSet(parsing: "{\"rules\":{\"$k\":{\".read\":\(quoted(rule))}}}").warnings.count == 1)
    }

    @Test func missingSidesOfValidation_areNoFault() throws {
        let text = #"{"rules":{"a":{".write":"auth != null",".validate":"newData.child('by').val() == auth.uid"}}}"#
        #expect(try RuleSet(parsing: text).warnings.isEmpty)
    }
}
