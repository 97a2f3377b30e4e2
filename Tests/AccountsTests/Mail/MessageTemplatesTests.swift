import Foundation
import Logging
import Testing
import TestSupport

@testable import Accounts
@testable import Mail

@Suite(.timeLimit(.minutes(30))) struct MessageTemplatesTests {
    private let to = MailAddress("ana@example.org")!
    private let link = "https://hub.example.org/.account/action?mode=x&oobCode=c0de&apiKey=k"

    private func folder(_ files: [String: String]) throws -> String {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("vigla-letters-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, text) in files { try Data(text.utf8).write(to: folder.appendingPathComponent(name)) }
        return folder.path
    }

    @Test func builtIn_areComplete_inBothLanguages() throws {
        let templates = try MessageTemplates(app: "Σήμα & <Co>")
        for kind in MessageKind.allCases {
            for language in Language.allCases {
                let link = kind == .passwordChanged ? nil : link
                let message = try #require(
                    templates.message(
                        kind, language, to: to, email: "ana@example.org", newEmail: "new@example.org", link: link, lifeSeconds: 3600,
                        now: 1_795_314_525_000))
                for part in [message.subject, message.text, message.html] { #expect(!part.contains("{{") && !part.contains("}}")) }
                #expect(message.subject.contains("Σήμα & <Co>") && message.subject.contains("02:28 UTC"))
                #expect(message.html.contains("lang=\"\(language.rawValue)\"") && message.html.contains("Σήμα &amp; &lt;Co&gt;"))
                if let link {
                    #expect(message.text.contains("\n\n\(link)\n"))
                    #expect(message.html.contains("href=\"\(HTMLText.escape(link))\""))
                    #expect(message.text.contains(language == .greek ? "1 ώρα" : "1 hour"))
                }
                // Opening the message fetches nothing.
                #expect(!message.html.contains("src=") && !message.html.contains("url("))
            }
        }
    }

    @Test func ownTemplates_replace_whatTheyName() throws {
        let folder = try folder([
            "resetPassword.en.txt": "Subject: New {{app}} word\nButton: Go\n\nFor {{email}}:\n\n{{link}}\n",
            "signIn.el.txt": "Subject: {{app}}\r\n\r\n{{link}} {{life}}\r\n",
            "signIn.el.html": "<b>{{email}}</b> <a href=\"{{link}}\">{{app}}</a>",
        ])
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let templates = try MessageTemplates(app: "Hub", folder: folder)
        let reset = try #require(templates.message(.resetPassword, .english, to: to, email: "<ana>@x", link: link, now: 0))
        #expect(reset.subject == "New Hub word" && reset.text == "For <ana>@x:\n\n\(link)\n")
        #expect(reset.html.contains("For &lt;ana&gt;@x:") && reset.html.contains(">Go</a>"))
        let signIn = try #require(templates.message(.signIn, .greek, to: to, email: "<ana>@x", link: link, lifeSeconds: 172_800, now: 0))
        #expect(signIn.text == "\(link) 2 ημέρες\n")
        #expect(signIn.html == "<b>&lt;ana&gt;@x</b> <a href=\"\(HTMLText.escape(link))\">Hub</a>")
        #expect(templates.message(.signIn, .english, to: to, email: "a", link: link, now: 0)?.subject.hasPrefix("Sign in to Hub (") == true)
    }

    /// Inserted values are not expanded again.
    @Test func values_areFilledIn_once() throws {
        let message = try #require(
            try MessageTemplates(app: "{{link}}").message(.verifyEmail, .english, to: to, email: "{{app}}@x.org", link: link, now: 0))
        #expect(message.text.contains("{{app}}@x.org") && message.subject.contains("{{link}}"))
    }

    @Test func ownTemplates_areChecked_allAtOnce() throws {
        let folder = try folder([
            "resetPassword.en.txt": "Subject: x\n\nno link", "signIn.en.txt": "Hello {{link}}",
            "verifyEmail.en.txt": "Subject: x\n\n{{link}} {{user}}",
            "verifyEmail.el.txt": "Subject: x\n\n{{link}} {{app", "recoverEmail.en.html": "nothing to press",
            "welcome.en.txt": "Subject: x\n\nx", "notes.md": "fine",
        ])
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let faults = #expect(throws: MessageTemplates.Faults.self) { try MessageTemplates(app: "Hub", folder: folder) }
        let text = faults?.description ?? ""
        #expect(faults?.lines.count == 6, "\(text)")
        for name in [
            "resetPassword.en.txt does not say {{link}}", "signIn.en.txt begins with", "verifyEmail.en.txt says {{user}}",
            "verifyEmail.el.txt has {{", "recoverEmail.en.html", "welcome.en.txt: templates",
        ] {
            #expect(text.contains(name), "\(name)")
        }
        #expect(throws: MessageTemplates.Faults.self) { try MessageTemplates(app: "Hub", folder: folder + "/none") }
    }

    @Test(arguments: [
        (nil, nil, "en"), ("el", nil, "el"), ("el-GR", "en", "el"), ("EL_gr", nil, "el"), ("fr", "el,en;q=0.5", "el"),
        (nil, "fr, en;q=0.2, el;q=0.9", "el"),
        (nil, "en-GB,en;q=0.9,el;q=0.8", "en"), (nil, "el;q=0", "en"), (nil, ";;q=,,", "en"), (nil, "*", "en"),
    ] as [(String?, String?, String)])
    func language_isWhatTheClientAsksFor(_ locale: String?, _ accept: String?, _ expected: String) {
        #expect(Language(locale: locale, acceptLanguage: accept).rawValue == expected)
    }

    @Test func spans_areInWords() {
        #expect([60, 3599, 3600, 7200, 86_400, 172_800].map { Language.english.span(seconds: $0) } == [
            "1 minute", "59 minutes", "1 hour", "2 hours", "24 hours", "2 days",
        ])
        #expect([60, 3600, 7200, 259_200].map { Language.greek.span(seconds: $0) } == ["1 λεπτό", "1 ώρα", "2 ώρες", "3 ημέρες"])
    }

    @Test func service_saysClearly_thatThereIsNoMail() throws {
        var settings = AccountSettings()
        settings.passwords = .quick
        let lines = LineLog()
        var service = try AccountService(settings, folder: nil, logger: lines.logger, scheduler: FakeClock(ms: 0).scheduler)
        #expect(throws: AccountError.self) { try service.mail.address("ana@example.org") }
        settings.isDev = true
        service = try AccountService(settings, folder: nil, logger: lines.logger, scheduler: FakeClock(ms: 0).scheduler)
        #expect(try service.mail.address("ana@example.org").text == "ana@example.org")
        #expect(throws: AccountError("INVALID_EMAIL", "No mail can be sent to this address")) {
            try service.mail.address("άνα@example.org")
        }
    }
}
