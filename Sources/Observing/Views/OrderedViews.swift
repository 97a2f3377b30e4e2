import JSONTree

/// The views of one place that share an order. Those of a single value ("whose owner is me") are found by that value, so that a changed child does
/// not visit all views.
struct OrderedViews {
    let ordering: TreeQuery.Index
    private var views: [TreeQuery: View] = [:]
    private var exact: [OrderedValue: [ObjectIdentifier: View]] = [:]
    private var others: [ObjectIdentifier: View] = [:]

    init(_ ordering: TreeQuery.Index) { self.ordering = ordering }

    var isEmpty: Bool { views.isEmpty }
    var count: Int { views.count }
    var all: [View] { Array(views.values) }
    subscript(query: TreeQuery) -> View? { views[query] }

    mutating func insert(_ view: View, of query: TreeQuery) {
        views[query] = view
        if let value = OrderedValue(only: query) {
            exact[value, default: [:]][ObjectIdentifier(view)] = view
        } else {
            others[ObjectIdentifier(view)] = view
        }
    }

    /// - Returns: false if no such view exists.
    mutating func remove(_ query: TreeQuery) -> Bool {
        guard let view = views.removeValue(forKey: query) else { return false }
        if let value = OrderedValue(only: query) {
            exact[value]?[ObjectIdentifier(view)] = nil
            if exact[value]?.isEmpty == true { exact[value] = nil }
        } else {
            others[ObjectIdentifier(view)] = nil
        }
        return true
    }

    /// Calls `body` once for each view whose range may contain one of the changes.
    func concerned(by changes: [PlacedChild], _ body: (View) -> Void) {
        for view in others.values { body(view) }
        if exact.isEmpty { return }
        if changes.count == 1 {
            let (old, new) = (changes[0].old.map { OrderedValue($0, ordering) }, changes[0].new.map { OrderedValue($0, ordering) })
            if let old, let views = exact[old] { for view in views.values { body(view) } }
            if let new, new != old, let views = exact[new] { for view in views.values { body(view) } }
            return
        }
        var values: Set<OrderedValue> = []
        for change in changes {
            if let old = change.old { values.insert(OrderedValue(old, ordering)) }
            if let new = change.new { values.insert(OrderedValue(new, ordering)) }
        }
        for value in values { if let views = exact[value] { for view in views.values { body(view) } } }
    }
}

/// The part of a value that an order compares: equal here if equal in the order.
enum OrderedValue: Hashable {
    case null
    case bool(Bool)
    /// Integers beyond 2^53 may collide here although the order separates them; the window decides exactly.
    case number(Double)
    case string(Text)
    /// All objects are equal.
    case object

    init(_ child: OrderedChild, _ ordering: TreeQuery.Index) {
        self = ordering == .key ? .string(child.key.text) : OrderedValue(child.value)
    }

    private init(_ value: Node) {
        switch value {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .int(let number): self = .number(Double(number))
        case .double(let number): self = .number(number)
        case .string(let text): self = .string(text)
        case .prioritized(let leaf): self = OrderedValue(leaf.leaf)
        default: self = .object
        }
    }

    /// The single value in the query's range, whatever the keys; nil for a wider range.
    init?(only query: TreeQuery) {
        guard let start = query.start, start.value == query.end?.value else { return nil }
        if query.orderedBy == .key {
            // These sentinels match no child.
            guard case .string(let text) = start.value, !["[MIN_NAME]", "[MAX_NAME]", "[MAX_KEY]"].contains(text.string) else { return nil }
        }
        self.init(start.value)
    }
}
