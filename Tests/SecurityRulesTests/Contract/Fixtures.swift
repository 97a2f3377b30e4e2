import JSONTree
import SecurityRules
import Testing

/// The clients of the contract's truth tables (§14).
enum Caller: String, Sendable {
    /// Signed out.
    case nobody = "-"
    case u1 = "U"
    case u2 = "V"

    var auth: Node {
        switch self {
        case .nobody: .null
        case .u1:
            [
                "uid": "u1", "provider": "password",
                "token": [
                    "sub": "u1", "email": "a@ex.org", "email_verified": true, "lvl": 3, "admin": true, "role": "editor", "flag": "true",
                    "teams": ["red": true], "firebase": ["sign_in_provider": "password"],
                ],
            ]
        case .u2:
            [
                "uid": "u2", "provider": "password",
                "token": ["sub": "u2", "email": "b@ex.org", "email_verified": true, "firebase": ["sign_in_provider": "password"]],
            ]
        }
    }
}

/// The time of every operation in the tables.
let fixedNow: Int64 = 1_700_000_000_000

/// The result of a rule (§14): allowed, denied because it is false, or denied because it failed.
enum Verdict: String, Sendable {
    case allowed = "A"
    case denied = "D"
    case failed = "X"

    /// The verdict of the only rule in a trace.
    init(_ trace: RuleTrace) {
        if trace.isAllowed {
            self = .allowed
        } else if trace.steps.contains(where: { if case .failed = $0.outcome { true } else { false } }) {
            self = .failed
        } else {
            self = .denied
        }
    }
}

/// A text as a JSON string.
func quoted(_ text: String) -> String {
    var writer = JSONWriter()
    writer.string(text)
    return String(decoding: writer.bytes, as: UTF8.self)
}

/// The faults of a rules file; empty when it is accepted.
func faults(_ text: String) -> [RuleError] {
    do throws(RulesErrors) {
        _ = try RuleSet(parsing: text)
        return []
    } catch { return error.errors }
}

extension RuleSet {
    /// Decides a read twice, plainly and with a trace, and expects both to agree.
    func verdict(read path: String, _ root: Node, _ caller: Caller = .nobody, query: QueryVariables = .none) throws -> Verdict {
        let path = try Path(parsing: path)
        let trace = explainRead(path, root: root, auth: caller.auth, now: fixedNow, query: query)
        #expect(allowsRead(path, root: root, auth: caller.auth, now: fixedNow, query: query) == trace.isAllowed)
        return Verdict(trace)
    }
}
