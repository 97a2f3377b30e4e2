import JSONTree

/// A place that is observed, shared by all its observers: a change is computed once, and encoded once for each style.
///
/// Confined to the database queue.
final class View {
    let path: Path
    private let laneCount: Int
    private(set) var audiences: [ObserverStyle: Audience] = [:]
    /// Scratch of the commit being fanned out: indexes of its writes that touch this view, and whether one covers it whole.
    var touchedBy: [Int] = []
    var isOverwritten = false

    init(path: Path, lanes: Int) {
        self.path = path
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
