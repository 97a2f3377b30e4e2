import Dispatch
import Journal
import Synchronization
import Testing
@testable import HubServer

/// Administrators' secrets as the server stores them.
@Suite(.timeLimit(.minutes(30))) struct SecretTests {
    /// Creates a secret and waits for it.
    private func add(_ secrets: Secrets, _ name: String) -> Result<(entry: Secrets.Entry, secret: String), SecretFault> {
        let made = Mutex<Result<(entry: Secrets.Entry, secret: String), SecretFault>?>(nil)
        let done = DispatchSemaphore(value: 0)
        secrets.add(name, madeAt: 1) { result in
            made.withLock { $0 = result }
            done.signal()
        }
        done.wait()
        return made.withLock { $0 } ?? .failure(.unknown)
    }

    @Test func secret_isAdmitted_untilItIsRemoved_alsoByWhoReadsTheStoreAgain() throws {
        let store = MemorySettings()
        let secrets = try Secrets(store)
        let (one, two) = (try add(secrets, "one").get(), try add(secrets, "two").get())
        #expect(one.secret.utf8.count == 40 && one.secret != two.secret && one.entry.id != two.entry.id)
        for known in [secrets, try Secrets(store)] {
            #expect(known.admit(one.secret) && known.admit(two.secret) && known.all.map(\.name) == ["one", "two"])
            for wrong in [
                "", "owner", String(one.secret.dropLast()), one.secret + "a", String(one.secret.reversed()),
                String(repeating: "a", count: 40),
            ] {
                #expect(!known.admit(wrong), "\(wrong)")
            }
        }
        let removed = DispatchSemaphore(value: 0)
        secrets.remove(one.entry.id) { fault in
            #expect(fault == nil)
            removed.signal()
        }
        removed.wait()
        for known in [secrets, try Secrets(store)] { #expect(!known.admit(one.secret) && known.admit(two.secret)) }
        for bytes in store.settings(of: nil).values {
            #expect(bytes.firstRange(of: Array(two.secret.utf8)) == nil, "only the hash is kept")
        }
    }

    @Test func secrets_overTheLimit_andNamesTooLong_areRefused() throws {
        let secrets = try Secrets(MemorySettings())
        #expect(throws: Never.self) { try add(secrets, String(repeating: "n", count: 100)).get() }
        #expect(throws: SecretFault.self) { try add(secrets, String(repeating: "n", count: 101)).get() }
        for _ in 1..<Secrets.most { #expect(throws: Never.self) { try add(secrets, "").get() } }
        #expect(throws: SecretFault.self) { try add(secrets, "").get() }
        #expect(secrets.all.count == Secrets.most)
    }
}
