import HTTPTypes
import HubEngine
import JSONTree
import SecurityRules
import WireProtocols

struct ShimAnswer: Sendable {
    let status: HTTPResponse.Status
    let body: [UInt8]
    func json(details: Bool) -> [UInt8] { body }
}

extension RuleSet { var plainJSON: String { text } }

extension Server {
    func rules(of namespace: String) -> RuleSet? { settings.rules }
    func deployRules(_ source: [UInt8], namespace: String, isDryRun: Bool = false, _ done: @escaping @Sendable (ShimAnswer) -> Void) {
        guard let database = hub.database(namespace) else { return done(ShimAnswer(status: .notFound, body: [])) }
        do throws(RulesErrors) {
            let rules = try RuleSet(parsing: String(decoding: source, as: UTF8.self))
            let ok = ShimAnswer(status: .ok, body: Array("{\"status\":\"ok\"}".utf8))
            if isDryRun { return done(ok) }
            database.replace(rules) { done(ok) }
        } catch { done(ShimAnswer(status: .badRequest, body: RESTRefusal(.badRequest, error.description).body)) }
    }
    func explain(_ body: [UInt8], namespace: String, _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void) {
        done(.notImplemented, RESTRefusal(.notImplemented, "Not yet.").body)
    }
}
