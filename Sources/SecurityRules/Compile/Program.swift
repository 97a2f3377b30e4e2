import JSONTree

/// The compiled rules: expressions as flat instructions, the tree of rule nodes as flat places. Immutable.
final class Program: Sendable {
    let tables: ProgramTables
    let details: ContiguousArray<PlaceDetails>

    init(_ builder: consuming ProgramBuilder) {
        tables = ProgramTables(builder)
        details = builder.details
    }

    deinit { tables.deallocate() }
}

/// Everything an evaluation reads, at fixed addresses: a running rule counts no references to its own code. Valid while the
/// program lives.
struct ProgramTables: @unchecked Sendable {
    // Sendable: written once before the program is shared, only read afterwards.
    let code: UnsafeMutableBufferPointer<Instruction>
    /// Where each instruction stands in its rule's text.
    let offsets: UnsafeMutableBufferPointer<Int32>
    let constants: UnsafeMutableBufferPointer<Node>
    let keys: UnsafeMutableBufferPointer<Key>
    let steps: UnsafeMutableBufferPointer<Step>
    let regexes: UnsafeMutableBufferPointer<Regex>

    let places: UnsafeMutableBufferPointer<Place>
    /// Literal children of all places, each place's range ascending by fingerprint.
    let literals: UnsafeMutableBufferPointer<Literal>

    init(_ builder: borrowing ProgramBuilder) {
        func table<Element>(_ elements: ContiguousArray<Element>) -> UnsafeMutableBufferPointer<Element> {
            let table = UnsafeMutableBufferPointer<Element>.allocate(capacity: elements.count)
            _ = table.initialize(from: elements)
            return table
        }
        code = table(builder.code)
        offsets = table(builder.offsets)
        constants = table(builder.constants)
        keys = table(builder.keys)
        steps = table(builder.steps)
        regexes = table(builder.regexes)
        places = table(builder.places)
        literals = table(builder.literals)
    }

    func deallocate() {
        func free<Element>(_ table: UnsafeMutableBufferPointer<Element>) {
            table.deinitialize()
            table.deallocate()
        }
        free(code)
        free(offsets)
        free(constants)
        free(keys)
        free(steps)
        free(regexes)
        free(places)
        free(literals)
    }
}

/// One node of the rules tree, free of references; -1 stands for "none".
struct Place {
    var read: Int32 = -1
    var write: Int32 = -1
    var validate: Int32 = -1
    var expire: Int32 = -1
    var wildcard: Int32 = -1
    var firstLiteral: Int32 = 0
    var literalCount: Int32 = 0
    /// Itself or something below has a `.validate`.
    var validates = false

    subscript(kind: RuleKind) -> Int32 {
        get {
            switch kind {
            case .read: read
            case .write: write
            case .validate: validate
            case .expire: expire
            }
        }
        set {
            switch kind {
            case .read: read = newValue
            case .write: write = newValue
            case .validate: validate = newValue
            case .expire: expire = newValue
            }
        }
    }
}

/// A literal child of a place.
struct Literal {
    var fingerprint: UInt64
    var key: Key
    var place: Int32
}

/// What the usual path never looks at: the words of the file, for traces and indexes.
struct PlaceDetails: Sendable {
    /// The rule node's place with its wildcards, such as `/users/$uid`.
    var pattern: Path
    var sources: [RuleKind: RuleSource] = [:]
    var indexes: [String] = []
    var geoIndex: GeoIndexRule?
}

/// A rule's expression as it was written, and where.
public struct RuleSource: Sendable, Hashable {
    public let text: String
    public let line: Int
    public let column: Int
}

/// A quick hash of a key (FNV-1a over eight bytes at a time is not needed: keys are short).
@inline(__always)
func fingerprint(_ key: Key) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    func mix(_ bytes: UnsafeBufferPointer<UInt8>) {
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }
    if key.string.utf8.withContiguousStorageIfAvailable(mix) == nil {
        for byte in key.string.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }
    return hash
}

extension ProgramTables {
    /// The rule node for a child: a literal hides the wildcard completely (rules contract §1.2). -1 for none. O(log literals)
    @inline(__always)
    func child(of place: Int32, _ key: Key) -> Int32 {
        let node = places[Int(place)]
        if node.literalCount > 0 {
            let hash = fingerprint(key)
            var low = Int(node.firstLiteral)
            let end = low + Int(node.literalCount)
            var high = end
            while low < high {
                let middle = (low + high) / 2
                if literals[middle].fingerprint < hash { low = middle + 1 } else { high = middle }
            }
            while low < end, literals[low].fingerprint == hash {
                if literals[low].key == key { return literals[low].place }
                low += 1
            }
        }
        return node.wildcard
    }
}
