public import JSONTree
public struct QueryVariables: Sendable { public static let none = QueryVariables() }
public struct RuleSet: Sendable {
    let open: Bool
    public static let denyAll = RuleSet(open: false)
    public static let allowAll = RuleSet(open: true)
    public func allowsRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables) -> Bool { open }
    public func allowsWrite(_ locations: [Path], old: Node, new: Node, auth: Node, now: Int64) -> Bool { open }
}
