package import JSONTree

/// The nodes that a commit writes.
package enum WrittenNodes {
    /// Values at paths of which none lies above or below another.
    case values([(path: Path, value: Node)])
    case places([Path])

    package var count: Int {
        switch self {
        case .values(let values): values.count
        case .places(let paths): paths.count
        }
    }

    package subscript(i: Int) -> (path: Path, value: Node?) {
        switch self {
        case .values(let values): (values[i].path, values[i].value)
        case .places(let paths): (paths[i], nil)
        }
    }
}
