import Testing

@testable import SecurityRules

/// The sentences of rules files, as a reader sees them.
@Suite struct SummaryTests {
    private static func lines(_ rules: String) throws -> [String] { try RuleSet(parsing: rules).summary.lines }

    /// The sentences of the place `/p/$id` of a file, without its indentation.
    private static func sentences(_ place: String, functions: String = "{}") throws -> [String] {
        let rules = try RuleSet(parsing: "{ \"functions\": \(functions), \"rules\": { \"p\": { \"$id\": { \(place) } } } }")
        return try #require(rules.summary.first { $0.place == "/p/$id" }).sentences.map(\.text)
    }

    private static func write(_ expression: String, functions: String = "{}") throws -> String {
        try sentences("\".write\": \"\(expression)\"", functions: functions)[1]
    }

    private static func read(_ expression: String) throws -> String { try sentences("\".read\": \"\(expression)\"")[0] }

    private static func valid(_ expression: String) throws -> String {
        try sentences("\".read\": false, \".validate\": \"\(expression)\"")[2]
    }

    // MARK: Whole files

    @Test func posts_areToldInFull() throws {
        let lines = try Self.lines("""
            {
              "rules": {
                "posts": {
                  ".read": "auth != null",
                  ".indexOn": "at",
                  "$post": {
                    ".write": "auth != null && (data.exists() ? data : newData).child('author').val() == auth.uid",
                    ".validate": "newData.hasChildren(['title', 'author'])",
                    "title": {
                      ".validate": "newData.isString() && newData.val().length <= 60",
                      ".message": "The title is a text of at most 60 letters."
                    },
                    "at": { ".default": "now" },
                    "votes": { ".validate": "newData.isNumber()" },
                    "rating": { ".validate": "newData.isNumber()" },
                    "$other": { ".validate": false },
                    ".copy": { "to": "timeline/$friend/$post", "each": "friends/{author}/$friend", "if": "each.val() == 'added'" },
                    ".removes": [
                      "comments/$post",
                      { "to": "reminders/{owner}/$post", "on": "change",
                        "if": "newData.child('done').val() == true && data.child('done').val() != true" },
                    ],
                    ".counts": { "votes": "count(votes/$post)", "rating": "sum(votes/$post)" },
                    ".expire": "data.child('until').val()",
                    ".account": { "by": "author" },
                    ".rate": { "perSecond": 2, "burst": 10 },
                  },
                },
              },
            }
            """)
        #expect(lines == [
            "/",
            "  Nobody reads or writes it as a whole.",
            "/posts",
            "  Read by everybody who is signed in.",
            "  Nobody writes it as a whole.",
            "  Queries may order its children by `at`.",
            "/posts/$post",
            "  Read by everybody who is signed in, because of /posts.",
            "  Written by the user whose id is `author` (as stored, of a new one as written).",
            "  Valid if it has `title` and `author`.",
            "  It is removed with the account that its `author` names.",
            "  When it is created, it is copied to `timeline/$friend/$post` for each `friends/{author}/$friend` where the entry is "
                + "\"added\". The copy follows its changes.",
            "  When it is removed, `comments/$post` is removed.",
            "  When `done` becomes true, `reminders/{owner}/$post` is removed.",
            "  Keeps: `votes`, the number of children of `votes/$post`; `rating`, the sum of the children of `votes/$post`.",
            "  Removed at the time in `until`.",
            "  Its `title` is valid if it is a text of at most 60 characters. "
                + "Otherwise the client reads: \"The title is a text of at most 60 letters.\"",
            "  Without a value, its `at` becomes now.",
            "  Its `votes` is valid if it is a number.",
            "  Its `rating` is valid if it is a number.",
            "  It must not have other children than `title`, `at`, `votes` and `rating`.",
            "  At most 2 writes a second for each user, 10 at once, here and below.",
        ])
    }

    @Test func closedPlaces_sayNobody() throws {
        let lines = try Self.lines("""
            { "rules": { "secrets": {}, "inbox": { "$uid": { ".read": "auth.uid == $uid", ".write": false } }, "open": { ".read": true } } }
            """)
        #expect(lines == [
            "/", "  Nobody reads it as a whole. Nobody writes it.",
            "/secrets", "  Nobody reads or writes it.",
            "/inbox", "  Nobody reads it as a whole. Nobody writes it.",
            "/inbox/$uid", "  Read by the user whose id is $uid.", "  Nobody writes it.",
            "/open", "  Read by everybody, signed in or not.", "  Nobody writes it.",
        ])
    }

    @Test func consequences_ofAllKinds() throws {
        let lines = try Self.lines("""
            {
              "functions": { "isFriend(x)": "x.val() == 'added'", "staff()": "auth.token.staff == true" },
              "rules": {
                "news": {
                  ".geoIndex": { "lat": "lat", "lng": "lng", "filter": ["status"], "order": ["at"] },
                  ".count": { "if": "staff()", "radius": 1000, "least": 5, "perMinute": 1 },
                  "$n": {
                    ".write": "staff()", ".message": "Only the staff writes news.",
                    ".inbox": {
                      "to": "inbox/$u/+news", "each": "subscriptions/$u", "any": ["newData.child('tags')", "'all'"],
                      "not": "newData.child('author').val()", "value": { "kind": "'news'", "at": "now" },
                      "changes": "newData.child('again').val() == true && data.child('again').val() != true"
                    },
                    ".removes": "inbox/*/+news",
                    ".expire": [
                      { "at": "data.child('due').val()", "if": "data.child('state').val() == 'open'", "patch": { "state": "'late'" } },
                      { "at": "written + 7200000", "log": "log/$n", "value": { "endedAt": "now" } },
                    ],
                    "email": { ".drop": true },
                    "rank": { ".drop": "!staff()" },
                    "search": { ".default": { "value": "newData.parent().child('name').val().fold()", "always": true } },
                    "options": { ".default": { "votes": true } },
                    "author": { ".account": { "set": "deleted" } },
                  },
                },
                "unread": { "$u": {
                  ".counts": { "last": { "value": "max(inbox/$u, each.child('at').val(), !each.hasChild('read'))", "creates": true } },
                  ".account": true, ".rate": { "perSecond": 0.01, "burst": 3 },
                } },
              },
            }
            """)
        #expect(lines == [
            "/", "  Nobody reads it. Nobody writes it as a whole.",
            "/news", "  Nobody reads it.",
            "  Its children are counted by everybody for whom `staff()` holds. Without an account: circles have a radius of at least "
                + "1000 m, fewer than 5 are reported as 0 and an address may count 1 time a minute.",
            "  Nobody writes it as a whole.",
            "  Queries may find its children by distance, at `lat` and `lng`, filtered by `status`, ordered by `at`.",
            "/news/$n", "  Nobody reads it.",
            "  Written by everybody for whom `staff()` holds. Otherwise the client reads: \"Only the staff writes news.\"",
            "  When it is created, or when `again` becomes true, each `$u` of `subscriptions/$u` whose entry has a key of `tags` or "
                + "\"all\" gets a row with `kind` and `at` at `inbox/$u`, under a key of its own, except `author`.",
            "  When it is removed, what it added to `inbox/*` is removed.",
            "  Changes at the time in `due`, if `state` is \"open\": `state` becomes \"late\".",
            "  Removed 2 hours after its last change. A row with `endedAt` is added to `log/$n`.",
            "  What clients send to its `email` is discarded.",
            "  What clients send to its `rank` is discarded if `staff()` does not hold.",
            "  Its `search` is always `name` without case and accents, whatever clients send.",
            "  Without a value, its `options` becomes an object of `votes`.",
            "  Its `author` becomes \"deleted\" when the account that it names is deleted.",
            "/unread", "  Nobody reads or writes it.",
            "/unread/$u", "  Nobody reads or writes it.",
            "  It is removed with the account whose id is $u.",
            "  Keeps: `last`, the greatest of `at` of the children of `inbox/$u` where the value has no `read`. "
                + "It exists while something counts.",
            "  At most one write in 100 seconds for each user, 3 at once, here and below.",
            "isFriend(x)", "  Means: `x` is \"added\".",
            "staff()", "  Means: the user has the claim `staff`.",
        ])
    }

    // MARK: Access

    @Test(arguments: [
        ("true", "Read by everybody, signed in or not."),
        ("auth != null", "Read by everybody who is signed in."),
        ("auth == null", "Read by everybody who is signed out."),
        ("auth.uid == $id", "Read by the user whose id is $id."),
        ("auth != null && $id === auth.uid", "Read by the user whose id is $id."),
        ("auth.uid == $id || auth.uid == 'ed'", "Read by the user whose id is $id or \"ed\"."),
        ("auth != null && auth.provider != 'anonymous'", "Read by everybody who is signed in and who is not an anonymous user."),
        ("auth.provider != 'anonymous'", "Read by everybody who is not an anonymous user, or is signed out."),
        ("auth.uid != $id", "Read by everybody whose id is not $id, or who is signed out."),
        ("auth != null && auth.uid != $id", "Read by everybody who is signed in and whose id is not $id."),
        ("data.val() < 5 || true",
         "Read by everybody, if it is less than 5. Or read by everybody, signed in or not.\(RuleWords.orderNote)"),
        ("auth.token.admin == true", "Read by everybody who has the claim `admin`."),
        ("auth.token.admin != true", "Read by everybody whose claim `admin` is not true."),
        ("auth.token.email_verified == true", "Read by everybody whose email address is verified."),
        ("auth.token.email == 'ed@example.org'", "Read by everybody whose email address is \"ed@example.org\"."),
        ("auth.token.team == $id", "Read by everybody whose claim `team` is $id."),
        ("auth != null && data.child('author').val() == auth.uid", "Read by the user whose id is `author`."),
        ("auth != null && data.child('members').hasChild(auth.uid)",
         "Read by everybody who is signed in, if the user's id is in `members`."),
        ("auth != null && root.child('members').child($id).child(auth.uid).exists()",
         "Read by everybody who is signed in, if the user's id is in /members/$id."),
        ("data.child('public').val() == true", "Read by everybody, if `public` is true."),
        ("data.child('state').val() == 'a' || data.child('state').val() == 'b'", "Read by everybody, if `state` is \"a\" or \"b\"."),
        ("auth != null && query.orderByChild == 'at' && query.limitToLast <= 50",
         "Read by everybody who is signed in, if the query is ordered by `at` and asks for at most 50 from the end."),
        ("!(auth == null || data.child('hidden').exists())", "Read by everybody who is signed in, if it has no `hidden`."),
    ])
    func readers(_ expression: String, _ sentence: String) throws { #expect(try Self.read(expression) == sentence) }

    @Test(arguments: [
        ("auth != null && !data.exists()", "Created by everybody who is signed in."),
        ("auth.uid == $id && !newData.exists()", "Removed by the user whose id is $id."),
        ("auth.uid == $id && data.exists() && newData.exists()", "Changed by the user whose id is $id."),
        ("auth.uid == $id && newData.exists()", "Created or changed by the user whose id is $id."),
        ("(auth != null && !data.exists()) || auth.uid == $id",
         "Created by everybody who is signed in. Or written by the user whose id is $id."),
        ("auth != null && (!data.exists() || data.child('author').val() == auth.uid)",
         "Written by everybody who is signed in, if either it did not exist before or the user's id is the stored `author`."),
        ("auth != null && newData.child('author').val() == auth.uid",
         "Written by everybody who is signed in, if the new `author` is the user's id."),
        ("auth.uid == $id && newData.child('author').val() == data.child('author').val()",
         "Written by the user whose id is $id, if `author` keeps its value."),
        ("auth.uid == $id && now < data.child('at').val() + 5",
         "Written by the user whose id is $id, if now is before `data.child('at').val() + 5`."),
    ])
    func writers(_ expression: String, _ sentence: String) throws { #expect(try Self.write(expression) == sentence) }

    @Test func signedOutCaller_isSaid_whereBothSidesCanBeMissing() throws {
        #expect(try Self.read("data.child('author').val() == auth.uid")
            == "Read by everybody whose id is `author` (or who is signed out, where there is none).")
        #expect(try Self.valid("newData.child('author').val() == auth.uid")
            == "Valid if `author` is the user's id (or missing, of a user who is signed out).")
    }

    @Test func or_afterAPartThatCanFail_saysSo() throws {
        let note = RuleWords.orderNote
        #expect(try Self.write("data.val() < 5 || auth.uid == $id").hasSuffix(note))
        #expect(try Self.write("root.child('u').child(auth.uid).exists() || auth.uid == $id").hasSuffix(note))
        #expect(try Self.write("f() || auth.uid == $id", functions: "{ \"f()\": \"data.val() < 5\" }").hasSuffix(note))
        for expression in [
            "auth.uid == $id || data.val() < 5", "(data.isNumber() && data.val() < 5) || auth.uid == $id",
            "(auth != null && root.child('u').child(auth.uid).exists()) || auth.uid == $id", "auth.uid == $id && data.val() < 5",
        ] { #expect(!(try Self.write(expression).hasSuffix(note)), "\(expression)") }
        #expect(!(try Self.write("f() || auth.uid == $id", functions: "{ \"f()\": \"auth.token.a == true\" }").hasSuffix(note)))
    }

    @Test func inheritedAccess_namesThePlace_andSaysWhatHoldsThere() throws {
        let lines = try Self.lines("""
            { "rules": { "a": {
                ".read": "auth != null && query.limitToLast <= 5", ".write": "auth != null && data.child('owner').val() == auth.uid",
                "$b": { ".read": "auth.uid == $b", "c": { ".write": true, ".read": false } }
            } } }
            """)
        #expect(lines.dropFirst(2) == [
            "/a", "  Read by everybody who is signed in, if the query asks for at most 5 from the end.",
            "  Written by the user whose id is the stored `owner`.",
            "/a/$b", "  Read by the user whose id is $b.", "  Written by the user whose id is /a/owner, because of /a.",
            "/a/$b/c", "  Read by the user whose id is $b, because of /a/$b.", "  Written by everybody, signed in or not.",
        ])
    }

    // MARK: Values

    @Test(arguments: [
        ("newData.isString() && newData.val().length <= 60", "Valid if it is a text of at most 60 characters."),
        ("newData.isString() && newData.val().length >= 1 && newData.val().length < 61", "Valid if it is a text of 1 to 60 characters."),
        ("newData.isNumber() && newData.val() >= -5 && newData.val() <= 5", "Valid if it is a number from -5 to 5."),
        ("newData.isNumber() && newData.val() % 1 == 0", "Valid if it is a whole number."),
        ("newData.isNumber() && newData.val() <= now", "Valid if it is a number and is not after now."),
        ("newData.isString() && newData.isNumber()", "Valid if it is a text and is a number."),
        ("newData.isBoolean()", "Valid if it is true or false."),
        ("newData.val() == 'a' || newData.val() == 'b'", "Valid if it is \"a\" or \"b\"."),
        ("newData.hasChildren(['a', 'b']) && newData.hasChild('c')", "Valid if it has `a`, `b` and `c`."),
        ("newData.child('a').isString() && newData.child('b').isNumber()", "Valid if `a` is a text and `b` is a number."),
        ("!newData.hasChild('a') || newData.child('a').isString()", "Valid if it has no `a` or `a` is a text."),
        ("newData.val().matches(/^[a-z]+$/)", "Valid if it matches `/^[a-z]+$/`."),
        ("newData.val() == data.val() || !data.exists()", "Valid if it keeps its value or it did not exist before."),
        ("newData.childCount() <= 2", "Valid if it has at most 2 children."),
        ("newData.child('a').val() - newData.child('b').val() < 14",
         "Valid if `newData.child('a').val() - newData.child('b').val() < 14`."),
        ("newData.equals(newRoot.child('q').child($id))", "Valid if it is the same as the new /q/$id, with everything below."),
        ("false", "Never valid: nothing can be stored there."),
    ])
    func values(_ expression: String, _ sentence: String) throws { #expect(try Self.valid(expression) == sentence) }

    @Test func inheritedAlternatives_withConditions_areNotRunTogether() throws {
        let lines = try Self.lines("""
            { "rules": { "a": { ".write": "(auth != null && !data.exists()) || auth.uid == 'ed'", "b": { ".read": true } } } }
            """)
        #expect(lines.suffix(3) == ["/a/b", "  Read by everybody, signed in or not.", "  Written by whoever may write /a."])
    }

    @Test func lineBreaksOfAnExpression_becomeSpaces_butTextsStay() throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\".read\":\"data.val()\n     + 'a  b' == 'c'\"}}")
        #expect(rules.summary[0].sentences[0].text == "Read by everybody, if `data.val() + 'a  b' == 'c'`.")
    }

    @Test func watches_areSentences() throws {
        let lines = try Self.lines(#"""
            { "rules": {
              "shops": { ".geoIndex": { "lat": "lat", "lng": "lng" } },
              "needs": { "$u": { ".watch": [
                { "circle": { "at": "live/$u", "lat": "lat", "lng": "lng", "radius": "data.child('radius').val()" }, "on": "shops",
                  "if": "item.child('kind').val() == data.child('kind').val()", "to": "near/$u/{item}",
                  "value": { "metres": "distance", "at": "now" }, "cooldown": 1800, "until": "data.child('until').val()" },
                { "within": "shapes/$u", "on": "shops", "to": "in/$u/{item}", "value": "item.child('title').val()" },
              ] } },
            } }
            """#)
        let moving = "  Watches `shops` within `radius` metres of the position in `live/$u`: a child that is there when it or the watch "
        let row = "changes adds a row with `metres` and `at` at `near/$u/{item}`, if `kind` of what it finds is the same as `kind`, "
        #expect(lines.dropLast().last == moving + row + "for each at most once in 1800 seconds, until the time in `until`.")
        let still = "  Watches `shops` inside the region stored at `shapes/$u`: a child that is there when it or the watch changes adds "
        #expect(lines.last == still + "the row `title` of what it finds at `in/$u/{item}`, once for each.")
    }

    @Test func keysWithoutEffect_areListed() throws {
        let rules = try RuleSet(inForce: "{\"rules\":{\"a\":{\".search\":{},\".expire\":\"5 +\",\".read\":true}}}")
        #expect(rules.summary.lines.dropFirst(2) == [
            "/a", "  Read by everybody, signed in or not.", "  Nobody writes it.",
            "  Removed at `5 +`. In whole or in part without effect: see the end.",
            "Without effect", "  1:16: '.search' is not supported by this version.", "  1:43: Unexpected end of expression.",
        ])
    }

    @Test func nestedExpressions_areToldInTime() throws {
        // Each level is visited more than once: without a bound the time doubles with each.
        var nested = "data"
        for _ in 0..<40 { nested = "root.child(\(nested).val().toLowerCase())" }
        var functions = "\"f0()\": \"auth != null\""
        for i in 1..<40 { functions += ", \"f\(i)()\": \"f\(i - 1)() && f\(i - 1)()\"" }
        let started = ContinuousClock.now
        #expect(try Self.write("\(nested).val().length == 5 || \(nested).exists()").hasPrefix("Written by everybody, if"))
        // The calls of this file would have too many parts to be deployed.
        var reader = RulesFileReader()
        var parser = LocatedJSONParser(RulesText("{\"functions\":{\(functions)},\"rules\":{}}"))
        _ = reader.read(try parser.parse())
        #expect(SummaryFunctions(reader.functions).facts(of: "f39")?.requiresUser == true)
        #expect(ContinuousClock.now - started < .seconds(10))
    }
}
