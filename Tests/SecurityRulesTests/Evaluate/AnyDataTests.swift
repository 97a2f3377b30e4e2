import JSONTree
import SecurityRules
import Testing

/// Requests that the rules refuse whatever data is stored and written.
@Suite(.timeLimit(.minutes(30))) struct AnyDataTests {
    private static let ada: Node = ["uid": "ada", "provider": "password", "token": ["admin": true, "level": 3, "email": "ada@example.org"]]

    private func mayWrite(_ expression: String, at path: Path = "/users/ada", auth: Node = .null, now: Int64 = 1000) throws -> Bool {
        let rules = try RuleSet(parsing: #"{"rules":{"users":{"$uid":{".write":"\#(expression)"}}}}"#)
        return rules.mayAllowWrite([path], auth: auth, now: now)
    }

    /// Under these rules, no content of a stranger's request changes its refusal.
    @Test(arguments: [
        "false",
        "auth != null",
        "auth.uid == $uid",
        "auth != null && newData.exists()",
        "newData.exists() && auth != null",
        "!(auth == null || data.exists())",
        "data.exists() ? auth != null : auth.token.admin == true",
        "(data.exists() || newData.exists()) && (auth.uid == $uid || auth.token.admin == true)",
        "auth.token.email.endsWith('@example.org')",
        "newData.isString() && auth.token.email.matches(/x/)",
        "now < 1000 && newData.exists()",
        "$uid == 'bob' && newData.exists()",
        "root.child('users/' + auth.uid).exists()",
        "root.child('admins').hasChild(auth.uid)",
        "data.child(auth.uid).val() == true",
        "data.hasChildren(['a', auth.uid])",
        "root.child('roles').child(auth.uid).child('level').val() >= 3",
        "data.child('x').child(auth.uid).parent().exists()",
        "newData.val() < auth.token.level",
        "newData.val() + auth.uid == 'x'",
        "newData.val() - auth.token.level > 3",
        "newData.val().contains(auth.uid)",
        "-(newData.val() - auth.token.level) > 3",
        "newData.val().replace(auth.uid, 'x').length > 3",
        "(auth == null ? null : data.val()) == 'x'",
        "(data.exists() ? data.child(auth.uid) : newData.child(auth.uid)).exists()",
    ]) func write_isRefusedForAnyData_ofAStranger(_ expression: String) throws {
        #expect(try !mayWrite(expression))
    }

    @Test(arguments: [
        "true",
        "auth == null",
        "auth == null && newData.exists()",
        "newData.exists()",
        "!newData.exists()",
        "newData.isString() || auth != null",
        "data.exists() ? auth != null : auth == null",
        "auth != null ? false : data.val() == 'x'",
        "root.child('open').val() == true",
        "newData.val() > 3",
        "newData.val() == null",
        "data.child('owner').val() == auth.uid",
        "newData.child('secret').val() == root.child('secrets/' + $uid).val()",
        "now >= 1000 && newData.exists()",
        "$uid.length == 3 && newData.hasChildren(['a', $uid])",
        "data.parent().parent().child('open').exists()",
        "newData.val() + newData.val() > 3",
        "(auth == null ? data.val() : null) == 'x'",
    ]) func write_mayBeAllowed_whereDataCouldGrant(_ expression: String) throws {
        #expect(try mayWrite(expression))
    }

    @Test func write_mayBeAllowed_ofTheUserWhomTheRulesName() throws {
        #expect(try mayWrite("auth.uid == $uid && newData.exists()", auth: Self.ada))
        #expect(try !mayWrite("auth.uid == $uid && newData.exists()", at: "/users/bob", auth: Self.ada))
        #expect(try mayWrite("root.child('users/' + auth.uid).exists() && auth.token.level >= 3", auth: Self.ada))
        #expect(try !mayWrite("root.child('users/' + auth.uid).exists() && auth.token.level > 3", auth: Self.ada))
    }

    @Test func write_isRefusedForAnyData_whereNoRuleIsOnTheWay() throws {
        #expect(!RuleSet.denyAll.mayAllowWrite(["/a/b"], auth: Self.ada, now: 0))
        #expect(RuleSet.allowAll.mayAllowWrite(["/a/b"], auth: .null, now: 0))
        // A rule below the place does not allow a write of the place.
        #expect(try !mayWrite("true", at: "/users"))
        #expect(RuleSet.denyAll.mayAllowWrite([Path](), auth: .null, now: 0))
    }

    /// `.validate` is not evaluated, not even one that is never true.
    @Test func write_mayBeAllowed_whateverIsValid() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,".validate":false}}"#)
        #expect(rules.mayAllowWrite(["/"], auth: .null, now: 0))
    }

    /// Locations are created one by one; none is created after the first refused one.
    @Test func locations_areTakenUpToTheFirstRefusedOne() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"open":{"$x":{".write":"newData.exists()"}}}}"#)
        var made = 0
        let paths = (0..<100_000).lazy.map { i in
            made += 1
            return Path([i < 1000 ? "open" : "shut", Key(index: i)])
        }
        #expect(!rules.mayAllowWrite(paths, auth: .null, now: 0))
        #expect(made == 1001)
        #expect(rules.mayAllowWrite(paths.prefix(1000), auth: .null, now: 0))
    }

    /// A location's captured key stays valid while it is in use, although the previous location is freed.
    @Test func locations_seeTheirOwnKeys_whenEarlierOnesAreGone() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"$room":{"m":{"$i":{".write":"$room == 'a room with a long name' && newData.exists()"}}}}}"#)
        let paths = (0..<1000).lazy.map { Path([Key("a room with a \("long") name"), "m", Key("another long key number \($0)")]) }
        #expect(rules.mayAllowWrite(paths, auth: .null, now: 0))
    }

    /// A chain of many alternatives does not nest.
    @Test func longChain_isFollowedInALoop() throws {
        let rules = try RuleSet(
            parsing: "{\"rules\":{\".write\":\"\(String(repeating: "data.exists() && auth != null || ", count: 10_000))auth.uid == 'x'\"}}")
        #expect(!rules.mayAllowWrite(["/"], auth: .null, now: 0))
        #expect(rules.mayAllowWrite(["/"], auth: Self.ada, now: 0))
    }
}
