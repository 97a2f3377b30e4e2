import HTTPTypes
import WireProtocols

/// One operation of the service and where it is found.
struct AccountRoute: Sendable {
    /// Who may ask for it; an administrator always may.
    enum Callers: Sendable {
        /// With an API key.
        case clients
        case administrators
        case anyone
    }

    /// What its body is read as.
    enum Reading: Sendable {
        /// A JSON object; nothing counts as an empty one.
        case json
        /// The same, or a form whose fields are taken for its members.
        case jsonOrForm
        /// Read by the operation.
        case bytes
    }

    typealias Operation = @Sendable (_ service: isolated AccountService, _ call: AccountCall) async throws -> AccountAnswer

    let method: HTTPRequest.Method
    /// Without a leading slash, percent-decoded, `{p}` for a project: `identitytoolkit.googleapis.com/v1/projects/{p}/accounts`.
    let paths: [String]
    let callers: Callers
    let reading: Reading
    /// Exists only on a development hub.
    var isDevOnly = false
    /// No error of ours may be answered in JSON: a client would sign its user out (accounts contract §3.3).
    var mustNotFail = false
    let operation: Operation

    init(
        _ method: HTTPRequest.Method, _ paths: [String], _ callers: Callers, reads reading: Reading = .json,
        _ operation: @escaping Operation
    ) {
        self.method = method
        self.paths = paths
        self.callers = callers
        self.reading = reading
        self.operation = operation
    }

    static let identity = "identitytoolkit.googleapis.com"
    /// What Apple's and Android's SDKs ask for (accounts contract §1).
    static let legacy = "www.googleapis.com/identitytoolkit/v3/relyingparty"

    /// A client endpoint under its name in v1 and under the one before that.
    /// - Parameter other: what it is for an administrator who does not act as a user.
    static func client(
        _ name: String, _ legacyName: String, administrators other: Operation? = nil, _ operation: @escaping Operation
    ) -> AccountRoute {
        let paths = ["\(identity)/v1/\(name)", "\(legacy)/\(legacyName)"]
        return AccountRoute(.post, paths, .clients, other.map { either(operation, administrators: $0) } ?? operation)
    }

    /// An operation that is known and not built (accounts contract §2.1).
    static func missing(_ method: HTTPRequest.Method, _ paths: String...) -> AccountRoute {
        AccountRoute(method, paths, .clients, reads: .bytes) { _, _ in throw AccountError.notBuilt }
    }

    var neverFails: AccountRoute {
        var route = self
        route.mustNotFail = true
        return route
    }

    var onlyDev: AccountRoute {
        var route = self
        route.isDevOnly = true
        return route
    }

    /// The path of a request as routes have it, and its project; nil also for `-`, which stands for the only one.
    static func path(of target: HTTPTarget) -> (path: String, project: String?) {
        var segments = target.segments
        guard let at = segments.firstIndex(of: "projects"), at + 1 < segments.count else { return (segments.joined(separator: "/"), nil) }
        // `projects/p/accounts` and `projects/p:createSessionCookie`
        let named = segments[at + 1]
        let project = named.prefix { $0 != ":" }
        segments[at + 1] = "{p}" + named.dropFirst(project.count)
        return (segments.joined(separator: "/"), project == "-" ? nil : String(project))
    }
}
