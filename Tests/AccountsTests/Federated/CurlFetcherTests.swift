import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Fetching with the real libcurl from a server on this machine.
@Suite(.timeLimit(.minutes(30))) struct CurlFetcherTests {
    private func answer(_ body: String, _ fields: String = "", status: String = "200 OK") -> String {
        "HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\(fields)\r\n\(body)"
    }

    private func fault(_ fetcher: CurlFetcher, _ url: String) async -> KeyFetchFault? {
        do throws(KeyFetchFault) {
            _ = try await fetcher.fetch(url)
            return nil
        } catch { return error }
    }

    @Test func document_comesWithItsAge() async throws {
        let server = try LocalServer([
            "/aged": answer("abc", "cache-control: public, max-age=77, must-revalidate\r\n"), "/plain": answer("", "X-Age: 5\r\n"),
            "/private": answer("x", "Cache-Control: max-age=9, no-store\r\n"), "/gone": answer("no", status: "404 Not Found"),
            "/chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nabc", "/garbage": "\u{0}\u{1}nonsense\r\n\r\n",
        ])
        defer { server.stop() }
        let fetcher = CurlFetcher(KeyFetchSettings(), isDev: true)
        #expect(try await fetcher.fetch(server.url("/aged")) == FetchedDocument(body: Array("abc".utf8), maxAge: 77))
        #expect(try await fetcher.fetch(server.url("/plain")) == FetchedDocument(body: [], maxAge: nil))
        #expect(try await fetcher.fetch(server.url("/private")).maxAge == 0)
        #expect(try await fetcher.fetch(server.url("/chunked")).body == Array("abc".utf8))
        #expect(await fault(fetcher, server.url("/gone")) == .status(404))
        for path in ["/cut", "/garbage"] {
            guard case .network = await fault(fetcher, server.url(path)) else {
                Issue.record("\(path) was taken")
                continue
            }
        }
    }

    @Test func serviceThatDoesNotAnswer_delaysNoOther() async throws {
        let (silent, server) = (try LocalServer([:]), try LocalServer(["/k": answer("abc")]))
        defer { server.stop() }
        var settings = KeyFetchSettings()
        // The silent fetch has to end with its server, not by a timeout before the other one on a busy machine.
        settings.timeoutSeconds = 3_600
        let (fetcher, ended) = (CurlFetcher(settings, isDev: true), Collected<String>())
        async let waiting: Void = {
            _ = await fault(fetcher, silent.url("/silent"))
            ended.add("silent")
        }()
        #expect(await becomes { !silent.asked.isEmpty })
        #expect(try await fetcher.fetch(server.url("/k")).body == Array("abc".utf8))
        ended.add("other")
        silent.stop()
        await waiting
        #expect(ended.all == ["other", "silent"])
    }

    @Test func protocol_isHTTPS_orHTTPToThisMachineInDevelopment() async throws {
        let server = try LocalServer(["/k": answer("abc")])
        defer { server.stop() }
        let (live, dev) = (CurlFetcher(KeyFetchSettings(), isDev: false), CurlFetcher(KeyFetchSettings(), isDev: true))
        #expect(await fault(live, server.url("/k")) == .scheme)
        #expect(await fault(dev, server.url("/k")) == nil)
        #expect(await fault(dev, "http://localhost:\(server.port)/k") != .scheme)
        for url in [
            "http://example.org/k", "http://127.0.0.1.evil.example/k", "http://127.0.0.1@evil.example/k",
            "http://127.0.0.1:80@evil.example/k",
            "http://localhost.evil.example", "http://127.0.0.1\\@evil.example/k", "ftp://127.0.0.1/k", "file:///etc/passwd",
            "HTTP://127.0.0.1/k", "", "k",
        ] {
            #expect(await fault(dev, url) == .scheme, "\(url)")
            #expect(await fault(live, url) == .scheme, "\(url)")
        }
        // https requires a certificate: this server has none.
        guard case .network = await fault(live, "https://127.0.0.1:\(server.port)/k") else {
            Issue.record("spoke https with a server that does not")
            return
        }
        #expect(server.asked.filter { $0 == "/k" }.count <= 2)
    }

    @Test func redirections_leadToHTTPSOnly() async throws {
        let server = try LocalServer(["/k": answer("abc")])
        defer { server.stop() }
        server.answer("/moved", answer("", "Location: \(server.url("/k"))\r\n", status: "302 Found"))
        server.answer("/file", answer("", "Location: file:///etc/passwd\r\n", status: "302 Found"))
        let fetcher = CurlFetcher(KeyFetchSettings(), isDev: true)
        for path in ["/moved", "/file"] {
            guard case .network = await fault(fetcher, server.url(path)) else {
                Issue.record("\(path) was followed")
                continue
            }
        }
        #expect(!server.asked.contains("/k"))
        var settings = KeyFetchSettings()
        settings.redirects = 0
        #expect(await fault(CurlFetcher(settings, isDev: true), server.url("/moved")) == .status(302))
    }

    @Test func document_hasALongestLength() async throws {
        let body = String(repeating: "x", count: 5000)
        let server = try LocalServer(["/k": answer(body)])
        defer { server.stop() }
        var settings = KeyFetchSettings()
        settings.bytes = 5000
        #expect(try await CurlFetcher(settings, isDev: true).fetch(server.url("/k")).body.count == 5000)
        settings.bytes = 4999
        #expect(await fault(CurlFetcher(settings, isDev: true), server.url("/k")) == .tooLong)
    }

    @Test func silentServer_isLeftAfterItsTime_andFewWaitForIt() async throws {
        let server = try LocalServer([:])
        defer { server.stop() }
        var settings = KeyFetchSettings()
        settings.timeoutSeconds = 1
        settings.waiting = 2
        let fetcher = CurlFetcher(settings, isDev: true)
        await withTaskGroup(of: KeyFetchFault?.self) { group in
            for _ in 0..<6 { group.addTask { await fault(fetcher, server.url("/k")) } }
            var faults: [KeyFetchFault?] = []
            for await fault in group { faults.append(fault) }
            #expect(faults.count { $0 == .tooMany } >= 1)
            #expect(!faults.contains(nil))
        }
        // A finished fetch makes room again.
        guard case .network = await fault(fetcher, server.url("/k")) else {
            Issue.record("no room")
            return
        }
    }

    @Test(arguments: [
        ("Cache-Control: max-age=5", 5), ("cache-control:max-age=\"7\"", 7), ("CACHE-CONTROL: public,  Max-Age = 9 , immutable", 9),
        ("Cache-Control: no-cache", 0),
        ("Cache-Control: max-age=-3", 0), ("Cache-Control: private", nil), ("Cache-Control: max-age=soon", nil), ("Expires: 0", nil),
        ("nonsense", nil),
        ("Cache-Control: s-maxage=5", nil),
    ] as [(String, Int?)])
    func age_isReadFromCacheControl(_ field: String, _ age: Int?) { #expect(CacheControl.maxAge(field: field + "\r\n") == age) }

    /// From a server's key set to a signed-in user, over this machine's network.
    @Test func keysOfAnIssuer_comeOverTheNetwork() async throws {
        let server = try LocalServer([:])
        defer { server.stop() }
        let issuer = server.url("/tenant")
        server.answer("/tenant/.well-known/openid-configuration", answer(#"{"issuer":"\#(issuer)","jwks_uri":"\#(server.url("/keys"))"}"#))
        server.answer("/keys", answer(keySet([TokenKeys.rsa[0]]), "Cache-Control: max-age=600\r\n"))
        let clock = FakeClock()
        var settings = AccountSettings()
        settings.isDev = true
        settings.signingAlgorithm = .es256
        settings.externalIssuers = [ExternalIssuer(issuer: issuer, audiences: ["app"])]
        let service = try AccountService(settings, folder: nil, logger: .silent, scheduler: clock.scheduler)
        let claims: Claims = ["iss": .string(issuer), "aud": "app", "sub": "u", "exp": .int(clock.seconds + 60)]
        let token = try TokenKeys.rsa[0].sign(claims)
        for _ in 0..<3 {
            let result = await withCheckedContinuation { continuation in
                service.verify(token, leeway: 0) { continuation.resume(returning: $0) }
            }
            #expect(try result.get().uid == "u")
        }
        #expect(server.asked == ["/tenant/.well-known/openid-configuration", "/keys"])
    }
}
