import HubEngine
import JSONTree
import Logging
final class DataStore: Sendable {
    init(folder: String, durability: Durability, logger: Logger) throws(ServerError) { throw .cannotOpen("not yet") }
    func recover(_ name: String) throws -> (root: Node, sequence: UInt64) { (.null, 0) }
    func log(for name: String) -> any CommitLog { NoCommitLog() }
    func writeSnapshot(_ name: String, root: Node, sequence: UInt64) {}
    func close() {}
}
