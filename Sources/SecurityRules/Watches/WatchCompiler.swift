import JSONTree
import LiveQueries

/// The places of a file that have a `.geoIndex`.
struct GeoPlaces {
    let root: SourceNode

    /// The `.geoIndex` of the place that a template names; nil if it has none.
    func index(at template: PathTemplate) -> SourceGeoIndex? {
        var node = root
        for segment in template.segments {
            var next = node.wildcard?.node
            if case .key(let key) = segment, let literal = node.children.first(where: { $0.key == key }) { next = literal.node }
            guard let next else { return nil }
            node = next
        }
        return node.geoIndex
    }

    /// All of them, for suggestions.
    var all: [String] { Self.all(root, []) }

    private static func all(_ node: SourceNode, _ path: [String]) -> [String] {
        var found = node.geoIndex == nil ? [] : [path.joined(separator: "/")]
        for child in node.children { found += all(child.node, path + [child.key.string]) }
        if let (name, child) = node.wildcard { found += all(child, path + [name.value]) }
        return found
    }
}

/// Compiles one `.watch` of a node.
struct WatchCompiler {
    /// The node's place.
    let pattern: Path
    let captures: [String: Int]
    let functions: Functions
    let geo: GeoPlaces

    private var depth: Int { pattern.depth }
    private var keys: [Key?] { pattern.keys.map { $0.string.hasPrefix("$") ? nil : $0 } }

    func compile(_ source: SourceWatch, number: Int, _ builder: inout ProgramBuilder) throws(TextFault) -> WatchRule {
        guard depth < Path.maxDepth else { throw TextFault("A '.watch' is too deep here.", source.to) }
        var (area, reads): (WatchRule.Area, [[Key?]])
        switch source.area {
        case .within(let place): (area, reads) = (.within(try template(place, "within")), [])
        case .circle(let at, let latitude, let longitude, let radius):
            let centre = try at.map { text throws(TextFault) in try template(text, "at") }
            var scope = Scope(kind: .write, captures: captures)
            scope.watch = WatchScope(isRadius: true)
            let term = try value(radius, scope)
            let fields = GeoFields(latitude: Path(relative: latitude.value), longitude: Path(relative: longitude.value))
            area = .circle(at: centre, fields: fields, radius: builder.lower(term, depth: depth))
            reads = WatchReads(node: keys).places(of: term)
        }

        var all = captures
        all[Self.item] = depth + 1
        let to = try located(source.to) { text throws(ExpressionError) in try PathTemplate(text, captures: all) }
        guard to.isOfNode else {
            throw TextFault("The place of a hit has keys, wildcards of the node's place, {item} and values such as {user}.", source.to)
        }
        guard to.uses(depth + 1) || to.hasGeneratedKey else {
            let message = "The place of a hit has the key of what is found, {item}, or a generated one, +: else two would be one."
            throw TextFault(message, source.to)
        }
        let scope = Scope(kind: .write, captures: captures)
        var on: [WatchRule.Place] = []
        for text in source.on { on.append(try place(text, source, &builder)) }
        var (cooldown, until): (Int32, Int32) = (-1, -1)
        var plain = scope
        plain.watch = WatchScope()
        if let text = source.cooldown { cooldown = builder.lower(try value(text, plain), depth: depth) }
        if let text = source.until { until = builder.lower(try value(text, plain), depth: depth) }
        return WatchRule(
            area: area, on: on, to: to, cooldown: cooldown, until: until, reads: reads, number: number, pattern: keys)
    }

    /// The segment of `to` that stands for the key of the found child.
    private static let item = "{item}"

