import JSONTree
import SecurityRules
import Testing

/// Rules contract §14.3: results of expressions over an empty database.
@Suite(.timeLimit(.minutes(30))) struct ExpressionTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let expression: String
        let verdict: Verdict
        let caller: Caller

        init(_ id: String, _ expression: String, _ verdict: Verdict, _ caller: Caller = .nobody) {
            (self.id, self.expression, self.verdict, self.caller) = (id, expression, verdict, caller)
        }
        var testDescription: String { id }
    }

    @Test(arguments: rows) func expression_hasItsVerdict_overAnEmptyDatabase(_ row: Row) throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\"t\":{\".read\":\(quoted(row.expression))}}}")
        #expect(try rules.verdict(read: "/t", .null, row.caller) == row.verdict)
    }

    static let rows: [Row] = [
        Row("E001", "1 < 2", .allowed),
        Row("E002", "2 + 3 * 4 == 14", .allowed),
        Row("E003", "16 / 4 / 2 == 2", .allowed),
        Row("E004", "1 / 2 == 0.5", .allowed),
        Row("E005", "1/0 + '' == 'NaN'", .allowed),
        Row("E006", "1/0 > 0", .denied),
        Row("E007", "1/0 < 0", .denied),
        Row("E008", "true || false && false", .allowed),
        Row("E009", "!false && false", .denied),
        Row("E010", "false == 3 < 4", .denied),
        Row("E011", "3 < 4 == 5 < 6", .allowed),
        Row("E012", "true ? false : true ? true : true", .denied),
        Row("E013", "false || true ? false : true", .denied),
        Row("E014", "5 == '5'", .denied),
        Row("E015", "5 === 5.0", .allowed),
        Row("E016", "true == 1", .denied),
        Row("E017", "'' == false", .denied),
        Row("E018", "null == false", .denied),
        Row("E019", "1 + 'b' == '1b'", .allowed),
        Row("E020", "'b' + 1 == 'b1'", .allowed),
        Row("E021", "'b' > 'a'", .allowed),
        Row("E022", "'a' < 1", .failed),
        Row("E023", "now > 'a'", .failed),
        Row("E024", "data.val() == null", .allowed),
        Row("E025", "data.val() + 1 == 1 || true", .failed),
        Row("E026", "data.val() + 'a' == 'nulla' || true", .failed),
        Row("E027", "data.val() < 1 || true", .failed),
        Row("E028", "-data.val() == 0 || true", .failed),
        Row("E029", "true || data.val() < 1", .allowed),
        Row("E030", "false && data.val() < 1", .denied),
        Row("E031", "!(data.val() < 1)", .failed),
        Row("E032", "(data.val() < 1) == false", .failed),
        Row("E033", "data.val() < 1 ? true : true", .failed),
        Row("E034", "true ? true : data.val() < 1", .allowed),
        Row("E035", "data.val().length == 0", .failed),
        Row("E036", "data.val().contains('a') || true", .failed),
        Row("E037", "auth == null", .allowed),
        Row("E038", "auth.uid == null", .allowed),
        Row("E039", "auth.uid != 'u9'", .allowed),
        Row("E040", "auth.uid == 'u9'", .denied),
        Row("E041", "auth.token.a.b.c == null", .allowed),
        Row("E042", "auth.uid > 'a'", .failed),
        Row("E043", "auth.uid.length > 0", .failed),
        Row("E044", "root.child(auth.uid).exists()", .failed),
        Row("E045", "root.child('users/' + auth.uid).exists()", .failed),
        Row("E046", "root.hasChildren([auth.uid])", .failed),
        Row("E047", "root.hasChildren()", .denied),
        Row("E048", "root.parent().exists()", .failed),
        Row("E049", "data.parent().exists() == false", .allowed),
        Row("E050", "data.parent().parent().exists() == false", .failed),
        Row("E051", "data.hasChildren([])", .allowed),
        Row("E052", "data.child('a.b@c').val() != true", .allowed),
        Row("E053", "'ababa'.endsWith('ba')", .allowed),
        Row("E054", "'hello'.contains('')", .allowed),
        Row("E055", "'a-b-c'.replace('-','+') == 'a+b+c'", .allowed),
        Row("E056", "'aa'.replace('/a/g','z') == 'aa'", .allowed),
        Row("E057", "'AbC'.toUpperCase() == 'ABC'", .allowed),
        Row("E058", "'abc'.length == 3", .allowed),
        Row("E059", "'xabcx'.matches(/abc/)", .allowed),
        Row("E060", "'xabcx'.matches(/^abc$/)", .denied),
        Row("E061", "'ABC'.matches(/abc/i)", .allowed),
        Row("E062", "1 / auth.n == 1 || true", .failed, .u1),
        Row("E063", "auth.token.lvl + 1 == 4", .allowed, .u1),
        Row("E064", "auth.token.lvl == '3'", .denied, .u1),
        Row("E065", "auth.token.flag == true", .denied, .u1),
        Row("E066", "auth.token.admin == true", .allowed, .u1),
        Row("E067", "auth.token.admin == true", .denied, .u2),
        Row("E068", "auth.token.role.contains('edit')", .allowed, .u1),
        Row("E069", "auth.token.lvl.contains('3')", .failed, .u1),
        Row("E070", "auth.provider == 'password'", .allowed, .u1),
        Row("E071", "auth.token.firebase.tenant == null", .allowed, .u1),
        Row("E072", "auth.token.email_verified == true && auth.token.email.endsWith('@ex.org')", .allowed, .u1),
        Row("E073", "auth.token.lvl + 'x' == '3x'", .allowed, .u1),
        Row("E074", "auth.token.admin + 'x' == 'truex'", .failed, .u1),
        Row("E075", "now > 1500000000000", .allowed),
    ]
}
