import Foundation
import JSONTree
import SecurityRules
import Testing

/// WatchMe's tree under its rules: a test applies a story write by write; allowed writes take effect.
struct City {
    /// The seed's posts are dated from this moment.
    static let start: Int64 = 1_790_000_000_000

    let rules: RuleSet
    var tree: Node
    var now = City.start

    init() throws {
        let folder = try City.exampleFolder()
        rules = try RuleSet(parsing: String(contentsOf: folder.appending(path: "rules.json"), encoding: .utf8))
        tree = try Node(json: String(contentsOf: folder.appending(path: "seed.json"), encoding: .utf8))
    }

    /// `Examples/watchme`, searched for upwards from this file.
    static func exampleFolder() throws -> URL {
        var folder = URL(filePath: #filePath)
        repeat {
            folder.deleteLastPathComponent()
            let example = folder.appending(path: "Examples/watchme")
            if FileManager.default.fileExists(atPath: example.appending(path: "rules.json").path) { return example }
        } while folder.path != "/"
        throw CocoaError(.fileNoSuchFile)
    }

    /// The current time in seconds, the unit of posts.
    var seconds: Int64 { now / 1000 }

    /// `nil` is a caller without an account.
    static func auth(_ user: String?, verified: Bool = true) -> Node {
        guard let user else { return .null }
        var token: [(Key, Node)] = [("sub", .string(user)), ("email", .string("\(user)@example.org")), ("email_verified", .bool(verified))]
        if user == "nikos" { token.append(("moderator", true)) }
        return ["uid": .string(user), "provider": "password", "token": .object(token)]
    }

    func reads(_ user: String?, _ path: String, query: QueryVariables = .none, verified: Bool = true) throws -> Bool {
        rules.allowsRead(try Path(parsing: path), root: tree, auth: City.auth(user, verified: verified), now: now, query: query)
    }

    /// A multi-path update from the root, or a set if it has one path; applied with its consequences if it is allowed.
    mutating func writes(_ user: String?, verified: Bool = true, _ values: [(String, Node)]) throws -> Bool {
        let writes = try values.map { (path: try Path(parsing: $0.0), value: $0.1) }
        let (locations, auth) = (writes.map(\.path), City.auth(user, verified: verified))
        let shaped = rules.shape(writes, on: tree, auth: auth, now: now)
        var work = RulesLimits.textWork
        let isAllowed = rules.allowsWrite(
            locations, validating: shaped.added, old: tree, new: shaped.tree, auth: auth, now: now, textWork: &work)
        guard isAllowed else { return false }
        let found = try rules.consequences(of: locations + shaped.added, old: tree, new: shaped.tree, now: now)
        guard rules.admits(found, old: tree, now: now, textWork: &work) else { return false }
        tree = found.tree
        return true
    }

    mutating func sets(_ user: String?, verified: Bool = true, _ path: String, _ value: Node) throws -> Bool {
        try writes(user, verified: verified, [(path, value)])
    }

    /// A write by the hub itself, without the rules.
    mutating func hub(_ path: String, _ value: Node) throws { tree.set(value, at: try Path(parsing: path)) }

    /// A post of Danae's in Kallithea.
    func post(_ changes: [(Key, Node)] = []) -> Node {
        var fields: [(Key, Node)] = [
            ("user", "danae"), ("timestamp", .int(seconds)), ("latitude", 37.9553), ("longitude", 23.7021), ("description", ""),
            ("policeArrived", false),
        ]
        fields.append(contentsOf: changes)
        return .object(fields)
    }

    /// The danger signal of an old client: the post and its copies in one update.
    mutating func danger(_ id: String, _ value: Node, to friends: [String], also changed: String = "") throws -> Bool {
        let places = ["/posts/\(id)", "/users-posts/danae/\(id)"] + friends.map { "/timeline/\($0)/\(id)" }
        return try writes("danae", places.map { ($0 + changed, value) })
    }

    /// Makes two users friends by writes of the hub, for stories that start later.
    mutating func befriend(_ a: String, _ b: String) throws {
        try hub("/users-friends/\(a)/\(b)", "added")
        try hub("/users-friends/\(b)/\(a)", "added")
    }
}
