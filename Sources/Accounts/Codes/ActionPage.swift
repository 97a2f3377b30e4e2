import Cryptography
import HTTPTypes
import JSONTree
import Limits
import Logging
import Mail
import WireProtocols

/// The content of a page behind a mailed link (accounts contract §8). Values only: `actionPage` chooses it, `html` renders it.
enum ActionPage: Equatable {
    /// A button that runs the action. GET changes nothing, as mail scanners open links.
    case confirm(CodeKind, email: String, newEmail: String?)
    /// A form for a new password; after a failed attempt with the reason.
    case password(email: String, PasswordWeakness?)
    /// The app signs in by itself; the page links to the continue URL, if any.
    case signIn
    case done(CodeKind, email: String)
    case failed(Fault)

    enum Fault: Equatable {
        /// Unknown, already used, or replaced by a newer code.
        case used
        case expired
        case emailTaken
        case disabled
        case tooMany
        /// The link is missing or truncated.
        case incomplete
        /// A fault of the hub: the store failed.
        case later
    }

    /// The form's hidden fields, which repeat the link's parameters.
    struct Link: Equatable {
        var mode = ""
        var code = ""
        var key = ""
        var language = Language.english
        /// Always an allowed URL.
        var continueURL: ContinueURL?
    }

    var isFault: Bool {
        switch self {
        case .failed: true
        case .password(_, let weakness): weakness != nil
        default: false
        }
    }
}

extension ActionPage.Fault {
    init(_ error: any Error) {
        self = switch (error as? AccountError)?.code {
        case "INVALID_OOB_CODE": .used
        case "EXPIRED_OOB_CODE": .expired
        case "EMAIL_EXISTS": .emailTaken
        case "USER_DISABLED": .disabled
        case "TOO_MANY_ATTEMPTS_TRY_LATER": .tooMany
        default: .later
        }
    }
}

/// The page behind a mailed link (accounts contract §8): GET shows the pending action, POST runs it.
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
        // The sender of a link must not choose its redirect target.
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
                if !(error is AccountError) { faults.log("a mailed link could not be followed", ["why": "\(error)"]) }
                page = .failed(.init(error))
            }
        }
        return answer(page, link, call)
    }

    private func show(_ link: ActionPage.Link, _ call: AccountCall) throws -> ActionPage { Self.question(try peek(link.code, call), nil) }

    /// The page that asks for confirmation before the action.
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
        fields.forbidFrames()
        fields[.xContentTypeOptions] = "nosniff"
        if let name = HTTPField.Name("Referrer-Policy") { fields[name] = "no-referrer" }
        let path = "/" + AccountRoute.path(of: call.request.target).path + (settings.database.map { "?ns=\($0)" } ?? "")
        let html = page.html(link, app: settings.mail.app, path: path, least: settings.passwords.minLength)
        return AccountAnswer(page.isFault ? .badRequest : .ok, fields, Array(html.utf8))
    }
}

extension ActionPage {
    /// Renders the page: one file without scripts, fonts or other resources.
    /// - Parameters:
    ///   - app: the app's name, as users know it.
    ///   - path: the form's action path.
    ///   - least: the minimum length of a password in characters.
    func html(_ link: Link, app: String, path: String, least: Int) -> String {
        let (words, language) = (words(link.language), link.language)
        let labels = Self.labels(language)
        var body = "<h1>\(HTMLText.escape(words.title))</h1>\n"
        for line in words.lines { body += "<p>\(HTMLText.escape(line))</p>\n" }
        switch self {
        case .confirm: body += form(link, path, "", words.button)
        case .password(let email, let weakness):
            // The account is a form field, so that password managers know which account the new password belongs to.
            let why = weakness.map { HTMLText.escape(Self.weakness($0, language)) }
            let about = why.map { "<p class=\"fault\" id=\"fault\" role=\"alert\">\($0)</p>\n" } ?? ""
            let invalid = weakness == nil ? "" : " aria-describedby=\"fault\" aria-invalid=\"true\""
            let fields = """
                <label>\(labels.account)<input type="email" name="email" value="\(HTMLText.escape(email))" \
                autocomplete="username" readonly tabindex="-1"></label>
                <label>\(labels.password)<input type="password" name="newPassword" autocomplete="new-password" \
                minlength="\(least)" required autofocus\(invalid)></label>
                \(about)
                """
            body += form(link, path, fields, words.button)
        case .signIn, .done, .failed:
            if let target = redirectTarget(link) {
                body += "<p><a class=\"button\" href=\"\(HTMLText.escape(target))\">\(labels.continueLink)</a></p>\n"
            }
        }
        let mood = switch self { case .done: "done"; case .failed: "failed"; default: "asks" }
        return """
            <!doctype html>
            <html lang="\(language.rawValue)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="robots" content="noindex">
            <title>\(HTMLText.escape(words.title)) – \(HTMLText.escape(app))</title>
            <style>\(Self.style)</style>
            </head>
            <body>
            <main class="\(mood)">
            <p class="app">\(HTMLText.escape(app))</p>
            \(body)</main>
            </body>
            </html>

            """
    }

