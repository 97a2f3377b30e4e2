import JSONTree
import WireProtocols

extension AccountService {
    /// `projects/{p}/accounts:batchGet`: a page of all accounts in the order of their ids, behind `nextPageToken`, the last id of the
    /// page before. No `users` when there are none any more (accounts contract §10).
    func listAccounts(_ call: AccountCall) throws -> AccountAnswer {
        let limit = try call.count("maxResults", 1...settings.listedAtOnce) ?? min(20, settings.listedAtOnce)
        let page = try store.read { try $0.accounts(after: call.parameter("nextPageToken") ?? "", limit: limit) }
        var members: [JSONValue.Member] = []
        members.add("users", page.isEmpty ? nil : .array(page.map { $0.entry(forAdministrator: true) }))
        members.add("nextPageToken", page.count == limit ? page.last?.id : nil)
        return AccountAnswer(kind: "DownloadAccountResponse", members)
    }

    /// `projects/{p}/accounts:query`: how many accounts there are, or a part of them by its place; in the order of their ids only.
    func queryAccounts(_ call: AccountCall) throws -> AccountAnswer {
        let isByID = [nil, "USER_ID", "SORT_BY_FIELD_UNSPECIFIED"].contains(try call.text("sortBy"))
        guard isByID, try call.objects("expression").isEmpty else { throw AccountError.notBuilt }
        guard try call.flag("returnUserInfo") ?? true else {
            let count = try store.read { try $0.accountCount() }
            return AccountAnswer([.init("recordsCount", .string(String(count)))])
        }
        let limit = try call.count("limit", 1...settings.listedAtOnce) ?? settings.listedAtOnce
        let offset = try call.count("offset", 0...Int.max) ?? 0
        let isDescending = try call.text("order") == "DESC"
        let found = try store.read { try $0.accounts(offset: offset, limit: limit, isDescending: isDescending) }
        var members: [JSONValue.Member] = [.init("recordsCount", .string(String(found.count)))]
        members.add("userInfo", found.isEmpty ? nil : .array(found.map { $0.entry(forAdministrator: true) }))
        return AccountAnswer(members)
    }
}

extension AccountCall {
    /// A number of the query or of the body; nil when it is absent.
    fileprivate func count(_ name: String, _ range: ClosedRange<Int>) throws(AccountError) -> Int? {
        let value = request.target.value(name).map(JSONValue.string) ?? body[name]
        guard let value, !value.isNull else { return nil }
        guard let number = value.int.flatMap({ Int(exactly: $0) }), range.contains(number) else {
            throw .invalid(name, "an integer from \(range.lowerBound) to \(range.upperBound) is expected")
        }
        return number
    }

    /// A text of the query or of the body.
    fileprivate func parameter(_ name: String) -> String? { request.target.value(name) ?? body[name]?.string }
}
