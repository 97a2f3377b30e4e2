import JSONTree

/// A written place known to be valid with everything below it.
struct ValidPlace {
    let place: Int32
    let depth: Int
    /// The keys of its location, at a fixed address.
    let keys: UnsafePointer<Key>
    let old: NodeCursor?
    let new: NodeCursor
    /// The text work that the check took.
    let work: Int
}

extension Consequences {
    /// The places whose `.validate` must be evaluated, each with the number of writes it represents. Consecutive copies of the identical
    /// value are evaluated once if the rules depend on nothing else that differs. Reads no tree.
    func placesToValidate(_ tables: ProgramTables) -> [(path: Path, times: Int)] {
        guard areDisjoint else { return writes.map { ($0.path, 1) } }
        var asked: [(path: Path, times: Int)] = []
        var known: (number: Int, place: Int32, keys: UInt64)?
        for (i, write) in writes.enumerated() {
            var isBelowOthers = false
            let place = tables.place(of: write.path) {
                if $0.validate >= 0 { isBelowOthers = true }
                return true
            }
            if let known, known.place == place, write.value.isSameObject(as: writes[known.number].value),
                write.path.hasKeys(of: writes[known.number].path, at: known.keys)
            {
                asked[asked.count - 1].times += 1
                continue
            }
            asked.append((write.path, 1))
            known = nil
            guard place >= 0, !isBelowOthers else { continue }
            let (validity, depth) = (tables.places[Int(place)].validity, write.path.depth)
            if validity.isWithin(depth), !validity.seesOld { known = (i, place, validity.keys & (2 << UInt64(depth) - 1)) }
        }
        return asked
    }
}

/// Copies of a node at many places: the result of `.validate` for one holds for the next with the same rules and value. The rules must
/// depend on nothing else that differs (`Reach`).
extension Evaluator {
    /// Whether the current place is valid because the last evaluated one is. Charges the same work, so that the decision does not depend on
    /// this shortcut.
    mutating func isKnownValid(_ place: Int32, _ node: NodeCursor) -> Bool {
        guard let known = lastValid, known.place == place, known.depth == depth, known.work <= textWork, known.new.isIdentical(to: node)
        else { return false }
        let validity = tables.places[Int(place)].validity
        var keys = validity.keys & (2 << UInt64(depth) - 1)
        while keys != 0 {
            let seen = keys.trailingZeroBitCount
            guard key(seen).isEqual(to: TextCursor(known.keys + (seen - 1))) else { return false }
            keys &= keys - 1
        }
        if validity.seesOld {
            switch (known.old, self.node(.old, at: depth)) {
            case (nil, nil): break
            case (let old?, let own?): guard old.isIdentical(to: own) else { return false }
            default: return false
            }
        }
        textWork -= known.work
        return true
    }

    /// Records that the current place is valid.
    mutating func noteValid(_ place: Int32, _ keys: UnsafeBufferPointer<Key>, work: Int) {
        let validity = tables.places[Int(place)].validity
        guard depth > 0, validity.isWithin(depth), let new = node(.new, at: depth), let base = keys.baseAddress else { return }
        lastValid = ValidPlace(
            place: place, depth: depth, keys: base, old: validity.seesOld ? node(.old, at: depth) : nil, new: new, work: work)
    }
}