    private func form(_ link: Link, _ path: String, _ fields: String, _ button: String) -> String {
        var hidden = [("mode", link.mode), ("oobCode", link.code), ("apiKey", link.key), ("lang", link.language.rawValue)]
        if let target = link.continueURL { hidden.append(("continueUrl", target.text)) }
        let inputs = hidden.map { "<input type=\"hidden\" name=\"\($0)\" value=\"\(HTMLText.escape($1))\">" }.joined(separator: "\n")
        return "<form method=\"post\" action=\"\(path)\">\n\(inputs)\n\(fields)<button>\(HTMLText.escape(button))</button>\n</form>\n"
    }

    /// The link's redirect target: with the whole link for a sign-in in the app, otherwise without the code.
    func redirectTarget(_ link: Link) -> String? {
        guard let target = link.continueURL?.text else { return nil }
        guard self == .signIn else { return target }
        let hash = target.firstIndex(of: "#") ?? target.endIndex
        let parameters = [("mode", link.mode), ("oobCode", link.code), ("apiKey", link.key), ("lang", link.language.rawValue)]
            .map { "\($0)=\(QueryText.encode($1))" }.joined(separator: "&")
        return target[..<hash] + (target[..<hash].contains("?") ? "&" : "?") + parameters + target[hash...]
    }

    /// Fields of the response. The page may use only its own style.
    static let policy = "default-src 'none'; style-src 'sha256-\(Base64.encode(HashFunction.sha256.hash(style.utf8)))'; "
        + "form-action 'self'; base-uri 'none'"

    private static let style = """

        :root{color-scheme:light dark;--paper:#faf9f6;--sheet:#fff;--line:#e4e1d9;--edge:#cfcabf;--ink:#1d2126;--quiet:#666b72;\
        --accent:#0f6286;--on:#fff;--good:#1e7b4b;--bad:#b3362b}
        @media (prefers-color-scheme:dark){:root{--paper:#121518;--sheet:#181c20;--line:#272c31;--edge:#3b424a;--ink:#e7e5df;\
        --quiet:#959ca4;--accent:#6fbedd;--on:#0c1c24;--good:#67c592;--bad:#f08a7d}}
        *{box-sizing:border-box}
        body{margin:0;min-height:100vh;min-height:100dvh;display:grid;place-items:center;padding:24px 16px;background:var(--paper);\
        color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",sans-serif;\
        -webkit-text-size-adjust:100%}
        main{width:100%;max-width:420px;padding:28px;background:var(--sheet);border:1px solid var(--line);\
        border-top:3px solid var(--accent);border-radius:8px}
        main.done{border-top-color:var(--good)}
        main.failed{border-top-color:var(--bad)}
        h1{margin:0 0 12px;font-size:22px;line-height:1.25;font-weight:650;letter-spacing:-.01em;text-wrap:balance}
        p{margin:0 0 12px;overflow-wrap:anywhere}
        .app{margin:0 0 20px;color:var(--quiet);font-size:14px;font-weight:600}
        form{margin:24px 0 0}
        label{display:block;margin:0 0 16px;color:var(--quiet);font-size:14px}
        input{display:block;width:100%;height:44px;margin-top:4px;padding:0 12px;border:1px solid var(--edge);border-radius:6px;\
        background:var(--paper);color:var(--ink);font:inherit;font-size:16px}
        input[readonly]{border-color:transparent;padding:0;height:auto;background:none;font-weight:600;outline:none;\
        text-overflow:ellipsis}
        input[aria-invalid]{border-color:var(--bad)}
        input[type=hidden]{display:none}
        .fault{color:var(--bad);font-size:14px}
        button,.button{display:block;width:100%;min-height:44px;padding:10px 20px;border:0;border-radius:6px;background:var(--accent);\
        color:var(--on);font:inherit;font-weight:600;text-align:center;text-decoration:none;cursor:pointer}
        .button{margin-top:24px}
        main>:last-child,main>:last-child>.button{margin-bottom:0}
        :focus-visible{outline:2px solid var(--accent);outline-offset:2px}

        """
}
