import JSONTree

/// What is observed at a place: all of it, or the window of a query. Shared by all its observers: a change is computed once,
/// and encoded once for each style of observer.
///
/// Confined to the database queue.
final class View {
    let path: Path
    /// Nil for the whole place.
    let query: TreeQuery?
    /// The children that the query shows; nil for a view of the whole place, and while the index is built anew that it needs.
    var window: QueryWindow?
    /// Number of the last batch in which its observers were told something.
    var lastChange = -1
    private let laneCount: Int
    private(set) var audiences: [ObserverStyle: Audience] = [:]
    /// Observers of clients that read too slowly: they are told nothing until they are caught up with.
    private(set) var suspended: [ObserverStyle: Audience] = [:]

    init(path: Path, query: TreeQuery?, window: QueryWindow?, lanes: Int) {
        self.path = path
        self.query = query
        self.window = window
        laneCount = lanes
    }

    var isEmpty: Bool { audiences.isEmpty && suspended.isEmpty }

    var clients: [Client] { (Array(audiences.values) + suspended.values).flatMap { $0.lanes.joined() } }

    /// Whether any observer asks for events of children, which need to be compared for them.
    var wantsChildren: Bool { childStyles > 0 }
    private var childStyles = 0

    private static func wantsChildren(_ style: ObserverStyle) -> Bool {
        if case .events(_, let kinds) = style { !kinds.isDisjoint(with: .children) } else { false }
    }

    func add(_ client: Client, style: ObserverStyle) {
        if audiences[style] == nil, Self.wantsChildren(style) { childStyles += 1 }
        audiences[style, default: Audience(lanes: laneCount)].add(client)
    }

    func remove(_ client: Client, style: ObserverStyle) {
        removeFromAudience(client, style)
        Self.remove(client, style, from: &suspended)
    }

    func suspend(_ client: Client, style: ObserverStyle) {
        removeFromAudience(client, style)
        suspended[style, default: Audience(lanes: laneCount)].add(client)
    }

    func resume(_ client: Client, style: ObserverStyle) {
        Self.remove(client, style, from: &suspended)
        add(client, style: style)
    }

    private func removeFromAudience(_ client: Client, _ style: ObserverStyle) {
        guard audiences[style] != nil else { return }
        Self.remove(client, style, from: &audiences)
        if audiences[style] == nil, Self.wantsChildren(style) { childStyles -= 1 }
    }

    private static func remove(_ client: Client, _ style: ObserverStyle, from audiences: inout [ObserverStyle: Audience]) {
        audiences[style]?.remove(client)
        if audiences[style]?.isEmpty == true { audiences[style] = nil }
    }
}
