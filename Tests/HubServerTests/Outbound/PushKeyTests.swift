import Foundation
import Journal
import JSONTree
import Logging
import Outbound
import Synchronization
import TestHub
import TestSupport
import Testing

@testable import HubServer

/// The key for push services: created once, kept with the data, and public at `/.push/key`.
@Suite(.timeLimit(.minutes(30))) struct PushKeyTests {
    @Test func key_isTheSame_afterARestart() throws {
        let folder = try TemporaryFolder()
        func key() throws -> String {
            let server = try TestServer { settings in
                settings.dataFolder = folder.url.path
                try? settings.outbound.set(subject: "mailto:ops@example.org")
            }
            defer { server.stop() }
            let answer = try TestSocket(port: server.port).get("/.push/key")
            #expect(answer.status == 200 && answer.head.contains("Access-Control-Allow-Origin: *"))
            return try #require(try JSONValue(Array(answer.body.utf8))["applicationServerKey"]?.string)
        }
        let first = try key()
        // An uncompressed point in base64.
        #expect(first.utf8.count == 87 && first.hasPrefix("B"))
        #expect(try key() == first)
    }

    @Test func route_answersPagesOfAllOrigins_andSaysWhenWebPushIsOff() throws {
        let off = try TestServer()
        let peer = try RESTPeer(off)
        #expect(try peer.refusal("GET", "/.push/key").hasPrefix("404 Web Push is off: the configuration of this hub has no \"subject\""))
        #expect(try peer.ask("GET", "/.push/other").status == 404)
        let on = try TestServer { try? $0.outbound.set(subject: "mailto:ops@example.org") }
        let other = try RESTPeer(on)
        let preflight = try other.ask("OPTIONS", "/.push/key")
        #expect(preflight.status == 200 && preflight.head.contains("Access-Control-Allow-Origin: *"))
        #expect(try other.ask("HEAD", "/.push/key").status == 200)
        let refused = try other.ask("POST", "/.push/key", "{}")
        #expect(refused.status == 405 && refused.head.contains("Allow: GET, HEAD, OPTIONS"))
    }

    @Test func unreadableKey_isNotReplaced() throws {
        let store = Store("{\"key\":\"AAAA\"}")
        #expect(throws: ServerError.self) { try PushKey.load(store, wallMs: 1, Logger(label: "test")) }
        #expect(store.text == "{\"key\":\"AAAA\"}")
    }

    @Test func keyThatCannotBeStored_isNotUsed() throws {
        let store = Store(nil)
        store.fault = .disk(reason: "full")
        #expect(try PushKey.load(store, wallMs: 1, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) == nil)
    }

    /// Two hubs of a cluster start at the same time.
    @Test func keyOfTheFasterHub_counts() throws {
        let text = try VAPIDKey.make().text()
        let store = Store(nil)
        store.faster = "{\"key\":\"\(text)\"}"
        #expect(try PushKey.load(store, wallMs: 1, Logger(label: "test"))?.text() == text)
        #expect(store.text == "{\"key\":\"\(text)\"}")
    }
}

/// One setting, which another hub may store first.
private final class Store: SettingStore {
    private let state: Mutex<(text: String?, faster: String?, fault: JournalError?)>

    init(_ text: String?) { state = Mutex((text, nil, nil)) }

    var text: String? { state.withLock { $0.text } }
    var faster: String? {
        get { state.withLock { $0.faster } }
        set { state.withLock { $0.faster = newValue } }
    }
    var fault: JournalError? {
        get { state.withLock { $0.fault } }
        set { state.withLock { $0.fault = newValue } }
    }

    func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]] {
        text.map { [PushKey.setting: Array($0.utf8)] } ?? [:]
    }

    func put(
        _ value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) { Issue.record("the key is only stored if there is none") }

    func replace(
        _ former: [UInt8]?, by value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        let result = state.withLock { state -> Result<Void, JournalError> in
            if let fault = state.fault { return .failure(fault) }
            if let faster = state.faster { state.text = faster }
            guard state.text.map({ Array($0.utf8) }) == former else { return .failure(.changed(setting: name)) }
            state.text = value.map { String(decoding: $0, as: UTF8.self) }
            return .success(())
        }
        completion(result)
    }
}
