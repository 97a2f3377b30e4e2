import JSONTree

/// A written place that is valid with all below it.
struct ValidPlace {
    let place: Int32
    let depth: Int
    /// The keys of its location, which stay where they are.
    let keys: UnsafePointer<Key>
    let old: NodeCursor?
    let new: NodeCursor
    /// Text work that finding it out took.
    let work: Int
}

extension Consequences {
    /// Where `.validate` is to be asked about its writes, and for how many of them each place stands: of copies behind each other, which
    /// are the very same value, one is asked about, if the rules look at nothing else that differs. Nothing is looked up in a tree.
    func placesToAsk(_ tables: ProgramTables) -> [(path: Path, times: Int)] {
        guard areApart else { return writes.map { ($0.path, 1) } }
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

/// Copies of a node at many places: what `.validate` says about one, it says about the next that has the same rules and the same value, if
/// the rules look at nothing else that differs (`Reach`).
extension Evaluator {
    /// Whether the place where the walk stands is as valid as the last one that was asked about. What that took is taken off, so that an
    /// operation is refused with and without it alike.
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

    /// Notes that the place where the walk stands is valid.
    mutating func noteValid(_ place: Int32, _ keys: UnsafeBufferPointer<Key>, work: Int) {
        let validity = tables.places[Int(place)].validity
        guard depth > 0, validity.isWithin(depth), let new = node(.new, at: depth), let base = keys.baseAddress else { return }
        lastValid = ValidPlace(
            place: place, depth: depth, keys: base, old: validity.seesOld ? node(.old, at: depth) : nil, new: new, work: work)
    }
}
