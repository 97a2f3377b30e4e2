import JSONTree

/// The children of a place as lines of a table: the key, then a column for each name that occurs below.
enum NodeTable {
    /// Maximum characters of a value, and maximum columns.
    private static let (characters, columns) = (40, 12)

    /// - Parameter order: the path in each child that they are sorted by; nil, `key` or a name that begins with `$`: by key.
    static func lines(_ node: Node, sortedBy order: String?) -> [String] {
        guard node.hasChildren else { return [UserText.plain(text(node))] }
        var rows = node.children.map { ($0, $1) }
        switch order {
        case "value", "$value": rows.sort { $0.1.valueOrder($1.1) < 0 }
        case let path?:
            if let path = try? Path(parsing: path), !path.isRoot, path.keys.first?.string.first != "$" {
                // Stable: equal ones keep the order of their keys.
                let keyed = rows.enumerated().map { (at: $0.offset, row: $0.element, value: value(at: path, of: $0.element.1)) }
                rows = keyed.sorted { a, b in
                    let order = a.value.valueOrder(b.value)
                    return order == 0 ? a.at < b.at : order < 0
                }.map(\.row)
            }
        case nil: break
        }
        return lines(rows)
    }

    /// Children in a given order.
    /// - Parameter metres: the distance of each.
    static func lines(_ rows: [(Key, Node)], metres: [Double]? = nil) -> [String] {
        var names: [String] = []
        for (_, child) in rows {
            guard child.hasChildren else {
                if !names.contains("value") { names.append("value") }
                continue
            }
            for (key, _) in child.children where names.count < columns && !names.contains(key.string) { names.append(key.string) }
        }
        let table = rows.enumerated().map { i, row in
            let (key, child) = row
            let distance = metres.map { i < $0.count ? [text(.number(($0[i] * 10).rounded() / 10))] : [""] } ?? []
            return [key.string] + distance + names.map { name in
                guard child.hasChildren else { return name == "value" ? text(child) : "" }
                let value = child.child(Key(name))
                return value.exists ? text(value) : ""
            }
        }
        return TextTable.lines([["key"] + (metres == nil ? [] : ["metres"]) + names] + table)
    }

    private static func value(at path: Path, of node: Node) -> Node { path.keys.reduce(node) { $0.child($1) } }

    private static func text(_ node: Node) -> String {
        let text = if case .string(let text) = node { text.string } else { node.json }
        return text.count > characters ? text.prefix(characters - 1) + "…" : text
    }
}

/// Aligned columns for a terminal.
enum TextTable {
    /// Two spaces between columns. Control characters in users' texts are replaced, so that none reaches the terminal. O(cells)
    static func lines(_ rows: [[String]]) -> [String] {
        let plain = rows.map { $0.map(UserText.plain) }
        var widths: [Int] = []
        for row in plain {
            for (i, cell) in row.enumerated() {
                if i == widths.count { widths.append(0) }
                widths[i] = max(widths[i], cell.count)
            }
        }
        return plain.map { row in
            var line = ""
            for (i, cell) in row.enumerated() { line += cell + String(repeating: " ", count: widths[i] - cell.count + 2) }
            while line.last == " " { line.removeLast() }
            return line
        }
    }
}
