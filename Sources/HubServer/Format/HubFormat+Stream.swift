import HubEngine
import JSONTree
import WireProtocols

/// The event streams' side of the format (contract §7.6).
extension HubFormat {
    func streamInitial(_ value: Node, exports: Bool) -> [UInt8] { EventStreamEvent.put([], value, exports ? .export : NodeEncoder.Form()) }

    /// How many children there are, in the place of what they are.
    func streamed(_ count: Int) -> [UInt8] { EventStreamEvent.put([], .int(Int64(count)), NodeEncoder.Form()) }

    /// One event for one commit: the place itself, one place below it, or several of them at the deepest place above all.
    func stream(_ change: ViewChange, exports: Bool) -> [UInt8] {
        let form = exports ? .export : NodeEncoder.Form()
        let depth = change.path.depth
        guard let first = change.patches.first else { return EventStreamEvent.put([], change.new, form) }
        if change.patches.count == 1 { return EventStreamEvent.put(first.path.keys[depth...], first.value, form) }
        // Priorities are not shown without `exports`, and their writes are puts of whole nodes: paths are never equal.
        var shared = first.path.depth - 1
        for patch in change.patches.dropFirst() {
            shared = min(shared, patch.path.depth - 1)
            while shared > depth, patch.path.keys[..<shared] != first.path.keys[..<shared] { shared -= 1 }
        }
        shared = max(shared, depth)
        return EventStreamEvent.patch(
            first.path.keys[depth..<shared], change.patches.map { (path: $0.path.dropping(shared), value: $0.value) }, form)
    }
}
