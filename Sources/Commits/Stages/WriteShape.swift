package import JSONTree

/// The second stage of a commit: refuses values that the tree cannot hold, for all protocols (contract §4.1, §4.2).
package enum WriteShape {
    /// - Parameter value: what the write stores, with server values filled in.
    package static func check(_ value: Node, of write: TreeWrite) throws(Failure) {
        switch write.part {
        case .node: guard value.fits(below: write.path.depth) else { throw .tooDeep }
        case .priority: guard value.canBePriority else { throw .badPriority }
        }
    }
}

extension Failure {
    package static let tooDeep = Failure(.failure, "\(JSONError.tooDeep(offset: 0))")
    package static let badPriority = Failure(.failure, "\(JSONError.invalidPriority(offset: 0))")
}
