package import Commits
package import JSONTree
package import LiveQueries
import Scheduling

/// All observers of one place and query. Each change is computed once for all of them, and encoded once per style.
///
/// Confined to the database queue.
package final class View {
    package let path: Path
    /// Nil for the whole place.
    package let query: Query?
    /// True for the view of the whole place. Stored, because the query would be copied to tell.
    package let isWhole: Bool
    /// True if all observers receive each write at or below the place unchanged: only stock-SDK observers of a whole place, none suspended. Stored,
    /// since every commit asks.
    package private(set) var isPlain = false
    /// What the view shows; updated with each commit.
    package let shown: Shown
    /// Number of the last batch that notified its observers.
    package var lastChange = -1
    /// Counts the bytes sent to its observers; created with the first event.
    private var eventBytes: EventBytes.Counter?
    private let laneCount: Int
    package private(set) var audiences: [ObserverStyle: Audience] = [:]
    /// Observers of slow readers. They receive nothing until the client has caught up.
    package private(set) var suspended: [ObserverStyle: Audience] = [:]

    package init(path: Path, query: Query?, shown: Shown, lanes: Int) {
        self.path = path
        self.query = query
        isWhole = query == nil
        self.shown = shown
        laneCount = lanes
    }

    package var isEmpty: Bool { audiences.isEmpty && suspended.isEmpty }

    /// All observers, with their styles.
    package var observers: [(style: ObserverStyle, client: Client)] {
        (Array(audiences) + suspended).flatMap { style, audience in audience.lanes.joined().map { (style, $0) } }
    }

    package var clients: [Client] { (Array(audiences.values) + suspended.values).flatMap { $0.lanes.joined() } }

    package func observation(_ style: ObserverStyle) -> Observation { Observation(path: path, query: query, style: style) }

    /// What any observer receives of a change.
    package private(set) var wanted: ObservedParts = []
    /// The number of styles that receive each part, in the order of `ObservedParts.each`.
    private var styles = SIMD4<Int32>()

    private func count(_ style: ObserverStyle, _ change: Int) {
        for (i, part) in ObservedParts.each.enumerated() where style.parts.contains(part) {
            styles[i] += Int32(change)
            if styles[i] > 0 { wanted.insert(part) } else { wanted.remove(part) }
        }
        if case .window(let window) = shown { window.counts = wanted.contains(.count) }
    }

    /// What it shows of a live query.
    package var live: ShownLiveQuery? { if case .live(let query) = shown { query } else { nil } }

    /// The rate-limit state of each style with an interval.
    package var paces: [ObserverStyle: Pace] = [:]

    package func add(_ client: Client, style: ObserverStyle) {
        if audiences[style] == nil { count(style, 1) }
        audiences[style, default: Audience(lanes: laneCount)].add(client)
        updatePlain()
    }

    package func remove(_ client: Client, style: ObserverStyle) {
        removeFromAudience(client, style)
        Self.remove(client, style, from: &suspended)
        updatePlain()
    }

    package func suspend(_ client: Client, style: ObserverStyle) {
        removeFromAudience(client, style)
        suspended[style, default: Audience(lanes: laneCount)].add(client)
        updatePlain()
    }

    package func resume(_ client: Client, style: ObserverStyle) {
        Self.remove(client, style, from: &suspended)
        add(client, style: style)
    }

    private func updatePlain() {
        isPlain = isWhole && suspended.isEmpty && audiences.count == 1 && audiences.keys.first == .patches(tag: nil)
    }

    /// Counts bytes sent to the observers.
    package func countEvents(_ bytes: Int, in all: EventBytes) {
        let counter = eventBytes ?? all.counter(of: path)
        eventBytes = counter
        counter.add(bytes)
    }

    private func removeFromAudience(_ client: Client, _ style: ObserverStyle) {
        guard audiences[style] != nil else { return }
        Self.remove(client, style, from: &audiences)
        guard audiences[style] == nil else { return }
        count(style, -1)
        paces[style]?.timer?.cancel()
        paces[style] = nil
    }

    private static func remove(_ client: Client, _ style: ObserverStyle, from audiences: inout [ObserverStyle: Audience]) {
        audiences[style]?.remove(client)
        if audiences[style]?.isEmpty == true { audiences[style] = nil }
    }
}
