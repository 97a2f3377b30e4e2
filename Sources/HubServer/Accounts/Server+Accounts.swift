import Accounts
import DispatchNet
import HTTPTypes
import HubEngine
import Logging
import Synchronization
import WireProtocols

/// The HTTP endpoints of accounts: for the stock Auth SDKs, OAuth 2 clients and the pages behind mailed links (accounts contract §1,
/// §2). The first segment of their paths is no data path.
///
///     request ─► origin ─► AccountService.answer, on its own queue ─► CORS ─► the connection's loop
extension Server {
    private static let accountRoots: Set<String> = [
        "identitytoolkit.googleapis.com", "securetoken.googleapis.com", "www.googleapis.com", "emulator", "oauth2", ".account", ".oauth",
        ".well-known",
    ]

    static func isAccounts(_ target: HTTPTarget) -> Bool {
        guard let first = target.segments.first, accountRoots.contains(first) else { return false }
        // These two are valid keys as well: `/emulator/….json` is data.
        return first != "emulator" && first != "oauth2" || !RESTRequest.isDataPath(target)
    }

    /// Whether this is an administrator's bulk import of accounts.
    static func isImport(_ target: HTTPTarget) -> Bool {
        guard let last = target.segments.last else { return false }
        return last == "uploadAccount" || last.hasSuffix("accounts:batchCreate")
    }

    /// The token of an `Authorization: Bearer` field.
    static func bearer(_ fields: HTTPFields) -> String? {
        guard let value = fields[.authorization], value.utf8.count > 7, value.prefix(7).lowercased() == "bearer " else { return nil }
        return String(value.dropFirst(7))
    }

    func account(_ request: HTTPInboundRequest, _ connection: Connection) -> Route {
        guard let project = authentication.project(for: request.target, host: request.host) else {
            let text = "The accounts of this database cannot be opened: the hub's log has the reason.\n"
            return .response(plain(.serviceUnavailable, text, "text/plain", request))
        }
        guard let accounts = project.accounts else { return .response(nothingHere(request)) }
        // Action pages are opened from mails and post to themselves without an `Origin`; the code in the link authorises them. The key
        // sets are public.
        let second = request.target.segments.dropFirst().first
        let isPublic = second == "action" || request.target.segments.first == ".well-known"
        guard isPublic || origins.permits(request) else { return .response(forbiddenOrigin(request)) }
        let shared = CORS(request, origins)
        if request.method == .options {
            return .response(HTTPResponseEncoder.response(.noContent, fields: shared.preflight, keepsAlive: request.keepsAlive))
        }
        let isHead = request.method == .head
        return .pending { [self] answer in
            let peer = settings.trustedProxies.client(of: request, from: connection.remoteAddress.host)
            guard project.accountRequests.enter(peer) else {
                // No JSON: the SDKs would sign their user out (accounts contract §3.3).
                return answer.send(
                    .serviceUnavailable, shared.added(to: [.contentType: "text/plain", .retryAfter: "1"]),
                    Array("Too much is asked at the moment. Try again later.\n".utf8))
            }
            accounts.perform { accounts in
                let made = await accounts.answer(request, peer: peer)
                project.accountRequests.leave(peer)
                answer.send(made.status, shared.added(to: made.fields), made.body, isHead: isHead)
            }
        }
    }

    /// Applies future changes of a project's accounts to sessions and data, and resumes the removals that the previous process left. Its
    /// databases are open.
    func applyAccountChanges(of project: Project) {
        guard let accounts = project.accounts else { return }
        let removal = AccountRemoval(
            project.database == nil ? settings.accountData : [], ofDatabase: settings.namespace,
            databases: { [hub, authentication] in hub.all.filter { authentication.project(of: $0.name) === project } }, lane: lanes[0],
            accounts: accounts, atOnce: settings.limits.engine.accountWrites, scheduler: scheduler, logger: logger)
        let effects = AccountEffects(lanes, project.database, removal)
        accounts.whenChanged(removesData: true) { effects.apply($0) }
        removal.resume()
    }

    /// Registers a sign-in before its credential is verified; nil when the credential can name no account. On the lane's loop.
    func beginSignIn(_ credential: String?, to database: Database, _ lane: LoopSessions) -> SignIn? {
        guard let project = authentication.project(of: database.name), project.accounts != nil, let credential else { return nil }
        return lane.signIns.begin(credential, of: project.database)
    }
}

/// CORS header fields of account responses (Fetch §3.2). There are no cookies, so a page can do no more than any program.
struct CORS {
    private let origin: String?
    private let headers: String?
    private let mayReachPrivateNetwork: Bool

    private static let privateNetwork = (
        asks: "access-control-request-private-network", allows: HTTPField.Name("Access-Control-Allow-Private-Network"))

    /// - Parameter origins: decides which pages of the internet may reach a hub in the visitor's private network.
    init(_ request: HTTPInboundRequest, _ origins: OriginPolicy) {
        origin = request.fields[.origin]
        headers = request.fields[.accessControlRequestHeaders]
        mayReachPrivateNetwork = origins.names(request)
            && request.fields.contains { $0.name.canonicalName == Self.privateNetwork.asks && $0.value.lowercased() == "true" }
    }

    /// The fields with CORS added. Error responses need it too: without it the page cannot read their status and text.
    func added(to fields: HTTPFields) -> HTTPFields {
        var fields = fields
        fields[.vary] = "Origin"
        if let origin { fields[.accessControlAllowOrigin] = origin }
        return fields
    }

    /// The fields of the response to a preflight request.
    var preflight: HTTPFields {
        var fields = added(to: [.accessControlAllowMethods: "GET, HEAD, PUT, PATCH, POST, DELETE", .accessControlMaxAge: "600"])
        if let headers { fields[.accessControlAllowHeaders] = headers }
        if mayReachPrivateNetwork, let allows = Self.privateNetwork.allows { fields[allows] = "true" }
        return fields
    }
}
