import JSONTree
import Scheduling

/// All observers of one place and query. Each change is computed once for all of them, and encoded once per style.
///
/// Confined to the database queue.
final class View {
    let path: Path
    /// Nil for the whole place.
    let query: ChildQuery?
    /// True for the view of the whole place. Stored, since every commit asks and the query would be copied.
    let isWhole: Bool
    /// True if all observers receive each write at or below the place unchanged: only stock-SDK observers of a whole place, none suspended. Stored,
    /// since every commit asks.
    private(set) var isPlain = false
    /// What the view shows; updated with each commit.
    let shown: any LiveView
    /// Number of the last batch that notified its observers.
    var lastChange = -1
    /// Counts the bytes sent to its observers; created with the first event.
    private var eventBytes: EventBytes.Counter?
    private let laneCount: Int
    private(set) var audiences: [ObserverStyle: Audience] = [:]
    /// Observers of slow readers. They receive nothing until the client has caught up.
    private(set) var suspended: [ObserverStyle: Audience] = [:]

    init(path: Path, query: ChildQuery?, shown: any LiveView, lanes: Int) {
        self.path = path
        self.query = query
        isWhole = query == nil
        self.shown = shown
        laneCount = lanes
    }

    var isEmpty: Bool { audiences.isEmpty && suspended.isEmpty }

    /// All observers, with their styles.
    var observers: [(style: ObserverStyle, client: Client)] {
        (Array(audiences) + suspended).flatMap { style, audience in audience.lanes.joined().map { (style, $0) } }
    }

    var clients: [Client] { (Array(audiences.values) + suspended.values).flatMap { $0.lanes.joined() } }

    func observation(_ style: ObserverStyle) -> Observation { Observation(path: path, query: query, style: style) }

    /// True if any observer wants child events, which require comparing children.
    var wantsChildren: Bool { childStyles > 0 }
    private var childStyles = 0
    /// True if any observer wants all that a query shows with each change, which requires collecting it.
    var wantsSelection: Bool { valueStyles > 0 && !isWhole }
    private var valueStyles = 0
    /// True if any observer wants the number of shown children.
    var wantsCount: Bool { countStyles > 0 }
    private var countStyles = 0
    /// True if any observer receives the written values at their own paths.
    var wantsPatches: Bool { patchStyles > 0 }
    private var patchStyles = 0

    private func count(_ style: ObserverStyle, _ change: Int) {
        if style.hasChildEvents { childStyles += change }
        if style.hasPatches { patchStyles += change }
        if style.hasValues { valueStyles += change }
        if style.hasCounts {
            countStyles += change
            shown.counts = wantsCount
        }
    }

    /// The rate-limit state of each style with an interval.
    var paces: [ObserverStyle: Pace] = [:]

    func add(_ client: Client, style: ObserverStyle) {
        if audiences[style] == nil { count(style, 1) }
        audiences[style, default: Audience(lanes: laneCount)].add(client)
        updatePlain()
    }

    func remove(_ client: Client, style: ObserverStyle) {
        removeFromAudience(client, style)
        Self.remove(client, style, from: &suspended)
        updatePlain()
    }

    func suspend(_ client: Client, style: ObserverStyle) {
        removeFromAudience(client, style)
        suspended[style, default: Audience(lanes: laneCount)].add(client)
        updatePlain()
    }

    func resume(_ client: Client, style: ObserverStyle) {
        Self.remove(client, style, from: &suspended)
        add(client, style: style)
    }

    private func updatePlain() {
        isPlain = isWhole && suspended.isEmpty && audiences.count == 1 && audiences.keys.first == .patches(tag: nil)
    }

    /// Counts bytes sent to the observers.
    func countEvents(_ bytes: Int, _ meter: Meter) {
        let counter = eventBytes ?? meter.eventBytes.counter(of: path)
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
