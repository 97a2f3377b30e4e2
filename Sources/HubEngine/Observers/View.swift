import JSONTree
import Scheduling

/// The observers of one thing that is shown of a place: all of it, or what a query selects. A change is computed once for all of
/// them, and encoded once for each style.
///
/// Confined to the database queue.
final class View {
    let path: Path
    /// Nil for the whole place.
    let query: ChildQuery?
    /// Whether it is the view of the whole place: asked for each commit, without a copy of the query.
    let isWhole: Bool
    /// Whether all its observers are told each write at or below the place as it is: those of the stock SDKs at a whole place, none of them
    /// suspended. Asked for each commit.
    private(set) var isPlain = false
    /// What is shown, as it moves along with commits.
    let shown: any LiveView
    /// Number of the last batch in which its observers were told something.
    var lastChange = -1
    /// Counts what they are told, once something was.
    private var eventBytes: EventBytes.Counter?
    private let laneCount: Int
    private(set) var audiences: [ObserverStyle: Audience] = [:]
    /// Observers of clients that read too slowly: they are told nothing until they are caught up with.
    private(set) var suspended: [ObserverStyle: Audience] = [:]

    init(path: Path, query: ChildQuery?, shown: any LiveView, lanes: Int) {
        self.path = path
        self.query = query
        isWhole = query == nil
        self.shown = shown
        laneCount = lanes
    }

    var isEmpty: Bool { audiences.isEmpty && suspended.isEmpty }

    /// All observers, with the style of each.
    var observers: [(style: ObserverStyle, client: Client)] {
        (Array(audiences) + suspended).flatMap { style, audience in audience.lanes.joined().map { (style, $0) } }
    }

    var clients: [Client] { (Array(audiences.values) + suspended.values).flatMap { $0.lanes.joined() } }

    /// What an observer of a style observes here.
    func observation(_ style: ObserverStyle) -> Observation { Observation(path: path, query: query, style: style) }

    /// Whether any observer asks for events of children, which need to be compared for them.
    var wantsChildren: Bool { childStyles > 0 }
    private var childStyles = 0
    /// Whether any asks for all that a query shows with each change of it, which needs to be collected for them.
    var wantsSelection: Bool { valueStyles > 0 && !isWhole }
    private var valueStyles = 0
    /// Whether any asks how many children are shown.
    var wantsCount: Bool { countStyles > 0 }
    private var countStyles = 0
    /// Whether any is told what is written, at its own places.
    var wantsPatches: Bool { patchStyles > 0 }
    private var patchStyles = 0

    private func count(_ style: ObserverStyle, _ change: Int) {
        if style.isOfChildren { childStyles += change }
        if style.hasPatches { patchStyles += change }
        if style.hasValues { valueStyles += change }
        if style.hasCounts {
            countStyles += change
            shown.counts = wantsCount
        }
    }

    /// When observers of a style with a pace were told last, and whether they are owed something since; steady ms.
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

    /// Counts bytes that its observers are told.
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
