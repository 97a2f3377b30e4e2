import HTTPTypes

extension AccountRoutes {
    /// What administrators ask for (accounts contract §10).
    static let administration: [AccountRoute] = [
        .administration(.post, ["v1/projects/{p}/accounts"]) { try await $0.createAccount($1) },
        .administration(.post, ["v1/projects/{p}/accounts:lookup"]) { try $0.lookUpAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:update"]) { try await $0.updateAccount($1) },
        .administration(.post, ["v1/projects/{p}/accounts:delete"]) { try $0.deleteAccount($1) },
        .administration(.post, ["v1/projects/{p}/accounts:sendOobCode"]) { try await $0.sendCode($1) },
        .administration(.get, ["v1/projects/{p}/accounts:batchGet"]) { try $0.listAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:batchDelete"]) { try $0.deleteAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:batchCreate"], legacy: "uploadAccount") { try await $0.importAccounts($1) },
        .administration(.post, [], legacy: "downloadAccount") { try $0.listAccounts($1) },
        .administration(.post, ["v1/projects/{p}/accounts:query"]) { try $0.queryAccounts($1) },
        .administration(.post, ["v1/projects/{p}:createSessionCookie"]) { try await $0.createSessionCookie($1) },
        .administration(.get, ["v2/projects/{p}/config"]) { service, _ in service.configuration },
        // Elsewhere the options of the program say it, in one place.
        .administration(.patch, ["v2/projects/{p}/config"]) { try $0.replaceConfiguration($1) }.onlyDev,
    ]

    /// What test suites ask of a development hub, without any credential (accounts contract §11).
    static let development: [AccountRoute] = [
        .development(.delete, "accounts") { try $0.deleteEveryAccount($1) },
        .development(.get, "oobCodes") { service, _ in try service.listCodes() },
        .development(.get, "config") { service, _ in service.configuration },
        .development(.patch, "config") { try $0.mergeConfiguration($1) },
        // No code goes to a telephone.
        .development(.get, "verificationCodes") { _, _ in AccountAnswer([.init("verificationCodes", [])]) },
    ]
}

extension AccountRoute {
    /// - Parameters:
    ///   - paths: below `identitytoolkit.googleapis.com/`.
    ///   - legacyName: what it was called before v1.
    fileprivate static func administration(
        _ method: HTTPRequest.Method, _ paths: [String], legacy legacyName: String? = nil, _ operation: @escaping Operation
    ) -> AccountRoute {
        let all = paths.map { "\(identity)/\($0)" } + (legacyName.map { ["\(legacy)/\($0)"] } ?? [])
        return AccountRoute(method, all, .administrators, ofOurProject(operation))
    }

    fileprivate static func development(_ method: HTTPRequest.Method, _ name: String, _ operation: @escaping Operation) -> AccountRoute {
        AccountRoute(method, ["emulator/v1/projects/{p}/\(name)"], .anyone, ofOurProject(operation)).onlyDev
    }

    /// A client's operation that is another one for an administrator who does not act as a user, by an ID token or a mailed code.
    static func either(_ operation: @escaping Operation, administrators other: @escaping Operation) -> Operation {
        let other = ofOurProject(other)
        return { service, call in
            let actsAsUser = call.has("idToken") || call.has("oobCode")
            return call.caller.isAdministrator && !actsAsUser ? try await other(service, call) : try await operation(service, call)
        }
    }

    /// There is one project. Accounts of another would be looked for in vain, and its apps would refuse our tokens.
    /// - Throws: PROJECT_NOT_FOUND
    private static func ofOurProject(_ operation: @escaping Operation) -> Operation {
        { service, call in
            let (asked, ours) = (try call.project ?? call.filled("targetProjectId") ?? service.settings.project, service.settings.project)
            guard asked == ours else {
                throw AccountError(
                    "PROJECT_NOT_FOUND",
                    "The accounts here are those of project \"\(ours)\". Ask for that, or start the hub with --project \(asked.prefix(64))")
            }
            return try await operation(service, call)
        }
    }
}
