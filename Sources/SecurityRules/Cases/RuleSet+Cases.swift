import JSONTree

/// A case whose verdict differs from the expected one.
public struct RuleCaseFailure: Sendable {
    public let failed: RuleCase
    /// The expected and the actual result.
    public let message: String
    /// The trace of the decision; nil beyond the first `explained` failures.
    public let trace: RuleTrace?
}

/// The results of all cases, and their coverage of rules.
public struct RuleCasesResult: Sendable {
    public internal(set) var count = 0
    public internal(set) var failures: [RuleCaseFailure] = []
    public internal(set) var coverage: RuleCoverage
}

extension RuleSet {
    /// Decides the cases, independently of each other.
    /// - Parameters:
    ///   - explained: the most failures whose trace is kept; a trace may contain long computed texts.
    ///   - isOver: called before each case. True stops the run; `count` then says how many cases were decided.
    public func run(_ cases: RuleCases, explained: Int = .max, until isOver: () -> Bool = { false }) -> RuleCasesResult {
        var result = RuleCasesResult(coverage: RuleCoverage(self, neverFalse: cases.neverFalse))
        for test in cases.cases {
            if isOver() { break }
            result.count += 1
            let (message, trace) = run(test, &result.coverage)
            guard let message else { continue }
            let kept = result.failures.count < explained ? trace : nil
            result.failures.append(RuleCaseFailure(failed: test, message: message, trace: kept))
        }
        return result
    }

    private func run(_ test: RuleCase, _ coverage: inout RuleCoverage) -> (String?, RuleTrace?) {
        let trace: RuleTrace
        var after = test.data
        switch test.operation {
        case .read(let path, let query): trace = explainRead(path, root: test.data, auth: test.auth, now: test.now, query: query)
        case .count(let path, let query): trace = explainCount(path, root: test.data, auth: test.auth, now: test.now, query: query)
        case .write(let writes):
            let paths = writes.map(\.path)
            let shaped = shape(paths, old: test.data, new: test.after([]), auth: test.auth, now: test.now) { test.after($0) }
            after = shaped.tree
            if shaped.needsTooMuchWork { return ("needs too much work on texts", nil) }
            trace = explainWrite(
                paths, validating: shaped.added, old: test.data, new: after, auth: test.auth, now: test.now, following: ConsequenceLimits())
            for write in trace.follows { after.set(write.value, at: write.path) }
        case .accountDeletion(let uid):
            var search = AccountSearch(self, of: uid)
            let found = search.next(in: test.data, atMost: .max)
            for write in found where write.isDue(in: after) { after.set(write.value, at: write.path) }
            trace = explainConsequences(
                of: found.map(\.path), old: test.data, new: after, now: test.now, by: .administrator, limits: ConsequenceLimits())
            for write in trace.follows where trace.isAllowed { after.set(write.value, at: write.path) }
        }
        var sent = trace.isAllowed ? trace.deliveries : []
        if trace.isAllowed {
            after = continuing(
                trace.continued, trace.continuedRemovals, hits: trace.continuedHits, old: test.data, in: after, now: test.now,
                sending: &sent)
        }
        if trace.isAllowed, let until = test.until {
            var timeline = ExpiryTimeline(self, after, now: test.now, hits: trace.hits)
            do throws(ExpiryTimeline.Fault) { after = try timeline.advance(to: until) } catch { return (error.message, trace) }
            sent += timeline.sent
        }
        coverage.record(trace)
        return (mismatch(test.expectation, trace) ?? mismatch(test.then, after) ?? test.sends.flatMap(sent.mismatch), trace)
    }

    private func mismatch(_ then: [(path: Path, value: Node)], _ after: Node) -> String? {
        for (path, value) in then where after.node(at: path) != value {
            return "expected \(value.json) at \(path) afterwards, there was \(after.node(at: path).json)"
        }
        return nil
    }

    private func mismatch(_ expectation: RuleCase.Expectation, _ trace: RuleTrace) -> String? {
        switch expectation {
        case .denied(let by) where !trace.isAllowed:
            guard let by else { return nil }
            // A refusal by a bound of `.count` may also be named by the kind alone.
            if trace.unmet != nil, by == RuleKind.count.rawValue { return nil }
            return by == trace.refuser ? nil : "expected to be refused by \(by), was refused by \(trace.refuser)"
        case .allowed where trace.isAllowed: return nil
        default: return "expected \(expectation), was \(trace.isAllowed ? "allowed" : "denied")"
        }
    }
}

extension RuleCase {
    /// The tree after the case's writes, without those at the ignored indexes.
    fileprivate func after(_ ignored: [Int]) -> Node {
        guard case .write(let writes) = operation else { return data }
        var tree = data
        for (i, write) in writes.enumerated() where !ignored.contains(i) { tree.set(write.value, at: write.path) }
        return tree
    }
}

extension RuleCase.Expectation: CustomStringConvertible {
    public var description: String {
        switch self {
        case .allowed: "to be allowed"
        case .denied: "to be denied"
        }
    }
}
