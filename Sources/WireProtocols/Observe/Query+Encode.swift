import JSONTree
import LiveQueries

extension Query {
    /// Appends the member `query`, after others.
    func write(to writer: inout JSONWriter) {
        writer.raw(",\"query\":{")
        if let near, isByPosition {
            writer.near(NearQuery(centre: near.centre, metres: near.metres, limit: tree.limit))
        } else if let within, isByPosition {
            writer.within(within)
        } else {
            writer.tree(tree)
            if let near {
                writer.raw(",")
                writer.near(near)
            }
            if let within {
                writer.raw(",")
                writer.within(within)
            }
        }
        if !filter.isEmpty {
            writer.raw(",\"where\":")
            filter.json.write(to: &writer)
        }
        writer.raw("}")
    }
}

extension JSONWriter {
    /// Appends the members of a position.
    private mutating func position(_ point: GeoPoint) {
        raw("\"lat\":")
        node(.number(point.latitude))
        raw(",\"lng\":")
        node(.number(point.longitude))
    }

    /// Appends the new centre or region of a `move`, after other members.
    mutating func target(_ target: QueryMove) {
        switch target {
        case .centre(let centre):
            raw(",\"near\":{")
            position(centre)
            raw("}")
        case .within(let within):
            raw(",")
            self.within(within)
        }
    }

    fileprivate mutating func near(_ near: NearQuery) {
        raw("\"near\":")
        near.json.write(to: &self)
    }

    fileprivate mutating func within(_ within: WithinQuery) {
        raw("\"within\":")
        within.json.write(to: &self)
    }

    /// Order, range and limit.
    fileprivate mutating func tree(_ tree: TreeQuery) {
        raw("\"orderBy\":")
        switch tree.orderedBy {
        case .key: string("$key")
        case .value: string("$value")
        case .priority: string("$priority")
        case .child(let path): string(path.relativeText)
        }
        if let start = tree.start, start == tree.end, start.isInclusive {
            bound(start, "equalTo", "equalTo")
        } else {
            if let start = tree.start { bound(start, "startAt", "startAfter") }
            if let end = tree.end { bound(end, "endAt", "endBefore") }
        }
        if let limit = tree.limit {
            raw(tree.keeps == .first ? ",\"limitToFirst\":" : ",\"limitToLast\":")
            int(Int64(limit))
        }
    }

    private mutating func bound(_ bound: TreeQuery.Bound, _ inclusive: String, _ exclusive: String) {
        raw(",\"")
        raw((bound.isInclusive ? inclusive : exclusive).utf8)
        raw("\":")
        let isPassing = !bound.isInclusive && ["[MIN_NAME]", "[MAX_NAME]"].contains(bound.key?.string)
        guard let key = bound.key, !isPassing else { return node(bound.value) }
        raw("[")
        node(bound.value)
        raw(",")
        string(key.text)
        raw("]")
    }
}
