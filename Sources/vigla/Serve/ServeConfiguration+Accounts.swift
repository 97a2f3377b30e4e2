import Accounts
import HubServer
import Mail

/// Options about accounts, and their file.
extension ServeConfiguration.Resolver {
    mutating func resolveAccounts() {
        let found = layers.find(.accounts)
        if let found, Checks.flag(found.text) == false { return refuseAccountOptions(found.source) }
        var accounts = accountsBeforeFile
        accounts.project = made.settings.namespace
        var mail = AccountsFile.Mail()
        var network = AccountsFile.Network()
        if let found, Checks.flag(found.text) == nil {
            var file = AccountsFile(found.text, source: found.source)
            file.read(into: &accounts, &mail, &network)
            faults += file.faults
        }
        if let project = value(.project, "1–64 letters, digits, - and _", { Namespace.isValid($0) ? $0 : nil }) {
            accounts.project = project
        }
        accounts.publicURL = value(.publicURL, "an address such as https://hub.example, without a path", Checks.publicURL)
        resolveMail(mail, &accounts)
        resolveDeletion()
        made.settings.accounts = accounts
        made.settings.trustedProxies = network.trustedProxies ?? TrustedProxies()
        if let count = network.requestsOfNetwork { made.settings.limits.accountRequestsOfNetwork = count }
    }

    /// The settings of accounts without a file.
    var accountsBeforeFile: AccountSettings {
        var accounts = AccountSettings()
        accounts.isDev = made.settings.isDev
        // The SDKs' test suites use passwords as short as the API accepts, and `validatePassword` does not know common ones.
        if accounts.isDev {
            accounts.passwords.minLength = 6
            accounts.passwords.refusesCommon = false
        }
        return accounts
    }

    private mutating func refuseAccountOptions(_ source: String) {
        for option in [ServeOption.project, .publicURL, .onAccountDeletion, .smtpURL, .smtpUser, .smtpPasswordFile, .mailFrom] {
            if let found = layers.find(option) { faults.append("\(found.source): there are no accounts (\(source))") }
        }
    }

    private mutating func resolveDeletion() {
        guard let found = layers.find(.onAccountDeletion) else { return }
        var places: [AccountPlace] = []
        for text in found.text.split(separator: ",").map({ String($0.drop { $0 == " " }) }) {
            do throws(AccountPlace.Fault) {
                let place = try AccountPlace(parsing: text)
                if let other = places.first(where: { $0.overlaps(place) }) {
                    faults.append("\(found.source): \(other) and \(place) lie within one another; name the outer one")
                }
                places.append(place)
            } catch { faults.append("\(found.source): \(text): \(error)") }
        }
        made.settings.accountData = places
    }

    private mutating func resolveMail(_ mail: AccountsFile.Mail, _ accounts: inout AccountSettings) {
        let (url, user, file, sender) = (
            layers.find(.smtpURL), layers.find(.smtpUser), layers.find(.smtpPasswordFile), layers.find(.mailFrom))
        guard let url else {
            for found in [user, file, sender].compactMap({ $0 }) { faults.append("\(found.source): there is no mail server (--smtp-url)") }
            return
        }
        var password: String?
        if let file {
            switch WholeFile.read(file.text) {
            case .failure(let fault): faults.append("\(file.source): \(file.text): \(fault)")
            case .success(let bytes):
                password = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
                if password?.isEmpty == true { faults.append("\(file.source): the first line of \(file.text) is empty") }
            }
        }
        if user != nil, file == nil { faults.append("\(user?.source ?? "--smtp-user"): its password is missing (--smtp-password-file)") }
        if user == nil, let file { faults.append("\(file.source): the user is missing (--smtp-user)") }
        guard let sender else { return faults.append("\(url.source): mails need a sender (--mail-from)") }
        guard let from = Checks.sender(sender.text) else {
            return faults.append(
                "\(sender.source): \"\(sender.text)\" is not an address such as app@example.org or 'App <app@example.org>'")
        }
        do throws(SMTPFault) {
            accounts.mail.smtp = try SMTPSettings(
                url: url.text, sender: from, user: password == nil ? nil : user?.text, password: user == nil ? nil : password,
                certificates: mail.certificates, allowsPlaintext: mail.isPlaintext ?? false)
        } catch { faults.append("\(url.source): \(error)") }
    }
}
