import Dispatch
public import HTTPTypes
import HubEngine
import JSONTree
import SecurityRules

extension Server {
    /// Queue for explanations, off databases and net loops, because explaining a wide write evaluates many rules.
    private static let explaining = DispatchQueue(label: "vigla.explain", qos: .utility)

    /// Explains to an administrator how the rules in force would decide one operation on the current content. Changes nothing.
    ///
    /// The body is one case of `vigla rules test` without expectation; the response is a `RuleTrace` as JSON (docs/rules.md).
    /// - Parameter done: called once, on an arbitrary queue: 200 with the explanation, or 400 or 404 with `{"error":…}`.
    public func explain(_ body: [UInt8], namespace: String, _ done: @escaping @Sendable (HTTPResponse.Status, [UInt8]) -> Void) {
        let inquiry: ExplainRequest
        do throws(ExplainRequest.Fault) { inquiry = try ExplainRequest(body) } catch { return done(.badRequest, Self.fault(error.text)) }
        hub.open(namespace) { database in
            guard let database else { return done(.notFound, Self.fault("Unknown namespace: \(namespace.prefix(64))")) }
            let answer: @Sendable (RuleQuestion) -> Void = { question in
                Self.explaining.async {
                    let trace = question.explained()
                    done(.ok, trace.json(auth: question.auth, now: question.now, position: question.position))
                }
            }
            switch inquiry.operation {
            case .read(let path, let query): database.pose(readOf: path, query: query, auth: inquiry.auth, now: inquiry.now, answer)
            case .count(let path, let query):
                database.pose(readOf: path, query: query, isCount: true, auth: inquiry.auth, now: inquiry.now, answer)
            case .write(let writes):
                database.pose(writes, auth: inquiry.auth, now: inquiry.now) { result in
                    switch result {
                    case .success(let question): answer(question)
                    case .failure(let failure): done(.badRequest, Self.fault(failure.message))
                    }
                }
            }
        }
    }

    private static func fault(_ text: String) -> [UInt8] { JSONValue.object([.init("error", .string(text))]).line }
}
