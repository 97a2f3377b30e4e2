import JSONTree

/// What is observed at a place: all of it, or the window of a query. Shared by all its observers: a change is computed once,
/// and encoded once for each style of observer.
///
/// Confined to the database queue.
final class View {
    let path: Path
    /// The children that the query shows; nil for a view of the whole place.
    var window: QueryWindow?
    private let laneCount: Int
    private(set) var audiences: [ObserverStyle: Audience] = [:]

    init(path: Path, window: QueryWindow?, lanes: Int) {
        self.path = path
        self.window = window
        laneCount = lanes
    }

    var isEmpty: Bool { audiences.isEmpty }

    /// Whether any observer asks for named events, which need the children compared.
    var wantsEvents: Bool {
        audiences.keys.contains { if case .events = $0 { true } else { false } }
    }

    func add(_ client: Client, style: ObserverStyle) {
        audiences[style, default: Audience(lanes: laneCount)].add(client)
    }

    func remove(_ client: Client, style: ObserverStyle) {
        audiences[style]?.remove(client)
        if audiences[style]?.isEmpty == true { audiences[style] = nil }
    }
}
