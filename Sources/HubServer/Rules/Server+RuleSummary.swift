import Dispatch
import HTTPTypes
import JSONTree
import SecurityRules
import WireProtocols

extension Server {
    /// Queue on which files are put into sentences, off databases and net loops: a file has up to a megabyte.
    private static let describing = DispatchQueue(label: "vigla.rules.summary", qos: .utility)

    /// Says in sentences what rules mean, for an administrator. Changes nothing.
    ///
    /// Faulty rules are answered with 200 as by `checkRules`, because they are a normal result while a user types.
    /// - Parameters:
    ///   - source: the text of a rules file; nil for the rules in force.
    ///   - done: called once, on an arbitrary queue: 200 with `[{"place":…,"sentences":[{"kind":…,"text":…}]}]` or
    ///     `{"error":…,"faults":[…]}`, or 400 for a parameter `place` that is no path.
    func describeRules(
        _ source: [UInt8]?, of call: AdministrativeCall, _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void
    ) {
        guard let path = try? Path(parsing: call.parameter("place") ?? "") else {
            return done(.badRequest, RESTRefusal(.badRequest, "\"place\" is a path such as /users/ada.").body)
        }
        let inForce = rules(of: call.namespace) ?? .denyAll
        Self.describing.async {
            do throws(RulesErrors) {
                let rules = if let source { try RuleSet(parsing: source) } else { inForce }
                done(.ok, rules.summary(at: path).json)
            } catch { done(.ok, RulesAnswer.refused(error).json(details: true)) }
        }
    }
}
