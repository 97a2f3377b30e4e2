import HubEngine
import JSONTree
import LiveQueries

/// Lines for events: `added 7 key prev value`, with ` ~12.5` for metres from a centre, `value 7 value`, `count 7 number`, `ready 7`. A get is
/// answered with its value alone. For resumable observers, ` @12` is the commit position, and ` more` means that further events of that commit
/// follow; `observed 7 12 epoch reset` answers them.
struct EventLines: WireFormat {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        switch reply {
        case .value(let node), .selected(let node, _): Array(node.json.utf8)
        case .failed: Array("refused \(token)\n".utf8)
        case .observed(let sequence, _, let epoch, let isReset):
            Array("observed \(token) \(sequence) \(epoch) \(isReset ? "reset" : "-")\n".utf8)
        default: Array("ok \(token)\n".utf8)
        }
    }

    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        guard case .events(let id, let kinds, _) = style else { return [] }
        var lines: [String] = []
        if kinds.contains(.added) {
            var previous: Key?
            let ordered = (query ?? Query(TreeQuery(index: .key))).inOrder(value)
            for (key, child, distance) in ordered {
                let before = query?.isByPosition == true ? nil : previous
                lines.append("added \(id) \(key) \(before?.string ?? "-") \(child.json)\(metres(distance))")
                previous = key
            }
        }
        if kinds.contains(.value) { lines.append("value \(id) \(value.json)") }
        if kinds.contains(.count) { lines.append("count \(id) \(value.childCount)") }
        if kinds.contains(.ready) { lines.append("ready \(id)") }
        return joined(lines, kinds, sequence)
    }

    func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        guard case .events(let id, let kinds, _) = style else { return [] }
        return joined(["count \(id) \(count)"] + (kinds.contains(.ready) ? ["ready \(id)"] : []), kinds, sequence)
    }

    func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        guard case .events(let id, let kinds, _) = style, kinds.contains(.ready) else { return [] }
        return joined(["ready \(id)"], kinds, sequence)
    }

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        guard case .events(let id, let kinds, _) = style else { return [] }
        let names: [EventKinds: String] = [.added: "added", .changed: "changed", .removed: "removed", .moved: "moved"]
        var lines = change.events.filter { kinds.contains($0.kind) }.map { event in
            "\(names[event.kind] ?? "?") \(id) \(event.key) \(event.previous?.string ?? "-") \(event.value.json)\(metres(event.distance))"
        }
        if kinds.contains(.value), !change.isNothing { lines.append("value \(id) \(change.new.json)") }
        if kinds.contains(.count), let count = change.count { lines.append("count \(id) \(count)") }
        return joined(lines, kinds, change.sequence)
    }

    private func metres(_ distance: Double?) -> String { distance.map { " ~\($0)" } ?? "" }

    private func joined(_ lines: [String], _ kinds: EventKinds, _ sequence: UInt64) -> [UInt8] {
        guard kinds.contains(.resumable) else { return Array(lines.map { $0 + "\n" }.joined().utf8) }
        return Array(lines.enumerated().map { "\($1) @\(sequence)\($0 < lines.count - 1 ? " more" : "")\n" }.joined().utf8)
    }

    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
        if case .events(let id, _, _) = style { Array("ended \(id)\n".utf8) } else { [] }
    }
}
