/// The form in which an observer receives changes. Observers with the same path and style share every encoded frame.
public enum ObserverStyle: Hashable, Sendable {
    /// The written values at their own paths (realtime v5); `tag` names a filtered listen.
    case patches(tag: Int64?)
    /// Named events (observe protocol), under the client's subscription id.
    /// - pace: minimum ms between two values; nil sends each change.
    case events(id: Int64, kinds: EventKinds, pace: Int32? = nil)
    /// The written values below the path (REST event streams).
    case stream(StreamForm)
    /// The number of children only (REST event streams).
    case countStream

    /// Whether an observer of a whole path can be sent changes of parts of it.
    package var sendsPartialChanges: Bool {
        switch self {
        case .patches(let tag): tag == nil
        case .stream: true
        case .events, .countStream: false
        }
    }

    /// Whether the observer is its client's only one, so that the client ends with it.
    package var isStream: Bool {
        switch self {
        case .stream, .countStream: true
        case .patches, .events: false
        }
    }
}

/// How an event stream shows values.
public enum StreamForm: Sendable {
    /// As REST shows a path.
    case plain
    /// As REST shows a query in an order other than by key: always an object, whatever its keys.
    case ordered
    /// With priorities, and without arrays.
    case export
}

/// The kinds of events that an observer asked for.
public struct EventKinds: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let value = EventKinds(rawValue: 1)
    public static let added = EventKinds(rawValue: 2)
    public static let changed = EventKinds(rawValue: 4)
    public static let removed = EventKinds(rawValue: 8)
    /// A child has another position in the order of a query.
    public static let moved = EventKinds(rawValue: 16)
    /// Once, after the first content.
    public static let ready = EventKinds(rawValue: 32)
    /// The number of children shown, when it changes.
    public static let count = EventKinds(rawValue: 64)
    /// No event: the observer may resume, so the last event of each commit carries a resume position.
    public static let resumable = EventKinds(rawValue: 128)
    public static let children: EventKinds = [.added, .changed, .removed, .moved]

    /// Whether only values and counts are sent, each of which replaces all earlier ones.
    package var areValues: Bool { isDisjoint(with: .children) && !isDisjoint(with: [.value, .count]) }
    /// Whether only the number of children is sent.
    var areCounts: Bool { contains(.count) && isDisjoint(with: .children) && !contains(.value) }
}

extension ObserverStyle {
    /// True if observers receive values only, each of which replaces all earlier ones.
    package var isValue: Bool { if case .events(_, let kinds, _) = self { kinds.areValues } else { self == .countStream } }
    /// True if observers can resume and receive missed changes.
    package var isResumable: Bool { if case .events(_, let kinds, _) = self { kinds.contains(.resumable) } else { false } }
    /// True if observers receive only the number of children.
    package var isCount: Bool { if case .events(_, let kinds, _) = self { kinds.areCounts } else { self == .countStream } }
    /// What observers receive of a change.
    package var parts: ObservedParts {
        switch self {
        case .patches, .stream: return .patches
        case .countStream: return .count
        case .events(_, let kinds, _):
            var parts: ObservedParts = []
            if kinds.contains(.value) { parts.insert(.value) }
            if kinds.contains(.count) { parts.insert(.count) }
            if !kinds.isDisjoint(with: .children) { parts.insert(.events) }
            return parts
        }
    }
}

/// What observers may receive of a change.
package struct ObservedParts: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The written values at their own paths.
    package static let patches = ObservedParts(rawValue: 1)
    /// Events of single children.
    package static let events = ObservedParts(rawValue: 2)
    /// The whole value, or all that a query shows.
    package static let value = ObservedParts(rawValue: 4)
    /// The number of shown children.
    package static let count = ObservedParts(rawValue: 8)
    package static let each: [ObservedParts] = [.patches, .events, .value, .count]
    package static let all = ObservedParts(each)
}
