import Dispatch
import DispatchNet
import Glibc
import HubEngine
import JSONTree
import Synchronization
import TestHub
import Testing
import TestSupport
@testable import HubServer

/// Signed tokens are checked off the net loops, in turns, and up to a bound.
@Suite(.timeLimit(.minutes(30))) struct TokenCheckTests {
    /// Refuses tokens that do not begin with "good", and counts. A gate holds each check.
    private final class Verifier: TokenVerifier {
        private struct State {
            var checked: [String] = []
            var known: Set<String> = []
        }
        private let state = Mutex(State())
        let gate: DispatchSemaphore?
        let failure: Failure
        let onCheck: @Sendable () -> Void

        init(gate: DispatchSemaphore? = nil, failure: Failure = Credentials.badToken, onCheck: @escaping @Sendable () -> Void = {}) {
            (self.gate, self.failure, self.onCheck) = (gate, failure, onCheck)
        }

        var checked: [String] { state.withLock { $0.checked } }

        func remembered(_ token: String) -> Identity? { state.withLock { $0.known.contains(token) } ? .anonymous : nil }

        func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
            gate?.wait()
            onCheck()
            let isGood = token.hasPrefix("good")
            state.withLock { state in
                state.checked.append(token)
                if isGood { state.known.insert(token) }
            }
            done(isGood ? .success(.anonymous) : .failure(failure))
        }
    }

    /// The results of checks, in the order of their answers.
    private final class Answers: Sendable {
        private let answers = Mutex<[(token: String, failure: Failure?)]>([])
        private let arrived = DispatchSemaphore(value: 0)

        func ask(_ checks: TokenChecks, _ token: String, of address: String?) {
            checks.verify(token, of: { address }) { [self] result in
                answers.withLock { answers in
                    if case .failure(let failure) = result { answers.append((token, failure)) } else { answers.append((token, nil)) }
                }
                arrived.signal()
            }
        }

        /// Waits for this many more.
        func wait(_ count: Int) { for _ in 0..<count { #expect(arrived.wait(timeout: .now() + 20) == .success) } }
        var tokens: [String] { answers.withLock { $0.map(\.token) } }
        func count(_ failure: Failure?) -> Int { answers.withLock { $0.count { $0.failure == failure } } }
    }

    private func limits(_ change: (inout ServerLimits) -> Void) -> ServerLimits {
        var limits = ServerLimits()
        limits.tokenChecks = 1
        change(&limits)
        return limits
    }

    /// Numbers of running and waiting checks.
    private func counts(_ checks: TokenChecks) -> [Int] { [checks.counts.running, checks.counts.waiting] }

    @Test func addresses_haveTurns() {
        let verifier = Verifier(gate: DispatchSemaphore(value: 0))
        let checks = TokenChecks(verifier, limits { _ in }, FakeClock().scheduler)
        let answers = Answers()
        for number in 1...5 { answers.ask(checks, "a\(number)", of: "a") }
        for number in 1...2 { answers.ask(checks, "b\(number)", of: "b") }
        answers.ask(checks, "own", of: nil)
        for _ in 1...8 { verifier.gate?.signal() }
        answers.wait(8)
        // The thread may have taken the first one before the others arrived.
        let order = answers.tokens.filter { $0 != "a1" }
        #expect(order.prefix(4).filter { $0.hasPrefix("a") }.count <= 2, "\(order)")
        #expect(Array(order.suffix(2)) == ["a4", "a5"], "\(order)")
        while counts(checks) != [0, 0] { usleep(1000) }
    }

    @Test func whatWaits_isBounded_ofOneAddress_andOfAll() {
        let cost = 2 + TokenChecks.overheadBytes
        let verifier = Verifier(gate: DispatchSemaphore(value: 0))
        let checks = TokenChecks(verifier, limits { $0.tokenCheckBytes = 40 * cost }, FakeClock().scheduler)
        let answers = Answers()
        answers.ask(checks, "xx", of: "z")
        while counts(checks) != [1, 0] { usleep(1000) }
        for number in 10..<21 { answers.ask(checks, "\(number)", of: "a") }
        #expect(answers.count(TokenChecks.tooMuchWaits) == 1, "a quarter, and no more")
        #expect(answers.tokens == ["20"])
        for address in ["b", "c"] { for number in 10..<20 { answers.ask(checks, "\(number)", of: address) } }
        for number in 10..<20 { answers.ask(checks, "\(number)", of: nil) }
        #expect(answers.tokens == ["20"])
        #expect(counts(checks) == [1, 40])
        answers.ask(checks, "99", of: nil)
        answers.ask(checks, "98", of: "d")
        #expect(answers.tokens == ["20", "99", "98"])
        for _ in 0..<41 { verifier.gate?.signal() }
        answers.wait(44)
        answers.ask(checks, "97", of: "d")
        verifier.gate?.signal()
        answers.wait(1)
        #expect(answers.count(TokenChecks.tooMuchWaits) == 3)
        #expect(verifier.checked.count == 42)
    }

    @Test func refusedTokens_ofAnAddress_endItsChecks_forAWhile() {
        let clock = FakeClock()
        let verifier = Verifier()
        let checks = TokenChecks(verifier, limits { $0.refusedTokensPerMinute = 20 }, clock.scheduler)
        let answers = Answers()
        func ask(_ token: String, of address: String?) {
            answers.ask(checks, token, of: address)
            answers.wait(1)
        }
        ask("good 1", of: "a")
        for number in 0..<20 { ask("bad \(number)", of: "a") }
        #expect(answers.count(Credentials.badToken) == 20)
        #expect(answers.count(TokenChecks.tooManyRefused) == 0)
        for number in 20..<30 { ask("bad \(number)", of: "a") }
        ask("good 2", of: "a")
        #expect(answers.count(TokenChecks.tooManyRefused) == 11)
        #expect(verifier.checked.count == 21, "nothing is checked any more")
        // A token checked before is still accepted, but not for other addresses.
        ask("good 1", of: "a")
        ask("good 3", of: "b")
        for number in 0..<100 { ask("bad \(number)", of: nil) }
        #expect(answers.count(TokenChecks.tooManyRefused) == 11)
        // A twentieth of a minute later there is one more; valid tokens do not use it up.
        clock.advance(ms: 3_000)
        ask("good 2", of: "a")
        ask("good 4", of: "a")
        #expect(answers.count(TokenChecks.tooManyRefused) == 11)
        ask("bad", of: "a")
        ask("good 5", of: "a")
        #expect(answers.count(TokenChecks.tooManyRefused) == 12)
    }

    @Test func checksThatWait_areNotMade_whenTheirAddressIsOverMeanwhile() {
        let verifier = Verifier(gate: DispatchSemaphore(value: 0))
        let checks = TokenChecks(verifier, limits { $0.refusedTokensPerMinute = 5 }, FakeClock().scheduler)
        let answers = Answers()
        for number in 0..<100 { answers.ask(checks, "bad \(number)", of: "a") }
        for _ in 0..<100 { verifier.gate?.signal() }
        answers.wait(100)
        #expect(verifier.checked.count == 5)
        #expect(answers.count(TokenChecks.tooManyRefused) == 95)
    }

    @Test func tokensThatCannotBeChecked_areNotCounted() {
        let verifier = Verifier(failure: Failure(.unavailable, "later"))
        let checks = TokenChecks(verifier, limits { $0.refusedTokensPerMinute = 5 }, FakeClock().scheduler)
        let answers = Answers()
        for number in 0..<50 {
            answers.ask(checks, "bad \(number)", of: "a")
            answers.wait(1)
        }
        #expect(verifier.checked.count == 50)
    }

    @Test func addressesThatNothingStandsAgainst_areForgotten() {
        var refused = RefusedTokens(perMinute: 1000)
        for number in 0..<10_000 { refused.add("a\(number)", Int64(number)) }
        #expect(refused.known < 2_100)
        #expect(!refused.isFull("a1", 0))
    }

    // MARK: Over sockets

    private func auth(_ number: Int, _ credential: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"auth","b":{"cred":"\#(credential)"}}}"#
    }

    @Test func loops_checkNothing_andAnswersKeepTheirOrder() throws {
        let seen = SeenLanes()
        let verifier = Verifier { seen.look() }
        let server = try TestServer { $0.tokens = verifier }
        seen.lanes.withLock { $0 = server.server.lanes }
        let socket = try server.realtime().socket
        for number in 1...5 {
            try socket.sendText(auth(2 * number, number.isMultiple(of: 2) ? "bad.token.x" : "good.token.x"))
            try socket.sendText(#"{"t":"d","d":{"r":\#(2 * number + 1),"a":"s","b":{}}}"#)
        }
        for number in 2...11 { #expect(try socket.text().contains(#""r":\#(number),"#)) }
        let rest = try TestSocket(port: server.port)
        #expect(try rest.get("/a.json?ns=test&auth=bad.token.x").status == 401)
        #expect(try rest.get("/a.json?ns=test&auth=good.token.y").status == 200)
        #expect(verifier.checked == ["good.token.x", "bad.token.x", "bad.token.x", "bad.token.x", "good.token.y"])
        let isOnLoop = seen.aLoop.load(ordering: .relaxed)
        #expect(!isOnLoop)
    }

    /// Records the loops seen at work.
    private final class SeenLanes: Sendable {
        let lanes = Mutex<[LoopSessions]>([])
        let aLoop = Atomic(false)

        func look() {
            if lanes.withLock({ $0.contains { $0.loop.isOnLoop } }) { aLoop.store(true, ordering: .relaxed) }
        }
    }

    @Test func refusedTokens_areCountedOverConnections_andProtocols() throws {
        let verifier = Verifier()
        let server = try TestServer {
            $0.tokens = verifier
            $0.limits.refusedTokensPerMinute = 25
            $0.limits.admission.countsLoopback = true
        }
        for _ in 0..<2 {
            let socket = try server.realtime().socket
            for number in 1...10 { try socket.sendText(auth(number, "bad.token.x")) }
            #expect(try socket.closeCode() == 1008)
        }
        let rest = try TestSocket(port: server.port)
        for _ in 0..<4 { #expect(try rest.get("/a.json?ns=test&auth=bad.token.x").status == 401) }
        let good = try server.realtime().socket
        try good.sendText(auth(1, "good.token.x"))
        #expect(try good.text().contains(#""s":"ok""#))
        #expect(try rest.get("/a.json?ns=test&auth=bad.token.x").status == 401)
        // One every 2.4 s from here on, so few that a slow machine still sees refusals.
        var refused = 0
        for _ in 0..<20 { refused += try rest.get("/a.json?ns=test&auth=bad.token.x").status == 503 ? 1 : 0 }
        #expect(refused > 0)
        #expect(verifier.checked.count == 26 + 20 - refused)
        #expect(try rest.get("/a.json?ns=test&auth=good.token.x").status == 200)
    }
}
