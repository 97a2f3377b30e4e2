import HTTPTypes
import JSONTree
import Logging
import Synchronization
import Testing
import WireProtocols

@testable import Accounts

/// A service with a clock of its own, asked as its clients ask it.
final class AccountBench: Sendable {
    let service: AccountService
    private let clock: Mutex<Int64>
    private let changed = Mutex<[AccountChange]>([])
    let mailbox = Mailbox()

    /// Seconds.
    static let start: Int64 = 1_790_000_000

    /// - Parameter settings: of a development hub without enumeration protection, unless the test says otherwise.
    init(folder: String? = nil, at seconds: Int64 = AccountBench.start, _ configure: (inout AccountSettings) -> Void = { _ in }) throws {
        var settings = AccountSettings()
        settings.project = "demo-app"
        settings.publicURL = "https://hub.example.org"
        settings.signingAlgorithm = .es256
        settings.passwords = .quick
        settings.throttle = .off
        settings.hidesAccounts = false
        settings.recentLoginSeconds = 0
        configure(&settings)
        let clock = Mutex<Int64>(seconds * 1000)
        self.clock = clock
        let box = ClockBox(seconds * 1000)
        time = box
        service = try AccountService(settings, folder: folder, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, now: { box.now })
        service.join(address: "http://127.0.0.1:9000", isAdministrator: { $0 == "secret-of-the-administrator" }) { [changed] change in
            changed.withLock { $0.append(change) }
        }
    }

    let time: ClockBox
}
