public import JSONTree

/// What one commit changed for the observers of one place.
public struct ViewChange: Sendable {
    /// The observed place.
    public let path: Path
    public let sequence: UInt64
    /// The value at the place now, or what a query shows of it; a query sets it only when `patches` is empty.
    public let new: Node
    /// What changed below the place, as absolute path and resulting value; empty when the place itself was overwritten.
    public let patches: [(path: Path, value: Node)]
    /// Child and value events, computed when an observer asks for events.
    public let events: [ChildEvent]
}

/// An event of one child, in the order of the SDKs: removed, added, changed.
public struct ChildEvent: Sendable, Equatable {
    public let kind: EventKinds
    public let key: Key
    /// The child's new value; for `removed` the one it had.
    public let value: Node
    /// The key of the sibling before it after the change; nil at the front and for `removed`.
    public let previous: Key?
}

extension ChildEvent {
    /// The events that lead from one object to another.
    /// - Parameter keys: the children that can differ, or nil when all can. O(keys · log n), or O(n).
    static func events(from old: Node, to new: Node, keys: [Key]?) -> [ChildEvent] {
        let (before, after) = (old.object?.children ?? ChildMap(), new.object?.children ?? ChildMap())
        var removed: [ChildEvent] = []
        var added: [ChildEvent] = []
        var changed: [ChildEvent] = []
        func compare(_ key: Key, _ was: Node, _ now: Node, previous: @autoclosure () -> Key?) {
            if now.isNull {
                if was.isNull { return }
                removed.append(ChildEvent(kind: .removed, key: key, value: was, previous: nil))
            } else if was.isNull {
                added.append(ChildEvent(kind: .added, key: key, value: now, previous: previous()))
            } else if !was.isIdentical(to: now), was != now {
                changed.append(ChildEvent(kind: .changed, key: key, value: now, previous: previous()))
            }
        }
        if let keys {
            for key in keys { compare(key, before[key] ?? .null, after[key] ?? .null, previous: after.key(before: key)) }
        } else {
            for (key, was) in before where after[key] == nil { compare(key, was, .null, previous: nil) }
            var previous: Key?
            for (key, now) in after {
                compare(key, before[key] ?? .null, now, previous: previous)
                previous = key
            }
        }
        return removed + added + changed
    }
}
