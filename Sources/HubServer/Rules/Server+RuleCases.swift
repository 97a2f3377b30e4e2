import Dispatch
import HTTPTypes
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
    func testRules(_ body: JSONValue, namespace: String, _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void) {
        guard let cases = body["cases"]?.string else {
            return done(.badRequest, RESTRefusal(.badRequest, "Expected an object with \"cases\", the text of a file of cases.").body)
        }
        let inForce = rules(of: namespace) ?? .denyAll
        Self.testing.async {
            var rules = inForce
            if let text = body["rules"]?.string {
                do throws(RulesErrors) { rules = try RuleSet(parsing: text) } catch {
                    return done(.badRequest, error.json(of: "rules"))
                }
            }
            do throws(RulesErrors) {
                // Cases cannot name a data file here; they must contain their data.
                let cases = try RuleCases(parsing: cases)
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
        JSONValue.object([.init("error", .string(description)), .init("of", .string(text)), .init("faults", errors.json)]).line
    }
}

extension RuleCasesResult {
    /// Number of failures that are explained; further ones are only counted.
    fileprivate static let explained = 10

    /// - Parameter given: number of cases in the request; more than `count` when the time limit was reached.
    fileprivate func json(given: Int) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 4096)
        writer.raw("{\"count\":\(count),\"given\":\(given),\"passed\":\(count - failures.count),\"failures\":[".utf8)
        for (i, failure) in failures.prefix(Self.explained).enumerated() {
            let (line, column) = (failure.failed.line, failure.failed.column)
            writer.raw(i > 0 ? ",{\"name\":" : "{\"name\":")
            writer.string(failure.failed.name)
            writer.raw(",\"line\":\(line),\"column\":\(column),\"message\":".utf8)
            writer.string(failure.message)
            writer.raw(",\"explanation\":")
            writer.raw(failure.trace?.json(auth: failure.failed.auth, now: failure.failed.now) ?? Array("null".utf8))
            writer.raw("}")
        }
        let rules = coverage.rules.map { rule -> JSONValue in
            [
                "rule": .string(rule.name), "line": .int(Int64(rule.source.line)), "column": .int(Int64(rule.source.column)),
                "true": .int(Int64(rule.trueCount)), "notTrue": .int(Int64(rule.falseCount)),
                "gap": rule.gap.map(JSONValue.string) ?? .null,
            ]
        }
        writer.raw("],\"covered\":\(coverage.coveredCount),\"rules\":".utf8)
        JSONValue.array(rules).write(to: &writer)
        writer.raw(",\"unknown\":")
        JSONValue.array(coverage.unknown.map(JSONValue.string)).write(to: &writer)
        writer.raw("}\n")
        return writer.bytes
    }
}
