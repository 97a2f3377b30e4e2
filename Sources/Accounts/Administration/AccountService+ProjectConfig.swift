import JSONTree
import WireProtocols

extension AccountService {
    /// What of the settings the admin SDKs know (accounts contract §10, §11).
    var configuration: AccountAnswer {
        AccountAnswer([
            .init("signIn", ["allowDuplicateEmails": false]),
            .init("emailPrivacyConfig", ["enableImprovedEmailPrivacy": .bool(hidesAccounts)]),
        ])
    }

    /// What is there replaces what was; the rest stays. Until the hub ends.
    func mergeConfiguration(_ call: AccountCall) throws -> AccountAnswer {
        try configure(
            duplicates: try call.member("signIn", "allowDuplicateEmails"),
            hiding: try call.member("emailPrivacyConfig", "enableImprovedEmailPrivacy"))
        return configuration
    }

    /// What `updateMask` names is set, to its default where the body does not say; without a mask everything is.
    func replaceConfiguration(_ call: AccountCall) throws -> AccountAnswer {
        let mask = call.request.target.value("updateMask").map { $0.split(separator: ",") }
        func isMeant(_ group: String, _ name: String) -> Bool { mask?.contains { $0 == group || $0 == "\(group).\(name)" } ?? true }
        let duplicates = try call.member("signIn", "allowDuplicateEmails")
        let hiding = try call.member("emailPrivacyConfig", "enableImprovedEmailPrivacy")
        try configure(
            duplicates: isMeant("signIn", "allowDuplicateEmails") ? duplicates : nil,
            hiding: isMeant("emailPrivacyConfig", "enableImprovedEmailPrivacy") ? hiding ?? settings.hidesAccounts : nil)
        return configuration
    }

    private func configure(duplicates: Bool?, hiding: Bool?) throws(AccountError) {
        guard duplicates != true else {
            throw AccountError("OPERATION_NOT_ALLOWED", "Here every address is one account's, allowDuplicateEmails stays false")
        }
        if let hiding { hidesAccounts = hiding }
    }
}

extension AccountCall {
    /// A flag in an object of the body; nil when either is absent.
    fileprivate func member(_ group: String, _ name: String) throws(AccountError) -> Bool? {
        guard let object = body[group], !object.isNull else { return nil }
        guard object.members != nil else { throw .invalid(group, "an object is expected") }
        return try about(object).flag(name)
    }
}