    /// One place of `on`, with the code that sees its children.
    private func place(
        _ text: LocatedString, _ source: SourceWatch, _ builder: inout ProgramBuilder
    ) throws(TextFault) -> WatchRule.Place {
        let template = try located(text) { text throws(ExpressionError) in try PathTemplate(text, captures: captures) }
        let isKnown = template.segments.allSatisfy { segment in
            switch segment {
            case .key, .capture: true
            case .every, .value, .generated: false
            }
        }
        guard isKnown, template.segments.count < Path.maxDepth else {
            throw TextFault("'on' is a place of keys and of wildcards of the node's place, such as \"places/$u\".", text)
        }
        guard let index = geo.index(at: template) else {
            let hint = Spelling.nearest(text.value, in: geo.all).map { "did you mean '\($0)'?" }
            var error = ExpressionError(offset: 0, message: "'on' names a place with a '.geoIndex', and '\(text.value)' has none.")
            error.hint = hint
            throw TextFault(error: error, text: text)
        }
        var scope = Scope(kind: .write, captures: captures)
        let snapshot = CopyCompiler.snapshot(template, captures)
        scope.watch = WatchScope(
            item: .child(snapshot, Term(kind: .capture(depth: depth + 1), span: .none)), key: captures["$item"] == nil ? depth + 1 : nil)
        var condition: Int32 = -1
        if let text = source.condition {
            let term = try located(text) { text throws(ExpressionError) in
                try Checker.rule(try ExpressionParser.parse(text), scope: scope, functions: functions)
            }
            condition = builder.lower(term, depth: depth)
        }
        let value = try TemplateCompiler(depth: depth, scope: scope, functions: functions).compile(source.value, &builder)
        if case .node(.null) = value { throw TextFault("The value of a hit is something.", source.to) }
        let fields = GeoFields(latitude: index.latitude, longitude: index.longitude)
        let watched = WatchedPlace(pattern: template.pattern, fields: fields)
        return WatchRule.Place(template: template, shared: builder.number(watched), condition: condition, value: value)
    }

    /// The place of a centre or a stored region.
    private func template(_ text: LocatedString, _ name: String) throws(TextFault) -> PathTemplate {
        let template = try located(text) { text throws(ExpressionError) in
            try PathTemplate(text, captures: captures).refusingGeneratedKeys()
        }
        guard template.isOfNode else {
            throw TextFault("'\(name)' is a place of keys, wildcards of the node's place, and values such as {user}.", text)
        }
        return template
    }

    private func value(_ text: LocatedString, _ scope: Scope) throws(TextFault) -> Term {
        try located(text) { text throws(ExpressionError) in
            try Checker.value(try ExpressionParser.parse(text), scope: scope, functions: functions)
        }
    }

    private func located<R>(_ text: LocatedString, _ body: (String) throws(ExpressionError) -> R) throws(TextFault) -> R {
        do throws(ExpressionError) { return try body(text.value) } catch { throw TextFault(error: error, text: text) }
    }
}

extension PathTemplate {
    /// Whether it has no wildcard that ranges over keys.
    fileprivate var isOfNode: Bool { !segments.contains { if case .every = $0 { true } else { false } } }

    /// The keys of its places; nil for any.
    var pattern: [Key?] { segments.map { if case .key(let key) = $0 { key } else { nil } } }
}

/// Finds the places that a radius may read besides its node.
private struct WatchReads {
    /// The node's place; nil for a wildcard.
    let node: [Key?]

    private struct Read {
        var keys: [Key?]
        /// Whether a computed key follows.
        var isOpen = false
        /// Whether it is the node, or below it.
        var isOwn = false
    }

    /// Each with everything below it.
    func places(of term: Term) -> [[Key?]] {
        var found: Set<[Key?]> = []
        func add(_ place: SnapshotTerm) { for read in reads(place) where !read.isOwn { found.insert(read.keys) } }
        term.forEach { part in
            switch part.kind {
            case .val(let place), .childCount(let place), .priority(let place), .exists(let place), .hasChildren(let place),
                .isKind(let place, _), .opaque(let place?), .valOr(let place, _), .hasAll(let place, _), .hasAny(let place, _):
                add(place)
            case .equals(let a, let b), .sharesKey(let a, let b): for place in [a, b] { add(place) }
            default: break
            }
        }
        return Array(found)
    }

    private func reads(_ place: SnapshotTerm) -> [Read] {
        switch place {
        case .data, .newData: return [Read(keys: node, isOwn: true)]
        case .root, .newRoot: return [Read(keys: [])]
        case .child(let parent, let name):
            return reads(parent).map { read in
                if read.isOpen { return read }
                var read = read
                switch name.folded.kind {
                case .constant(.string(let text)): read.keys += text.string.split(separator: "/").map { Key(String($0)) }
                case .capture: read.keys.append(nil)
                default: read.isOpen = true
                }
                return read
            }
        case .parent(let child, _):
            return reads(child).map { read in
                if read.isOpen { return Read(keys: [], isOpen: true) }
                let keys = Array(read.keys.dropLast())
                return Read(keys: keys, isOwn: read.isOwn && keys.count >= node.count)
            }
        case .conditional(_, let a, let b): return reads(a) + reads(b)
        }
    }
}
