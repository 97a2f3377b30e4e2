import Dispatch
import Glibc
import HubServer
import Scheduling

/// Reports the hub's state to systemd (sd_notify(3)) when it was started with `Type=notify`; otherwise does nothing.
struct ServiceManager {
    private let address: String

    /// Nil without a `NOTIFY_SOCKET`.
    init?() {
        guard let address = Environment["NOTIFY_SOCKET"], let first = address.first, first == "/" || first == "@",
            address.utf8.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path)
        else { return nil }
        self.address = address
    }

    /// Shown by `systemctl status` until the hub is ready.
    func starting() { notify("STATUS=Reading the data folder.") }
    func ready() { notify("READY=1\nSTATUS=Serving.") }
    func stopping() { notify("STOPPING=1") }

    /// Sends watchdog notifications three times in each of the unit's `WatchdogSec=`, as long as loops and database respond.
    func watch(_ server: Server, _ scheduler: Scheduler) {
        guard let period = Environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), period > 0 else { return }
        scheduler.every(ms: max(1, period / 3000), on: DispatchQueue(label: "vigla.watchdog")) { [weak server] in
            server?.whenResponsive { notify("WATCHDOG=1") }
        }
    }

    private func notify(_ text: String) {
        let peer = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard peer >= 0 else { return }
        defer { close(peer) }
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(address.utf8)
        withUnsafeMutableBytes(of: &name.sun_path) { path in
            path.copyBytes(from: bytes)
            // An abstract name begins with a zero byte.
            if bytes.first == UInt8(ascii: "@") { path[0] = 0 }
        }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let message = Array(text.utf8)
        withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = sendto(peer, message, message.count, Int32(MSG_NOSIGNAL), $0, length)
            }
        }
    }
}
