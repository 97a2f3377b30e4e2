/// One operation of a compiled expression. Operands are indexes of earlier instructions or of table entries. So a running rule touches no
/// reference counts for its code.
struct Instruction {
    var operation: Operation
    /// The raw value of a comparison, test or kind.
    var detail: UInt8 = 0
    /// Whether the value depends on stored or written data, directly or through an operand. Otherwise it depends only on `auth`, `now`,
    /// `query` and the keys of the place. Set when the instruction is emitted.
    var readsData = false
    var a: Int32 = -1
    var b: Int32 = -1
    var c: Int32 = -1
}

enum Operation: UInt8 {
    // Yield a boolean.
    case no, yes
    /// a and b; b is evaluated only if needed.
    case and, or
    case not
    /// detail: comparison; values a, b.
    case compare
    /// value a equals constant b.
    case equalConstant, notEqualConstant
    /// snapshot a exists, has children, is a leaf of the kind in detail, has all the names in steps b ..< b + c.
    case exists, hasChildren, isKind, hasAll
    /// snapshot a has one of the names in steps b ..< b + c.
    case hasAny
    /// snapshots a and b are equal; share a key.
    case equals, sharesKey
    /// detail: string test; values a, b.
    case stringTest
    /// value a, regex b.
    case matches
    /// detail: query field.
    case queryFlag

    // Yield a value.
    case constant
    case now, auth, written, distance
    /// auth's `uid`, the most used property.
    case uid
    /// a: depth of the wildcard.
    case capture
    /// value a, key b.
    case property
    /// value a, value b.
    case propertyIndex
    /// detail: query field.
    case queryField
    /// a: the index of a path in the query's `where`.
    case queryCondition
    /// detail: arithmetic operator; values a, b.
    case arithmetic
    case negate
    /// snapshot a.
    case val, priority, opaque
    /// snapshot a, else value b.
    case valOr
    case childCount
    case length
    case replace
    /// detail: 1 for upper case.
    case recase
    case fold, dayNumber
    /// value a, time zone b.
    case dayOf
    /// value a, name of a time zone b.
    case dayIn

    // Yield any of the three.
    /// boolean a, then b or c.
    case conditional
    /// the value of a: a function's body.
    case call

    // Yield a node.
    /// data, newData or root (detail: which tree) at depth a, then steps b ..< b + c.
    case place
    /// shared path a, then steps b ..< b + c.
    case shared
    /// snapshot a, then steps b ..< b + c.
    case below
    /// snapshot a, one level up.
    case parent
}

/// Which tree a place is in.
enum Tree: UInt8 { case old, new }

/// One step of a path below a snapshot.
struct Step {
    enum Kind: UInt8 {
        /// Key number `index` of the program.
        case key
        /// The key that the wildcard at depth `index` is bound to.
        case capture
        /// The value of instruction `index`: a string of one or more segments. An empty string leads to no node.
        case value
        /// The value of instruction `index` as a part of a longer path: numbers become text, and an empty part is no step.
        case part
    }
    var kind: Kind
    var index: Int32
}

/// A path from the root that several rules use, as one step below a shorter shared path; each evaluation walks it once.
struct SharedPath {
    let tree: Tree
    /// -1: the root.
    let parent: Int32
    /// A key or a capture.
    let step: Step
}
