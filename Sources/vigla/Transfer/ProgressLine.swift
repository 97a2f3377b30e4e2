import Glibc
import Scheduling

/// A progress line on a terminal; nothing when standard error is not one.
struct ProgressLine {
    private let isShown = isatty(2) == 1
    private let what: String
    private var next: Int64 = 0

    init(_ what: String) { self.what = what }

    /// Updates the line at most ten times a second.
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

/// The last line of a transfer on a terminal: `exported 1204 places, 3.4 MB to users.json in 0.8 s`.
struct TransferSummary {
    private let began = SystemTime.steadyNs

    /// - Parameters:
    ///   - what: `exported`, `imported`.
    ///   - places: nil if not counted.
    func report(_ what: String, places: Int?, bytes: Int, _ place: String) {
        guard isatty(2) == 1 else { return }
        let tenths = (SystemTime.steadyNs - began) / 100_000_000
        let count = places.map { "\($0) \($0 == 1 ? "place" : "places"), " } ?? ""
        StandardStream.error.line("vigla: \(what) \(count)\(Self.megabytes(bytes)) MB \(place) in \(tenths / 10).\(tenths % 10) s")
    }

    /// Megabytes, with one decimal below ten.
    static func megabytes(_ bytes: Int) -> String {
        let tenths = (bytes + 50_000) / 100_000
        return tenths < 100 ? "\(tenths / 10).\(tenths % 10)" : "\(tenths / 10)"
    }
}
