import Foundation
import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Mail

/// The pages behind mailed links, requested as by a browser.
@Suite(.timeLimit(.minutes(30))) struct ActionPageTests {
    private let page = ".account/action"

    /// Opens a mailed link.
    private func open(_ bench: AccountBench, _ link: String?, more: String = "") async throws -> Reply {
        let path = try #require(link?.components(separatedBy: "https://hub.example.org/").last)
        return try await bench.ask(path + more, method: .get, key: false)
    }

    /// Sends the form of a page unchanged, with the given input.
    private func submit(_ bench: AccountBench, _ shown: Reply, _ typed: [String: String] = [:]) async throws -> Reply {
        var fields: [String] = []
        for part in shown.text.components(separatedBy: "<input ").dropFirst() {
            func attribute(_ name: String) -> String? {
                part.components(separatedBy: "\(name)=\"").dropFirst().first?.components(separatedBy: "\"").first
            }
            let name = try #require(attribute("name"))
            let value = typed[name]
                ?? (attribute("value") ?? "").replacingOccurrences(of: "&#39;", with: "'").replacingOccurrences(of: "&amp;", with: "&")
            fields.append("\(name)=\(QueryText.encode(value))")
        }
        let action = try #require(shown.text.components(separatedBy: "action=\"/").dropFirst().first?.components(separatedBy: "\"").first)
        return try await bench.ask(
            action, key: false, fields: [.contentType: "application/x-www-form-urlencoded"], raw: fields.joined(separator: "&"))
    }

    private func mail(_ bench: AccountBench, _ type: String, _ body: [String: String]) async throws -> Message {
        var members: [JSONValue.Member] = [.init("requestType", .string(type))]
        for (name, value) in body { members.append(.init(name, .string(value))) }
        let reply = try await bench.call("sendOobCode", .object(members))
        #expect(reply.status == 200, "\(reply.text)")
        return await bench.mailbox.next()
    }

    @Test func check56_GET_changesNothing_POST_does() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("o'neil+x@example.org")
        let message = try await mail(bench, "VERIFY_EMAIL", ["idToken": try #require(ana["idToken"]?.string)])
        var shown = try await open(bench, message.link)
        for _ in 0..<3 { shown = try await open(bench, message.link) }
        #expect(shown.status == 200 && shown.text.contains("Is o&#39;neil+x@example.org your address?"))
        #expect(shown.text.contains("If you did not make this account, do not confirm"))
        #expect(try await bench.user(ana)["emailVerified"]?.bool == false)
        let done = try await submit(bench, shown)
        #expect(done.status == 200 && done.text.contains("o&#39;neil+x@example.org is confirmed"))
        #expect(try await bench.user(ana)["emailVerified"]?.bool == true)
        let again = try await submit(bench, shown)
        #expect(again.status == 400 && again.text.contains("no longer valid"))
        #expect(try await open(bench, message.link).text.contains("no longer valid"))
    }

    @Test func page_letsNothingIn_andNothingOut() async throws {
        let bench = try AccountBench()
        let reply = try await bench.ask(page + "?mode=verifyEmail&oobCode=x&apiKey=k", method: .get, key: false)
        func field(_ name: String) -> String? { reply.fields.first { $0.name.canonicalName == name }?.value }
        #expect(
            field("referrer-policy") == "no-referrer" && field("cache-control") == "no-store"
            && field("x-content-type-options") == "nosniff")
        #expect(field("content-type") == "text/html; charset=utf-8")
        let policy = try #require(field("content-security-policy"))
        #expect(
            policy.hasPrefix("default-src 'none'; style-src 'sha256-") && policy.contains("frame-ancestors 'none'")
            && policy.contains("form-action 'self'"))
        #expect(field("x-frame-options") == "DENY")
        for outside in ["<script", "http://", "https://", "src=", "url(", "@import", "style=\""] {
            #expect(!reply.text.contains(outside), "\(outside)")
        }
    }

    @Test func password_isReset_throughTheForm() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@example.org")
        let message = try await mail(bench, "PASSWORD_RESET", ["email": "ana@example.org"])
        let shown = try await open(bench, message.link)
        #expect(
            shown.text.contains("value=\"ana@example.org\"") && shown.text.contains("autocomplete=\"new-password\"")
            && shown.text.contains("minlength=\"6\""))
        let weak = try await submit(bench, shown, ["newPassword": "short"])
        #expect(weak.status == 400 && weak.text.contains("at least 6 characters") && !weak.text.contains("\"short\""))
        let done = try await submit(bench, weak, ["newPassword": "καλό & σωστό+1"])
        #expect(done.status == 200 && done.text.contains("Your password is set"))
        #expect(try await bench.signIn("ana@example.org", "καλό & σωστό+1").status == 200)
        #expect(try await bench.signIn("ana@example.org").status == 400)
        let again = try await submit(bench, weak, ["newPassword": "another one"])
        #expect(again.status == 400 && again.text.contains("no longer valid"))
    }

    /// The code determines the action, not the form: a form of one kind with a code of another is refused.
    @Test func code_ofAnotherKind_isRefused() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("ana@example.org")
        let message = try await mail(bench, "VERIFY_EMAIL", ["idToken": try #require(ana["idToken"]?.string)])
        let code = try #require(message.code)
        let form: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
        let wrong = try await bench.ask(
            page, key: false, fields: form, raw: "mode=resetPassword&oobCode=\(code)&apiKey=k&newPassword=battery+staple")
        #expect(wrong.status == 400 && wrong.text.contains("no longer valid"))
        #expect(try await bench.signIn("ana@example.org").status == 200)
        let reset = try await mail(bench, "PASSWORD_RESET", ["email": "ana@example.org"])
        let other = try await bench.ask(
            page, key: false, fields: form, raw: "mode=verifyEmail&oobCode=\(try #require(reset.code))&apiKey=k")
        #expect(other.status == 400)
        #expect(try await open(bench, reset.link).text.contains("Choose a new password"))
    }

    @Test func check55_page_leadsOn_toAllowedHostsOnly() async throws {
        let bench = try AccountBench { $0.continueHosts = ["app.example.org"] }
        _ = try await bench.signUp("ana@example.org")
        let message = try await mail(
            bench, "EMAIL_SIGNIN", ["email": "ana@example.org", "continueUrl": "https://app.example.org/in?a=1#top"])
        let shown = try await open(bench, message.link)
        let code = try #require(message.code)
        #expect(shown.text.contains(
            "href=\"https://app.example.org/in?a=1&amp;mode=signIn&amp;oobCode=\(code)&amp;apiKey=any&amp;lang=en#top\""))
        #expect(!shown.text.contains("ana@example.org"))
        for evil in ["https://evil.example/", "//evil.example", "javascript:alert(1)", "https://app.example.org@evil.example/",
            "https://app.example.org\\@evil.example",
            "\" onmouseover=alert(1) x=\""] {
            let reply = try await bench.ask(
                page + "?mode=signIn&oobCode=\(code)&apiKey=k&continueUrl=\(QueryText.encode(evil))", method: .get, key: false)
            #expect(
                reply.status == 200 && !reply.text.contains("evil") && !reply.text.contains("href") && !reply.text.contains("alert"),
                "\(evil)")
            #expect(reply.fields[.location] == nil)
        }
    }

    @Test func page_isEscaped_whateverTheLinkSays() async throws {
        let bench = try AccountBench { $0.mail.app = "<b>A&B</b>" }
        let ana = try await bench.signUp("ana@example.org")
        let message = try await mail(bench, "VERIFY_EMAIL", ["idToken": try #require(ana["idToken"]?.string)])
        let evil = QueryText.encode("\"><script>alert(1)</script>")
        let reply = try await bench.ask(
            page + "?mode=\(evil)&oobCode=\(try #require(message.code))&apiKey=\(evil)&lang=\(evil)", method: .get, key: false)
        #expect(reply.status == 200 && !reply.text.contains("<script") && reply.text.contains("&lt;b&gt;A&amp;B&lt;/b&gt;"))
    }

    @Test func page_speaksGreek_andSaysWhatIsWrong() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("ana@example.org")
        let message = try await mail(bench, "VERIFY_EMAIL", ["idToken": try #require(ana["idToken"]?.string)])
        let greek = try await bench.ask(
            page + "?mode=verifyEmail&apiKey=k&lang=el&oobCode=\(try #require(message.code))", method: .get, key: false)
        #expect(greek.text.contains("lang=\"el\"") && greek.text.contains("Είναι η ana@example.org δική σας διεύθυνση;"))
        bench.clock.advance(seconds: 4 * 86_400)
        let late = try await submit(bench, greek)
        #expect(late.status == 400 && late.text.contains("Ο σύνδεσμος έληξε"))
        let half = try await bench.ask(page + "?mode=verifyEmail&apiKey=k", fields: [.acceptLanguage: "el"])
        #expect(half.status == 400 && half.text.contains("δεν είναι πλήρης"))
        for language in Language.allCases {
            for fault in [ActionPage.Fault.used, .expired, .emailTaken, .disabled, .tooMany, .incomplete, .later] {
                let words = ActionPage.failed(fault).words(language)
                #expect(!words.title.isEmpty && words.lines.allSatisfy { !$0.isEmpty })
            }
        }
    }

    @Test func codes_areThrottled_onThePageToo() async throws {
        let bench = try AccountBench { $0.throttle.isOn = true }
        var statuses: [String] = []
        for i in 0..<11 {
            statuses.append(try await bench.ask(
                page + "?mode=verifyEmail&apiKey=k&oobCode=guess\(i)", method: .get,
                key: false).text.contains("One moment") ? "wait" : "no")
        }
        #expect(statuses == Array(repeating: "no", count: 10) + ["wait"])
    }

    @Test func emulatorsPage_appliesOnGET_underDevOnly() async throws {
        let bench = try AccountBench { $0.isDev = true }
        let ana = try await bench.signUp("ana@example.org")
        let message = try await mail(bench, "VERIFY_EMAIL", ["idToken": try #require(ana["idToken"]?.string)])
        let query = "?mode=verifyEmail&apiKey=k&oobCode=\(try #require(message.code))"
        #expect(try await AccountBench().ask("emulator/action" + query, method: .get, key: false).status == 404)
        #expect(try await bench.user(ana)["emailVerified"]?.bool == false)
        #expect(try await bench.ask("emulator/action" + query, method: .get, key: false).status == 200)
        #expect(try await bench.user(ana)["emailVerified"]?.bool == true)
    }
}
