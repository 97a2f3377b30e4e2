import CLinux
import DispatchNet
import Glibc
import Scheduling

/// Clock, descriptors, backlog and memory of this machine.
enum MachineCheck {
    static func findings() -> [Finding] {
        var findings = [clock]
        let descriptors = Descriptors.raiseLimit()
        let text = "\(descriptors) descriptors: as many connections, nearly"
        findings.append(descriptors < 4096
            ? .warning("limits", text, "in the unit LimitNOFILE=65536, in compose ulimits: nofile: 65536, in a shell: ulimit -n 65536")
            : .good("limits", text))
        if case .success(let bytes) = WholeFile.read("/proc/sys/net/core/somaxconn"),
            let backlog = Int(String(decoding: bytes, as: UTF8.self).filter(\.isNumber)), backlog < 1024 {
            findings.append(.warning(
                "limits", "only \(backlog) connections may wait to be accepted: a crowd that comes back at once is turned away",
                "sysctl -w net.core.somaxconn=4096"))
        }
        return findings
    }

    /// A minimal Debian has no program that keeps the clock right.
    private static let keptRight = "sudo apt-get install systemd-timesyncd && sudo timedatectl set-ntp true"

    /// Tokens, expiry and server timestamps depend on the clock.
    private static var clock: Finding {
        // 2025-01-01: every build of this program is newer.
        if SystemTime.wallMs < 1_735_689_600_000 {
            let time = UserText.time(SystemTime.wallMs)
            return .wrong("clock", "it shows \(time): tokens of the future are refused", keptRight)
        }
        let state = vigla_clock_is_synchronized()
        if state == 0 {
            return .warning("clock", "\(UserText.time(SystemTime.wallMs)), and nothing keeps it right", keptRight)
        }
        return .good("clock", "\(UserText.time(SystemTime.wallMs))\(state == 1 ? ", kept right by the network" : "")")
    }
}
