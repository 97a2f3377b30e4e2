import JSONTree

/// The contract's data model (§4.1–§4.2), as simple as possible: a dictionary per object.
struct NaiveTree: Equatable {
    /// nil for an object.
    var leaf: Node?
    var children: [String: NaiveTree] = [:]
    var priority: Node = .null

    init(leaf: Node) { self.leaf = leaf }
    init() {}

    /// The tree as the model sees it; nil when missing.
    init?(_ node: Node) {
        if node.isNull { return nil }
        priority = node.priority
        guard node.hasChildren else {
            leaf = node.leaf
            return
        }
        for (key, child) in node.children { children[key.string] = NaiveTree(child) }
    }

    static func setting(_ tree: NaiveTree?, _ keys: ArraySlice<String>, _ value: NaiveTree?) -> NaiveTree? {
        guard let key = keys.first else { return value }
        if value == nil, tree?.children[key] == nil { return tree }
        var result = tree ?? NaiveTree()
        result.leaf = nil
        result.children[key] = setting(result.children[key], keys.dropFirst(), value)
        return result.children.isEmpty ? nil : result
    }

    static func settingPriority(_ tree: NaiveTree?, _ keys: ArraySlice<String>, _ priority: Node) -> NaiveTree? {
        guard var result = tree else { return nil }
        guard let key = keys.first else {
            result.priority = priority
            return result
        }
        result.children[key] = settingPriority(result.children[key], keys.dropFirst(), priority)
        return result
    }

    func at(_ keys: ArraySlice<String>) -> NaiveTree? {
        guard let key = keys.first else { return self }
        return children[key]?.at(keys.dropFirst())
    }
}
