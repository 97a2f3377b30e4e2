import JSONTree

/// A value of the naive model: nested sorted arrays, no sharing, no caches.
struct Plain: Equatable {
    var leaf = Node.null
    var priority = Node.null
    var children: [Child] = []

    struct Child: Equatable {
        var key: String
        var value: Plain
    }

    init() {}

    init(_ node: Node) {
        leaf = node.leaf
        priority = node.priority
        for (key, child) in node.children { children.append(Child(key: key.string, value: Plain(child))) }
    }

    var isEmpty: Bool { leaf.isNull && children.isEmpty }

    var node: Node {
        if isEmpty { return .null }
        if children.isEmpty { return leaf.with(priority: priority) }
        return .object(children.map { (Key($0.key), $0.value.node) }, priority: priority)
    }

    subscript(path: ArraySlice<String>) -> Plain {
        guard let key = path.first else { return self }
        return children.first { $0.key == key }?.value[path.dropFirst()] ?? Plain()
    }

    /// The value after a write below it (contract §4.2).
    func setting(_ path: ArraySlice<String>, to value: Plain) -> Plain {
        guard let key = path.first else { return value }
        if value.isEmpty, self[path].isEmpty { return self }
        var result = self
        result.leaf = .null
        let child = (children.first { $0.key == key }?.value ?? Plain()).setting(path.dropFirst(), to: value)
        result.children.removeAll { $0.key == key }
        if !child.isEmpty {
            result.children.append(Child(key: key, value: child))
            result.children.sort { Self.precedes($0.key, $1.key) }
        }
        return result.isEmpty ? Plain() : result
    }

    func settingPriority(_ path: ArraySlice<String>, to priority: Node) -> Plain {
        var value = self[path]
        if value.isEmpty { return self }
        value.priority = priority
        return setting(path, to: value)
    }

    /// Contract §3.2, literally.
    private static func precedes(_ a: String, _ b: String) -> Bool {
        func number(_ text: String) -> Int64? {
            let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
            guard !digits.isEmpty, text.utf8.count <= 11, digits.allSatisfy({ ("0"..."9").contains($0) }), let value = Int64(text) else {
                return nil
            }
            return Int32(exactly: value).map(Int64.init)
        }
        switch (number(a), number(b)) {
        case (nil, nil): return Array(a.utf16).lexicographicallyPrecedes(Array(b.utf16))
        case (_, nil): return true
        case (nil, _): return false
        case (let x?, let y?): return x != y ? x < y : a.utf16.count < b.utf16.count
        }
    }
}
