import HubEngine
import JSONTree
import WireProtocols

/// The event streams' side of the format (contract §7.6).
extension HubFormat {
    func streamInitial(_ value: Node, _ form: StreamForm) -> [UInt8] { EventStreamEvent.put([], value, form.root) }

    /// The number of children, sent in place of the children.
    func streamed(_ count: Int) -> [UInt8] { EventStreamEvent.put([], .int(Int64(count)), NodeEncoder.Form()) }

    /// One event for one commit: a put of the place itself or of one place below it; or a patch, at the place that a client updated, or
    /// else at the deepest place above all writes.
    func stream(_ change: ViewChange, _ form: StreamForm) -> [UInt8] {
        let depth = change.path.depth
        guard let first = change.patches.first else { return EventStreamEvent.put([], change.new, form.root) }
        // Priorities are not shown without `exports`, and their writes are puts of whole nodes: paths are never equal.
        var shared = first.path.depth - 1
        for patch in change.patches.dropFirst() {
            shared = min(shared, patch.path.depth - 1)
            while shared > depth, patch.path.keys[..<shared] != first.path.keys[..<shared] { shared -= 1 }
        }
        shared = max(shared, depth)
        if let update = change.update, depth...shared ~= update.depth, first.path.depth > update.depth, update.contains(first.path) {
            shared = update.depth
        } else if change.patches.count == 1 {
            return EventStreamEvent.put(first.path.keys[depth...], first.value, form.below)
        }
        return EventStreamEvent.patch(
            first.path.keys[depth..<shared], change.patches.map { (path: $0.path.dropping(shared), value: $0.value) }, form.below)
    }
}

extension StreamForm {
    /// The form of the place itself.
    fileprivate var root: NodeEncoder.Form { self == .ordered ? NodeEncoder.Form(arrays: .belowRoot) : below }
    /// The form of nodes below the place.
    fileprivate var below: NodeEncoder.Form { self == .export ? .export : NodeEncoder.Form() }
}
