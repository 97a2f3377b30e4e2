import JSONTree

/// Encodes an update's values, piece by piece, under the names of the request body. The values are nodes of the tree.
struct UpdateEcho: Sendable {
    private let names: [String]
    private let values: [Node]
    private let form: NodeEncoder.Form
    /// The encoder of the current value, and the index of the next.
    private var value: NodeEncoder?
    private var next = 0
    private(set) var isDone = false

    /// - Parameter names: as many as values.
    init(_ names: [String], _ values: [Node], _ form: NodeEncoder.Form) {
        self.names = names
        self.values = values
        self.form = form
    }

    /// Appends until everything, or at least `bytes`, is in the writer.
    mutating func write(to writer: inout JSONWriter, atLeast bytes: Int) {
        while !isDone, writer.bytes.count < bytes {
            if var encoder = value {
                value = nil
                encoder.write(to: &writer, atLeast: bytes - writer.bytes.count)
                value = encoder.isDone ? nil : encoder
            } else if next < values.count {
                writer.raw(next == 0 ? "{" : ",")
                writer.string(names[next])
                writer.raw(":")
                value = NodeEncoder(values[next], form)
                next += 1
            } else {
                writer.raw(next == 0 ? "{}" : "}")
                isDone = true
            }
        }
    }

    /// Its size in bytes without escapes and white space; nil above `limit`. O(nodes)
    func size(upTo limit: Int) -> Int? {
        var left = limit
        for (name, value) in zip(names, values) {
            left -= name.utf8.count + 4
            if left < 0 || !value.isWithin(&left) { return nil }
        }
        return limit - left
    }
}
