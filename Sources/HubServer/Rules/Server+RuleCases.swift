import Dispatch
public import HTTPTypes
import JSONTree
import Scheduling
import SecurityRules
import WireProtocols

extension Server {
    /// Queue on which cases are evaluated, off databases and net loops.
    private static let testing = DispatchQueue(label: "vigla.rules.cases", qos: .utility)

    /// Time limit for the cases of one request, because requests wait for each other. The response says how many cases ran.
    private static let testingNs: Int64 = 5_000_000_000

    /// Runs cases as `vigla rules test` does, for an administrator. Reads no data and changes nothing.
    ///
    ///     {"cases":"{\"cases\":[…]}"}                      against the rules in force
    ///     {"cases":"…","rules":"{\"rules\":{…}}"}          against others
    ///
    /// - Parameter done: called once, on an arbitrary queue: 200 with failures and coverage (docs/rules.md), or 400 with `{"error":…}` and
    ///   the `faults` of the text that `of` names.
    public func testRules(_ body: [UInt8], namespace: String, _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void) {
        let asked = body.withUnsafeBytes { bytes -> Node? in
            var reader = JSONReader(bytes)
            return try? reader.claims()
        }
        guard case .string(let cases) = asked?.child("cases") else {
            return done(.badRequest, RESTRefusal(.badRequest, "Expected an object with \"cases\", the text of a file of cases.").body)
        }
        let inForce = rules(of: namespace) ?? .denyAll
        Self.testing.async {
            var rules = inForce
            if case .string(let text) = asked?.child("rules") {
                do throws(RulesErrors) { rules = try RuleSet(parsing: text.string) } catch {
                    return done(.badRequest, error.json(of: "rules"))
                }
            }
            do throws(RulesErrors) {
                // Cases cannot name a data file here; they must contain their data.
                let cases = try RuleCases(parsing: cases.string)
                let end = SystemTime.steadyNs + Self.testingNs
                let result = rules.run(cases, explained: RuleCasesResult.explained) { SystemTime.steadyNs > end }
                done(.ok, result.json(given: cases.cases.count))
            } catch { done(.badRequest, error.json(of: "cases")) }
        }
    }
}

extension RulesErrors {
    /// - Parameter text: the name of the faulty member of the request.
    fileprivate func json(of text: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"error\":")
        writer.string(description)
        writer.raw(",\"of\":")
        writer.string(text)
        writer.raw(",\"faults\":")
        writer.faults(errors)
        writer.raw("}\n")
        return writer.bytes
    }
}

extension RuleCasesResult {
    /// Number of failures that are explained; further ones are only counted.
    fileprivate static let explained = 10

    /// - Parameter given: number of cases in the request; more than `count` when the time limit was reached.
    fileprivate func json(given: Int) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 4096)
        writer.raw("{\"count\":")
        writer.int(Int64(count))
        writer.raw(",\"given\":")
        writer.int(Int64(given))
        writer.raw(",\"passed\":")
        writer.int(Int64(count - failures.count))
        writer.raw(",\"failures\":[")
        for (i, failure) in failures.prefix(Self.explained).enumerated() {
            writer.raw(i > 0 ? ",{\"name\":" : "{\"name\":")
            writer.string(failure.failed.name)
            writer.raw(",\"line\":")
            writer.int(Int64(failure.failed.line))
            writer.raw(",\"column\":")
            writer.int(Int64(failure.failed.column))
            writer.raw(",\"message\":")
            writer.string(failure.message)
            writer.raw(",\"explanation\":")
            if let trace = failure.trace {
                writer.raw(trace.json(auth: failure.failed.auth, now: failure.failed.now))
            } else {
                writer.raw("null")
            }
            writer.raw("}")
        }
        writer.raw("],\"covered\":")
        writer.int(Int64(coverage.coveredCount))
        writer.raw(",\"rules\":[")
        for (i, rule) in coverage.rules.enumerated() {
            writer.raw(i > 0 ? ",{\"rule\":" : "{\"rule\":")
            writer.string(rule.name)
            writer.raw(",\"line\":")
            writer.int(Int64(rule.source.line))
            writer.raw(",\"column\":")
            writer.int(Int64(rule.source.column))
            writer.raw(",\"true\":")
            writer.int(Int64(rule.trueCount))
            writer.raw(",\"notTrue\":")
            writer.int(Int64(rule.falseCount))
            writer.raw(",\"gap\":")
            if let gap = rule.gap { writer.string(gap) } else { writer.raw("null") }
            writer.raw("}")
        }
        writer.raw("],\"unknown\":[")
        for (i, name) in coverage.unknown.enumerated() {
            if i > 0 { writer.raw(",") }
            writer.string(name)
        }
        writer.raw("]}\n")
        return writer.bytes
    }
}
