import HTTPTypes
import JSONTree
import Limits
import Logging
import Mail
import WireProtocols

/// The page behind a mailed link (accounts contract §8): GET shows what will happen, POST does it.
extension AccountService {
    func actionPage(_ call: AccountCall, applies: Bool) async throws -> AccountAnswer {
        let isForm = call.request.method == .post
        let form = isForm ? FormFields(call.request.body) : nil
        func field(_ name: String) -> String? { isForm ? form?[name] : call.request.target.value(name) }

        var link = ActionPage.Link()
        link.mode = field("mode") ?? ""
        link.code = field("oobCode") ?? ""
        link.key = field("apiKey") ?? ""
        link.language = Language(locale: field("lang"), acceptLanguage: call.request.fields[.acceptLanguage])
        // The sender of a link must not choose where it leads on to.
        link.continueURL = try? continueURL(field("continueUrl"))
        let page: ActionPage
        if link.code.isEmpty || link.key.isEmpty || link.code.utf8.count > 512 || link.key.utf8.count > 512 {
            page = .failed(.incomplete)
        } else {
            do {
                page = try await applies ? act(link, newPassword: field("newPassword"), call) : show(link, call)
            } catch AccountStoreFault.closed {
                return .unavailable
            } catch {
                if !(error is AccountError) { faults.tell("a mailed link could not be followed", ["why": "\(error)"]) }
                page = .failed(.init(error))
            }
        }
        return answer(page, link, call)
    }

    private func show(_ link: ActionPage.Link, _ call: AccountCall) throws -> ActionPage { Self.question(try peek(link.code, call), nil) }

    /// What is asked before anything is done.
    private static func question(_ code: MailedCode, _ weakness: PasswordWeakness?) -> ActionPage {
        switch code.kind {
        case .resetPassword: .password(email: code.email, weakness)
        case .signIn: .signIn
        case .verifyEmail, .verifyAndChangeEmail, .recoverEmail: .confirm(code.kind, email: code.email, newEmail: code.newEmail)
        }
    }

    private func act(_ link: ActionPage.Link, newPassword: String?, _ call: AccountCall) async throws -> ActionPage {
        switch link.mode {
        case MessageKind.signIn.rawValue: return try show(link, call)
        case MessageKind.resetPassword.rawValue:
            guard let newPassword else { return try show(link, call) }
            if let weakness = PasswordWeakness(newPassword, settings.passwords) {
                return Self.question(try peek(link.code, call), weakness)
            }
            let code = try await resetPassword(by: link.code, to: newPassword, call)
            return .done(.resetPassword, email: code.email)
        default:
            let (account, code) = try apply(code: link.code, call)
            return .done(code.kind, email: account.email ?? code.email)
        }
    }

    private func answer(_ page: ActionPage, _ link: ActionPage.Link, _ call: AccountCall) -> AccountAnswer {
        var fields: HTTPFields = [.contentType: "text/html; charset=utf-8", .cacheControl: "no-store"]
        fields[.contentLanguage] = link.language.rawValue
        fields[.contentSecurityPolicy] = ActionPage.policy
        fields[.xContentTypeOptions] = "nosniff"
        if let name = HTTPField.Name("Referrer-Policy") { fields[name] = "no-referrer" }
        let path = "/" + AccountRoute.path(of: call.request.target).path
        let html = page.html(link, app: settings.mail.app, path: path, least: settings.passwords.minLength)
        return AccountAnswer(page.isFault ? .badRequest : .ok, fields, Array(html.utf8))
    }
}
