import JSONTree
import Synchronization

/// A large change, for all styles of a view's observers. The value is encoded once for all of them.
final class LargeChange: @unchecked Sendable {
    // Sendable: mutable state is used only under the lock. Two encoding lines may work on styles of one change.
    private let lock = Mutex(())
    private var change: ViewChange
    private let format: any WireFormat
    /// Maximum bytes of one message.
    private let limit: Int
    private var parts: (any ChangeParts)?
    private var sizes: [Part: Int?] = [:]
    /// The size relative to the last requested bound.
    private var measured: (bound: Int, size: ChangeSize)?

    private enum Part { case patches, value, children }

    init(_ change: ViewChange, _ format: any WireFormat, limit: Int) {
        self.change = change
        self.format = format
        self.limit = limit
    }

    func prepare(_ style: ObserverStyle) -> EncodeQueue.Preparation {
        let (isNothing, known) = lock.withLock { _ in
            if !change.isComplete { measured = nil }
            change.finish()
            return (change.isNothing(for: style), size(for: style))
        }
        if isNothing { return .done(DeferredBytes.Outcome()) }
        guard let size = known else { return .done(.tooLarge) }
        return .make(reserving: size * encodingFactor) { [self] in
            lock.withLock { _ in
                DeferredBytes.Outcome(format.change(change, for: style, sharing: &parts))
            }
        }
    }

    func isLarger(than bound: Int, for style: ObserverStyle) -> Bool {
        lock.withLock { _ in
            var size = measured?.bound == bound ? measured?.size : nil
            defer { measured = size.map { (bound, $0) } }
            if size == nil { size = ChangeSize(bound: bound) }
            return size?.isLarge(change, for: style) ?? false
        }
    }

    /// Nil if more than may be sent.
    private func size(for style: ObserverStyle) -> Int? {
        switch style {
        case .patches, .stream: return size(change.patches.isEmpty ? .value : .patches)
        case .countStream: return 0
        case .events(_, let kinds, _):
            var sum = 0
            if kinds.contains(.value) {
                guard let size = size(.value) else { return nil }
                sum += size
            }
            if !kinds.isDisjoint(with: .children) {
                guard let size = size(.children) else { return nil }
                sum += size
            }
            return sum <= limit ? sum : nil
        }
    }

    private func size(_ part: Part) -> Int? {
        if let known = sizes[part] { return known }
        let size: Int? =
            switch part {
            case .value: change.new.encodedSize(upTo: limit)
            case .patches: sum(change.patches.lazy.map { ($0.value, $0.path.keys.reduce(2) { $0 + $1.text.utf8Count + 1 }) })
            case .children: sum(change.events.lazy.map { ($0.value, 128 + $0.key.text.utf8Count) })
            }
        sizes[part] = .some(size)
        return size
    }

    private func sum(_ parts: some Sequence<(Node, Int)>) -> Int? {
        var left = limit
        for (value, around) in parts {
            guard let size = value.encodedSize(upTo: left) else { return nil }
            left -= size + around
            if left < 0 { return nil }
        }
        return limit - left
    }
}

/// Bytes needed while encoding, per byte of the result: the growing text, and its frames.
let encodingFactor = 3

/// Decides whether a change is large. Each part is measured when first needed.
struct ChangeSize {
    private let bound: Int
    private var value: Bool?
    private var patches: Bool?
    private var children: Bool?

    /// - Parameter bound: a value of more bytes is large.
    init(bound: Int) { self.bound = bound }

    /// O(bound) for the first style of each kind.
    /// - Parameter change: always the same one.
    mutating func isLarge(_ change: ViewChange, for style: ObserverStyle) -> Bool {
        // The rest is not computed because that would take too long here.
        if change.lacks(style) { return true }
        switch style {
        case .patches, .stream: return change.patches.isEmpty ? valueIsLarge(change) : patchesAreLarge(change)
        case .countStream: return false
        case .events(_, let kinds, _):
            return (kinds.contains(.value) && valueIsLarge(change)) || (!kinds.isDisjoint(with: .children) && childrenAreLarge(change))
        }
    }

    private mutating func valueIsLarge(_ change: ViewChange) -> Bool {
        if let value { return value }
        let isLarge = change.new.isLarger(than: bound)
        value = isLarge
        return isLarge
    }

    private mutating func patchesAreLarge(_ change: ViewChange) -> Bool {
        if let patches { return patches }
        var left = bound
        let isLarge = !change.patches.allSatisfy { patch in
            left -= 8 * patch.path.depth
            return left >= 0 && patch.value.isWithin(&left)
        }
        patches = isLarge
        return isLarge
    }

    private mutating func childrenAreLarge(_ change: ViewChange) -> Bool {
        if let children { return children }
        var left = bound
        let isLarge = !change.events.allSatisfy { event in
            left -= 64
            return left >= 0 && event.value.isWithin(&left)
        }
        children = isLarge
        return isLarge
    }
}
