import JSONTree
import SecurityRules
import Testing

/// Rules contract §14.5: the write cascade, validation and multi-path updates.
@Suite(.timeLimit(.minutes(30))) struct WriteTests {
    enum Operation: Sendable {
        case set(String, String)
        case update(String, [(String, String)])
        case remove(String)
        case read(String)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let rules: String
        let operation: Operation
        let database: String
        let caller: Caller
        let isAllowed: Bool

        init(
            _ id: String, _ rules: String, _ operation: Operation, _ isAllowed: Bool, db database: String = "null", _ caller: Caller = .u1
        ) {
            (self.id, self.rules, self.operation, self.isAllowed) = (id, rules, operation, isAllowed)
            (self.database, self.caller) = (database, caller)
        }
        var testDescription: String { id }
    }

    @Test(arguments: rows) func operation_isAllowedOrDenied_asTheContractSays(_ row: Row) throws {
        let rules = try RuleSet(parsing: row.rules)
        let old = try Node(json: row.database)
        var new = old
        var locations: [Path] = []

        func write(_ path: Path, _ json: String) throws {
            // Server values are resolved before rules run.
            let value = try Node(json: json.replacingTimestamp)
            new.set(value, at: path)
            locations.append(path)
        }
        switch row.operation {
        case .set(let path, let json): try write(Path(parsing: path), json)
        case .remove(let path): try write(Path(parsing: path), "null")
        case .update(let path, let values):
            for (key, json) in values { try write(Path(parsing: path).appending(Path(parsing: key)), json) }
        case .read(let path):
            #expect(rules.allowsRead(try Path(parsing: path), root: old, auth: row.caller.auth, now: fixedNow) == row.isAllowed)
            return
        }
        #expect(rules.allowsWrite(locations, old: old, new: new, auth: row.caller.auth, now: fixedNow) == row.isAllowed)
        #expect(rules.explainWrite(locations, old: old, new: new, auth: row.caller.auth, now: fixedNow).isAllowed == row.isAllowed)
        // The order of an update's paths never matters.
        locations.reverse()
        #expect(rules.allowsWrite(locations, old: old, new: new, auth: row.caller.auth, now: fixedNow) == row.isAllowed)
    }

    private static let (allowed, denied) = (true, false)

    private static let a = #"{"rules":{"n":{".write":"auth != null"}}}"#
    private static let b = #"{"rules":{".write":true,"n":{".write":false}}}"#
    private static let c = #"{"rules":{"n":{".write":"newData.val().toUpperCase() == 'OK'","o":{".write":"auth != null"}}}}"#
    private static let d = #"{"rules":{"u":{"$id":{".read":"auth.uid == $id",".write":"auth.uid == $id"}}}}"#
    private static let e = """
        {"rules":{"p":{".write":true,".validate":"newData.hasChildren(['t','c'])","t":{".validate":"newData.isString()"},
          "c":{".validate":"newData.isNumber()"},"$o":{".validate":false}}}}
        """
    private static let f = """
        {"rules":{"r":{"$r":{".write":true,"n":{".validate":"newData.val() == data.val() + 1"},"g":{".validate":"newData.isNumber()"},
          "t":{".validate":"newData.isString()"}}}}}
        """
    private static let g = #"{"rules":{".validate":"newData.hasChild('cfg')","box":{".write":true}}}"#
    private static let h = #"{"rules":{".write":true,"v":{".validate":"false"}}}"#
    private static let i = #"{"rules":{"q":{"vip":{},"$k":{".read":true,".write":true}}}}"#
    private static let j = """
        {"rules":{"m":{"$r":{".write":"root.child('mem/'+$r+'/'+auth.uid).val() == true"}},
          "mem":{"$r":{"$u":{".write":"auth.uid == $u"}}}}}
        """
    private static let jNew = """
        {"rules":{"m":{"$r":{".write":"newData.parent().parent().child('mem/'+$r+'/'+auth.uid).val() == true"}},
          "mem":{"$r":{"$u":{".write":"auth.uid == $u"}}}}}
        """
    private static let k = #"{"rules":{"c":{".write":"!data.exists() && newData.exists()"}}}"#
    private static let l = #"{"rules":{"ts":{".write":true,".validate":"newData.val() == now"}}}"#
    private static let m = #"{"rules":{"ts":{".write":true,".validate":"newData.isNumber() && newData.val() <= now"}}}"#
    private static let n = #"{"rules":{"w":{".write":true,".validate":"newData.getPriority() == 7 && newData.val() == 'w'"}}}"#
    private static let o = #"{"rules":{"d":{"$d":{".write":true,"meta":{".validate":"newData.parent().child('body').exists()"}}}}}"#
    private static let p = #"{"rules":{"l":{".write":true,".validate":"newData.isString()","k":{".validate":true}}}}"#
    private static let q = #"{"rules":{"a":{".write":"auth.uid == 'u1'","b":{".write":"auth.uid == 'u2'"}}}}"#
    private static let r = #"{"rules":{"s":{"$slot":{".write":"$slot == '0'"},"e":{"$slot":{".write":"$slot == 0"}}}}}"#
    private static let s = #"{"rules":{"z":{".write":"data.child('o').val() == auth.uid || newData.child('o').val() == auth.uid"}}}"#

    static let rows: [Row] = [
        Row("W01", a, .set("/n", "1"), denied, .nobody),
        Row("W02", a, .set("/n", "1"), allowed),
        Row("W03", a, .set("/n/x/y", "1"), allowed),
        Row("W04", a, .set("/m", "1"), denied),
        Row("W05", a, .set("/", #"{"n":1}"#), denied),
        Row("W06", a, .update("/", [("n", "1")]), allowed),
        Row("W07", a, .update("/", [("n", "1"), ("m", "1")]), denied),
        Row("W08", b, .set("/n", "1"), allowed),
        Row("W09", c, .set("/n/o", "5"), allowed),
        Row("W10", c, .set("/n", "5"), denied),
        Row("W11", d, .set("/u/u1", #"{"a":1}"#), allowed),
        Row("W12", d, .set("/u/u2", #"{"a":1}"#), denied),
        Row("W13", d, .set("/u/u1", "1"), denied, .nobody),
        Row("W14", d, .read("/u"), denied),
        Row("W14 own", d, .read("/u/u1/x"), allowed),
        Row("W15", d, .update("/u", [("u1/a", "1"), ("u2/a", "1")]), denied),
        Row("W16", d, .update("/u", [("u1/a", "1"), ("u1/b", "2")]), allowed),
        Row("W17", e, .set("/p", #"{"t":"x","c":1}"#), allowed),
        Row("W18", e, .set("/p", #"{"t":"x"}"#), denied),
        Row("W19", e, .set("/p", #"{"t":"x","c":1,"z":1}"#), denied),
        Row("W20", e, .remove("/p"), allowed, db: #"{"p":{"t":"x","c":1}}"#),
        Row("W21", e, .set("/p", "{}"), allowed, db: #"{"p":{"t":"x","c":1}}"#),
        Row("W22", e, .remove("/p/c"), denied, db: #"{"p":{"t":"x","c":1}}"#),
        Row("W23", e, .set("/p/c", "2"), allowed, db: #"{"p":{"t":"x","c":1}}"#),
        Row("W24", e, .set("/p/c", "2"), denied),
        Row("W25", e, .update("/p", [("t", "\"x\""), ("c", "2")]), allowed),
        Row("W26", e, .set("/p", "5"), denied),
        Row("W27", e, .set("/p/z", "1"), denied, db: #"{"p":{"t":"x","c":1}}"#),
        Row("W28", e, .remove("/p/z"), allowed, db: #"{"p":{"t":"x","c":1,"z":1}}"#),
        Row("W29", f, .set("/r/a/t", "\"x\""), allowed, db: #"{"r":{"a":{"n":1}}}"#),
        Row("W30", f, .set("/r/a/t", "\"x\""), allowed, db: #"{"r":{"a":{"g":"bad"}}}"#),
        Row("W31", f, .set("/r/a", #"{"t":"x","n":1}"#), denied, db: #"{"r":{"a":{"n":1}}}"#),
        Row("W32", f, .update("/r/a", [("t", "\"x\"")]), allowed, db: #"{"r":{"a":{"n":1,"g":"bad"}}}"#),
        Row("W33", f, .set("/r/a/n", "2"), allowed, db: #"{"r":{"a":{"n":1}}}"#),
        Row("W34", f, .set("/r/a/n", "1"), denied),
        Row("W35", f, .update("/r", [("a/t", "\"x\""), ("b/t", "\"y\"")]), allowed, db: #"{"r":{"a":{"n":1},"b":{"g":"bad"}}}"#),
        Row("W36", g, .set("/box", "1"), denied),
        Row("W37", g, .set("/box", "1"), allowed, db: #"{"cfg":1}"#),
        Row("W38", g, .remove("/box"), allowed, db: #"{"box":1}"#),
        Row("W39", g, .remove("/box"), denied, db: #"{"box":1,"z":1}"#),
        Row("W40", h, .remove("/v"), allowed, db: #"{"v":1}"#),
        Row("W41", h, .set("/", #"{"v":1}"#), denied),
        Row("W42", h, .set("/", #"{"w":1}"#), allowed, db: #"{"v":1}"#),
        Row("W43", i, .set("/q/x", "1"), allowed),
        Row("W44", i, .set("/q/vip", "1"), denied),
        Row("W45", j, .set("/m/r1/a", "1"), allowed, db: #"{"mem":{"r1":{"u1":true}}}"#),
        Row("W46", j, .set("/m/r1/a", "1"), denied),
        Row("W47", j, .update("/", [("mem/r1/u1", "true"), ("m/r1/a", "1")]), denied),
        Row("W48", jNew, .update("/", [("mem/r1/u1", "true"), ("m/r1/a", "1")]), allowed),
        Row("W49", j, .set("/m/r1/a", "1"), denied, .nobody),
        Row("W50", k, .set("/c", "1"), allowed),
        Row("W51", k, .set("/c", "2"), denied, db: #"{"c":1}"#),
        Row("W52", k, .remove("/c"), denied, db: #"{"c":1}"#),
        Row("W53", k, .remove("/c"), denied),
        Row("W54", l, .set("/ts", #"{".sv":"timestamp"}"#), allowed),
        Row("W55", l, .set("/ts", "1000"), denied),
        Row("W56", m, .set("/ts", "9999999999999"), denied),
        Row("W57", n, .set("/w", #"{".value":"w",".priority":7}"#), allowed),
        Row("W58", n, .set("/w", "\"w\""), denied),
        Row("W59", o, .remove("/d/1/body"), allowed, db: #"{"d":{"1":{"meta":"i","body":"b"}}}"#),
        Row("W60", o, .set("/d/1", #"{"meta":"i"}"#), denied, db: #"{"d":{"1":{"meta":"i","body":"b"}}}"#),
        Row("W61", p, .set("/l/k", "1"), denied, db: #"{"l":"s"}"#),
        Row("W62", q, .set("/a/b", "1"), allowed),
        Row("W63", q, .set("/a/b", "1"), allowed, .u2),
        Row("W64", q, .set("/a", #"{"b":1}"#), denied, .u2),
        // W65: an administrator's writes never reach the rules.
        Row("W66", r, .set("/s/0", "\"x\""), allowed),
        Row("W67", r, .set("/s/2", "\"x\""), denied),
        Row("W68", r, .set("/s/e/0", "\"x\""), denied),
        Row("W69", s, .set("/z", #"{"o":"u1"}"#), allowed),
        Row("W70", s, .set("/z", #"{"o":"u1"}"#), allowed, db: #"{"z":{"o":"u2"}}"#),
        Row("W71", s, .remove("/z/o"), allowed, db: #"{"z":{"o":"u1"}}"#),
        Row("no location", a, .update("/", []), allowed),
    ]
}

extension String {
    /// The text with the server's timestamp filled in, as the hub does before rules run.
    fileprivate var replacingTimestamp: String {
        self == #"{".sv":"timestamp"}"# ? String(fixedNow) : self
    }
}
