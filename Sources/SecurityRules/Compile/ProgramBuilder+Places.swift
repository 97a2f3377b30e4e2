import JSONTree

extension ProgramBuilder {
    /// Adds a rule node without rules or children; the first one is the root.
    mutating func addPlace(_ details: PlaceDetails) -> Int32 {
        places.append(Place())
        self.details.append(details)
        return Int32(places.count - 1)
    }

    mutating func set(_ kind: RuleKind, _ instruction: Int32, _ source: RuleSource, at place: Int32) {
        places[Int(place)][kind] = instruction
        details[Int(place)].sources[kind] = source
    }

    /// The filters and orders become ordinary indexes of the place.
    mutating func setGeoIndex(_ index: SourceGeoIndex, at place: Int32) {
        details[Int(place)].geoIndex = (index.latitude, index.longitude)
        details[Int(place)].countFilters = index.filters.map(\.value)
        for name in index.filters + index.orders where !details[Int(place)].indexes.contains(name.value) {
            details[Int(place)].indexes.append(name.value)
        }
    }

    mutating func setCountTerms(_ terms: CountTerms, at place: Int32) {
        var terms = terms
        terms.pattern = details[Int(place)].pattern
        details[Int(place)].countTerms = terms
    }

    mutating func setDrop(_ instruction: Int32, at place: Int32) { details[Int(place)].drop = instruction }
    mutating func setDefault(_ rule: DefaultRule, at place: Int32) { details[Int(place)].defaultRule = rule }

    mutating func addRemoval(_ removal: RemovalRule, at place: Int32) { details[Int(place)].removes.append(removal) }

    mutating func setRate(_ rate: WriteRate?, at place: Int32) { details[Int(place)].rate = rate }

    mutating func addCopy(_ copy: CopyRule, at place: Int32) {
        var copy = copy
        if copy.each != nil {
            copy.number = indexed.count
            indexed.append(IndexedPlaces(copy))
        }
        details[Int(place)].copies.append(copy)
    }

    mutating func addInbox(_ inbox: InboxRule, at place: Int32) {
        var inbox = inbox
        if inbox.members != nil {
            inbox.indexed = indexed.count
            indexed.append(IndexedPlaces(inbox))
        }
        details[Int(place)].inboxes.append(inbox)
    }

    mutating func addNotifications(_ rules: [NotifyRule], at place: Int32) { details[Int(place)].notifications += rules }
    mutating func addWebhook(_ rule: WebhookRule, at place: Int32) { details[Int(place)].webhooks.append(rule) }
    mutating func addWatch(_ watch: WatchRule, at place: Int32) {
        var watch = watch
        watch.place = place
        watches.append(watch)
        details[Int(place)].watches = true
    }

    /// Adds an `.expire` to a place; its instructions are those emitted since `start`.
    mutating func addExpiry(_ rule: ExpiryRule, from start: Int, at place: Int32) {
        details[Int(place)].expires.append(rule)
        if code[start...].contains(where: { $0.operation == .written }) { places[Int(place)].readsWritten = true }
        for reach in reaches[start...] { places[Int(place)].expiryKeys |= reach.keys }
    }

    mutating func addCounter(_ counter: Counter) {
        details[Int(counter.place)].counts.append(counters.count)
        counters.append(counter)
    }

    /// Links a node to its children, which must be complete.
    mutating func setChildren(_ children: [(Key, Int32)], wildcard: Int32, at number: Int32) {
        var place = places[Int(number)]
        place.wildcard = wildcard
        place.firstLiteral = Int32(literals.count)
        place.literalCount = Int32(children.count)
        var sorted: [Literal] = []
        for (key, place) in children {
            let fingerprint = withUnsafePointer(to: key) { TextCursor($0).fingerprint }
            sorted.append(Literal(fingerprint: fingerprint, key: self.number(key), place: place))
        }
        sorted.sort { $0.fingerprint < $1.fingerprint }
        literals.append(contentsOf: sorted)
        let below = (children.map(\.1) + [wildcard]).filter { $0 >= 0 }.map { places[Int($0)] }
        place.validates = place.validate >= 0 || below.contains { $0.validates }
        place.drops = details[Int(number)].drop >= 0 || details[Int(number)].defaultRule?.isKept == true || below.contains { $0.drops }
        place.defaults = details[Int(number)].defaultRule != nil || below.contains { $0.defaults }
        place.keeps = details[Int(number)].defaultRule?.isKept == true || below.contains { $0.keeps }
        place.removes = !details[Int(number)].removes.isEmpty || below.contains { $0.removes }
        place.removesOnChange = details[Int(number)].removes.contains { $0.event == .change } || below.contains { $0.removesOnChange }
        place.counts = !details[Int(number)].counts.isEmpty || below.contains { $0.counts }
        place.createsNodes = details[Int(number)].counts.contains { counters[$0].creates } || below.contains { $0.createsNodes }
        place.copies = !details[Int(number)].copies.isEmpty || !details[Int(number)].inboxes.isEmpty || below.contains { $0.copies }
        place.rates = details[Int(number)].rate != nil || below.contains { $0.rates }
        place.delivers = !details[Int(number)].notifications.isEmpty || !details[Int(number)].webhooks.isEmpty || below.contains { $0.delivers }
        place.ends = !details[Int(number)].expires.isEmpty
        place.expires = place.ends || below.contains { $0.expires }
        place.isSource = details[Int(number)].isFollowed
        if place.validate >= 0 { place.validity = reaches[Int(place.validate)] }
        for below in below { place.validity.add(below.validity) }
        places[Int(number)] = place
        details[Int(number)].defaulted = children.filter { details[Int($0.1)].defaultRule != nil }.map { (key: $0.0, place: $0.1) }
    }

    /// Adds the only node of rules that allow everything or nothing.
    mutating func addRoot(granting: Bool) {
        let root = addPlace(PlaceDetails(pattern: .root))
        guard granting else { return }
        let yes = lower(Term(kind: .constant(true), span: .none), depth: 0)
        for kind in [RuleKind.read, .write] { set(kind, yes, RuleSource(text: "true", line: 1, column: 1, offset: 0), at: root) }
    }
}
