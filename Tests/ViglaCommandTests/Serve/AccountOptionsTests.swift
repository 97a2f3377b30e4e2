import Foundation
import Testing
import TestSupport

/// Options of `vigla serve` about accounts, in all their forms, and their file.
@Suite(.timeLimit(.minutes(30))) struct AccountOptionsTests {
    private func faults(_ arguments: [String], _ environment: [String: String] = [:], in folder: TemporaryFolder? = nil) throws -> String {
        let result = try Command.run(["serve", "--port", "0", "--memory"] + arguments, environment: environment, in: folder?.url)
        #expect(result.code == 78, "\(result.error)")
        return result.error
    }

    @Test func accountsAreThere_unlessTheyAreOff() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--project", "my-app", "--public-url", "https://hub.example/"])
        let found = try hub.page("/.well-known/openid-configuration")
        #expect(found.contains("securetoken.google.com") && found.contains("my-app") && found.contains(
            "https://hub.example/.well-known/jwks.json"), "\(found)")
        #expect(try hub.page("/").contains(#"{"hub":"vigla","#))
        let open = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(try open.page("/").contains(#"{"authEmulator":{"ready":true}}"#))
        let plain = try RunningHub(["--port", "0", "--memory"])
        #expect(try plain.page("/.well-known/openid-configuration").contains("\(plain.url)/.oauth/token"))
        let without = try RunningHub(["--port", "0", "--memory", "--accounts", "off"])
        #expect(try without.page("/.well-known/jwks.json").contains("404"))
        #expect(try without.page("/").contains(#"{"hub":"vigla","#))
    }

    @Test func everyOption_hasAnEnvironmentFormAndAKeyOfTheFile() throws {
        let folder = try TemporaryFolder()
        let password = try folder.file("password.txt", "geheim\n")
        let accounts = try folder.file("accounts.json", #"{"signing":"ES256"}"#)
        let values = [
            "accounts": accounts, "project": "app", "public-url": "https://hub.example",
            "on-account-deletion": "/users/$uid,/presence/$uid",
            "smtp-url": "smtps://mail.example", "smtp-user": "hub", "smtp-password-file": password, "mail-from": "App <app@example.org>",
        ]
        let environment = Dictionary(
            uniqueKeysWithValues: values.map { ("VIGLA_" + $0.key.uppercased().replacing("-", with: "_"), $0.value) })
        let one = try RunningHub(["--port", "0", "--memory"], environment: environment, folder: folder)
        #expect(try one.page("/.well-known/openid-configuration").contains("ES256"))
        let config = try folder.file("hub.json", String(decoding: try JSONSerialization.data(withJSONObject: values), as: UTF8.self))
        let two = try RunningHub(["--port", "0", "--memory", "--config", config], folder: folder)
        #expect(try two.page("/.well-known/openid-configuration").contains("https://hub.example/.oauth/token"))
        #expect(!one.error.contains("geheim") && !two.error.contains("geheim"))
    }

    @Test func file_setsWhatItSays() throws {
        let folder = try TemporaryFolder()
        let key = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----\n"
        _ = try folder.file("broken.pem", key)
        let file = try folder.file("accounts.json", """
            {"sign-up":"admin","anonymous":false,"min-password":12,"signing":"ES256","recent-login-seconds":0,"idle-days":90,\
            "continue-hosts":["app.example"],
             "throttle":{"free-failures":9,"longest-wait-seconds":60,"failures-until-locked":50,"lock-seconds":3600,\
             "failures-per-account-and-network":"9/min",
             "failures-per-network":"1000/2h","passwords-per-network":"9000/15min","passwords-at-once-per-network":200,\
             "sign-ups-per-network":"50/d",
             "mails-per-address":"3/h","mails-per-network":"9/h","codes-per-network":"100/30s","requests-at-once-per-network":500},
             "sessions-per-account":5,"rotate-refresh-tokens":"all","trusted-proxies":["127.0.0.1","10.0.0.0/8"],
             "enumeration-protection":false,"email-links":false,"passwords":true,"refuse-common-passwords":false,"mail":{"app":"City"},
             "google":{"client-ids":["1.apps.example"],"hosted-domain":"x.org"},"apple":{"client-ids":["org.example.app"]},
             "oidc":{"oidc.school":{"issuer":"https://login.school","client-ids":["c"],"keys":"https://login.school/keys","nonce":true,\
             "authoritative-domains":["School.example","staff.school.example"]}},
             "issuers":[{"issuer":"https://idp.example","audiences":["a"]}]}
            """)
        let hub = try RunningHub(["--port", "0", "--memory", "--accounts", file], folder: folder)
        func signUp(_ body: String) throws -> String {
            let connection = try hub.connection()
            try connection.write(contentsOf: Data(("POST /identitytoolkit.googleapis.com/v1/accounts:signUp?key=k HTTP/1.1\r\nHost: "
                + "localhost\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8))
            return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
        }
        #expect(try signUp("{}").contains("ADMIN_ONLY_OPERATION") || signUp("{}").contains("OPERATION_NOT_ALLOWED"))
        let refused = try signUp(#"{"email":"a@x.org","password":"long enough it is"}"#)
        #expect(refused.contains("ADMIN_ONLY_OPERATION") || refused.contains("OPERATION_NOT_ALLOWED"), "\(refused)")
    }

    @Test func throttleOfTheFile_isInForce_andProxiesAreBelieved() throws {
        let folder = try TemporaryFolder()
        let file = try folder.file(
            "accounts.json", #"{"signing":"ES256","throttle":{"sign-ups-per-network":"2/h"},"trusted-proxies":["127.0.0.1","::1"]}"#)
        let hub = try RunningHub(["--port", "0", "--memory", "--accounts", file], folder: folder)
        func signUp(_ client: String) throws -> Bool {
            let connection = try hub.connection()
            try connection.write(contentsOf: Data(("POST /identitytoolkit.googleapis.com/v1/accounts:signUp?key=k HTTP/1.1\r\nHost: "
                + "localhost\r\nX-Forwarded-For: \(client)\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}").utf8))
            let answer = String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
            #expect(answer.contains("\"idToken\"") != answer.contains("TOO_MANY_ATTEMPTS_TRY_LATER : Try again in 30 min"), "\(answer)")
            return answer.contains("\"idToken\"")
        }
        #expect(try [
            signUp("198.51.100.7"), signUp("203.0.113.9, 198.51.100.7"), signUp("198.51.100.7"), signUp("198.51.100.8"),
        ] == [true, true, false, true])
    }

    @Test func allFaults_areReportedTogether() throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("none.pem", "no key")
        let file = try folder.file("accounts.json", """
            {"throttle":{"codes-per-network":"9","mails-per-network":"0/h","sign-ups-per-network":"1/y","free-failures":0,"more":1},\
            "trusted-proxies":["10.0.0.0/40"],"sign-up":"maybe","anonymous":"no","min-password":3,"unknown":1,"google":{"client-ids":[]},\
            "rotate-refresh-tokens":"sometimes",\
            "oidc":{"school":{"issuer":"http://x","client-ids":["c"],"authoritative-domains":["@x.org","*.x.org","org","a..b","gmail.com"]}},
             "issuers":[{"issuer":"https://x","audience":["a"]}],"custom-token-keys":{"svc":"none.pem","other":"absent.pem"},\
             "anonymous":true}
            """)
        let text = try faults([
            "--accounts", file, "--project", "a b", "--public-url", "hub.example/x", "--on-account-deletion",
            "/users,/a/$uid,/a/$uid/b,/x/$uid/a.b", "--smtp-url", "http://mail",
            "--smtp-user", "u", "--mail-from", "nobody",
        ], in: folder)
        for fault in [
            #""throttle": "codes-per-network": expected a rate such as "100/h""#, #""throttle": "mails-per-network": expected a rate"#,
            #""throttle": "sign-ups-per-network": expected a rate"#, #""throttle": "free-failures": expected a whole number (1…1000)"#,
            #""throttle": there is no "more" here"#,
            #""trusted-proxies": "10.0.0.0/40" is neither"#,
            #""sign-up": expected "open" or "admin""#, #""anonymous": given more than once"#,
            #""min-password": expected a whole number (6…128)"#, #"there is no "unknown" here"#,
            #""google": "client-ids": name the app's own ids"#,
            #""oidc": "school": "issuer": expected an address that begins with https://"#, #""issuers"[0]: there is no "audience" here"#,
            #""rotate-refresh-tokens": expected "never" or "oauth" or "all""#, #""authoritative-domains": "@x.org" is not a domain"#,
            #""*.x.org" is not a domain"#, #""org" is not a domain"#, #""a..b" is not a domain"#,
            #""authoritative-domains": google.com gives out the addresses of gmail.com"#,
            #""issuers"[0]: "audiences": name the values"#, #""svc": none.pem holds no public RSA key"#,
            #""other": absent.pem: no such file"#, "--project: \"a b\" is not",
            "--public-url: \"hub.example/x\" is not", "--on-account-deletion: /users: there is no $uid",
            "/a/$uid and /a/$uid/b lie within one another", "\"a.b\" cannot be a key",
            "--smtp-user: its password is missing", "--mail-from: \"nobody\" is not an address",
        ] { #expect(text.contains(fault), "\(fault)\n\(text)") }
        #expect(try faults(["--accounts", "absent.json"], in: folder).contains("cannot read absent.json"))
        _ = try folder.file("broken.json", "{\"sign-up\":")
        #expect(try faults(["--accounts", "broken.json"], in: folder).contains("is not JSON (byte"))
        #expect(try faults(["--accounts", "off", "--project", "a"]).contains("--project: there are no accounts (--accounts)"))
        #expect(try faults(["--smtp-user", "a"]).contains("there is no mail server"))
        #expect(try faults(["--smtp-url", "smtps://m"]).contains("mails need a sender"))
    }

    /// `validatePassword` of the SDKs knows only the lengths; a development hub accepts every password that it accepts.
    @Test func developmentHub_takesWhatItsPolicyAccepts() throws {
        func signUp(_ hub: RunningHub, _ password: String) throws -> String {
            let connection = try hub.connection()
            let body = #"{"email":"a\#(password.utf8.count)@x.org","password":"\#(password)"}"#
            try connection.write(contentsOf: Data(("POST /identitytoolkit.googleapis.com/v1/accounts:signUp?key=k HTTP/1.1\r\nHost: "
                + "localhost\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8))
            return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
        }
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        #expect(try hub.page("/identitytoolkit.googleapis.com/v2/passwordPolicy?key=k").contains(#""minPasswordLength":6,"#))
        for password in ["123456", "password"] { #expect(try signUp(hub, password).contains("\"idToken\""), "\(password)") }
        #expect(try signUp(hub, "12345").contains("WEAK_PASSWORD"))
        let folder = try TemporaryFolder()
        let file = try folder.file("accounts.json", #"{"signing":"ES256","refuse-common-passwords":true}"#)
        let strict = try RunningHub(["--port", "0", "--memory", "--dev", "--accounts", file], folder: folder)
        #expect(try signUp(strict, "123456").contains("WEAK_PASSWORD"))
    }

    @Test func help_groupsThem() throws {
        let help = try Command.run("serve", "--help").output
        #expect(help.contains("ACCOUNTS:") && help.contains("--on-account-deletion"))
    }
}
