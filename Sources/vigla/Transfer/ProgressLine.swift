import Glibc
import Scheduling

/// A progress line on a terminal; nothing when standard error is not one.
struct ProgressLine {
    private let isShown = isatty(2) == 1
    private let what: String
    private var next: Int64 = 0

    init(_ what: String) { self.what = what }

    /// At most ten times a second.
    /// - Parameter total: 0 when unknown.
    mutating func show(_ done: Int, of total: Int = 0, unit: String) {
        guard isShown else { return }
        let now = SystemTime.steadyNs / 1_000_000
        guard now >= next else { return }
        next = now + 100
        let share = total > 0 ? "\(done * 100 / total) %, \(done) of \(total)" : "\(done)"
        StandardStream.error.write(Array("\r\u{1B}[K\(what): \(share) \(unit)".utf8))
    }

    /// Clears the line.
    func end() {
        if isShown { StandardStream.error.write(Array("\r\u{1B}[K".utf8)) }
    }
}
