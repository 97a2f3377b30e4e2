public import JSONTree

extension QuerySet {
    /// Applies a commit that changed children of the place to all views. O(affected views · log n for each change)
    /// - Parameters:
    ///   - writes: the changed children, each once.
    ///   - place: the place after the commit.
    ///   - orders: its children after the commit.
    ///   - onChange: called once for each view that differs. Must not add or remove views.
    public func apply(_ writes: ContiguousArray<ChildWrite>, over place: Node, in orders: Orders, _ onChange: Notify) {
        defer { relistCircles() }
        refillVisits = settings.visitsOfCommit
        if writes.count == 1 {
            apply(writes[0], over: place, in: orders, onChange)
            return
        }
        var touched: ContiguousArray<LiveQueryView> = []
        for write in writes {
            find(write) { view, seen in
                if view.pending.isEmpty { touched.append(view) }
                view.pending.append(seen)
            } circle: { view, _, _ in
                if view.pending.isEmpty { touched.append(view) }
                let selector = view.selector
                view.pending.append(
                    FilteredWrite(write: write, was: selector.was, now: selector.now, oldPoint: oldPoint, newPoint: newPoint))
            }
        }
        for view in touched {
            let pending = view.pending
            view.pending.removeAll(keepingCapacity: pending.count <= 16)
            if let change = follow(view, pending, over: place, in: orders) { onChange(view, change) }
        }
    }

    /// The fast path for the usual commit, which changes one child.
    private func apply(_ write: ChildWrite, over place: Node, in orders: Orders, _ onChange: Notify) {
        find(write) { view, seen in
            if let change = follow(view, seen, over: place, in: orders) { onChange(view, change) }
        } circle: { view, old, new in
            let (was, now) = (view.selector.was, view.selector.now)
            if view.isCircle {
                if let event = view.window?.step(write, from: old, was, to: new, now) { onChange(view, .child(event)) }
                return
            }
            let seen = FilteredWrite(write: write, was: was, now: now, oldPoint: oldPoint, newPoint: newPoint)
            if let change = follow(view, seen, over: place, in: orders) { onChange(view, change) }
        }
    }

    /// A small change of one child needs no lists.
    private func follow(
        _ view: LiveQueryView, _ seen: FilteredWrite, over place: Node, in orders: Orders
    ) -> LiveQueryView.Change? {
        var event: LiveEvent?
        let before = view.held
        guard view.window?.applyAlone(seen, &event) ?? false else { return follow(view, [seen], over: place, in: orders) }
        held += view.held - before
        // Not now: the list of circles is being iterated.
        if !isListed(view) { circlesToRelist.append(view) }
        return event.map { .child($0) }
    }

    /// Updates the point index with a change, and finds the affected views.
    /// - Parameters:
    ///   - body: called with each view without a circle whose filter selects the child before or after.
    ///   - circle: the same for views whose circle or region contains it, with the squared chords to its old and new position: 0 in a region.
    private func find(
        _ write: ChildWrite, _ body: (LiveQueryView, FilteredWrite) -> Void, circle: (LiveQueryView, Double, Double) -> Void
    ) {
        change += 1
        var seen = FilteredWrite(write: write)
        (oldPoint, newPoint) = (nil, nil)
        if let index {
            oldPoint = index.fields.point(of: write.old)
            newPoint = index.fields.point(of: write.new)
            index.move(write.key, from: oldPoint, to: newPoint)
        }
        withUnsafePointer(to: write.old) { old in
            withUnsafePointer(to: write.new) { new in
                let before = write.old.exists ? NodeCursor(old) : nil
                let after = write.new.exists ? NodeCursor(new) : nil
                predicates.concerned(old: before, new: after) { slot in
                    guard let selector = bySlot[slot], selector.evaluatedFor != change else { return }
                    ask(selector, before, after)
                    guard selector.was || selector.now else { return }
                    (seen.was, seen.now) = (selector.was, selector.now)
                    for view in selector.views { body(view, seen) }
                }
                guard oldPoint != nil || newPoint != nil else { return }
                func concern(_ slot: Int, _ oldChord: Double, _ newChord: Double) {
                    guard let view = byCircle[slot] else { return }
                    if view.selector.evaluatedFor != change { ask(view.selector, before, after) }
                    if view.selector.was || view.selector.now { circle(view, oldChord, newChord) }
                }
                measured += circles.concerned(old: oldPoint, new: newPoint, concern)
                measured += regions.concerned(old: oldPoint, new: newPoint) { slot, was, now in
                    concern(slot, was ? 0 : .infinity, now ? 0 : .infinity)
                }
            }
        }
    }

    private func ask(_ selector: LiveQueryView.Selector, _ old: NodeCursor?, _ new: NodeCursor?) {
        evaluations += 1
        selector.evaluatedFor = change
        selector.was = old.map { selector.name.filter.admits($0) } ?? false
        selector.now = new.map { selector.name.filter.admits($0) } ?? false
    }

    private func follow(
        _ view: LiveQueryView, _ writes: ContiguousArray<FilteredWrite>, over place: Node, in orders: Orders
    ) -> LiveQueryView.Change? {
        if view.showing == .count { return recount(view, writes) }
        var events: ContiguousArray<LiveEvent> = []
        let before = view.held
        defer {
            held += view.held - before
            listUnfilled(view)
        }
        // `fill` finds the rest later.
        var visits = view.isSearched ? 0 : min(settings.visits, refillVisits)
        let most = visits
        defer { refillVisits -= most - visits }
        view.window?.apply(writes, over: place, from: source(of: view, orders), visits: &visits, &events)
        if !view.query.isByPosition { visited += most - visits }
        if !isListed(view) { circlesToRelist.append(view) }
        return LiveQueryView.Change(events)
    }

    private func recount(_ view: LiveQueryView, _ writes: ContiguousArray<FilteredWrite>) -> LiveQueryView.Change? {
        let before = view.count
        view.total += view.query.surplus(of: writes)
        return view.count == before ? nil : .count(view.count)
    }

    /// Continues the search for matches of a view that holds few.
    /// - Returns: the added children; nil for none. A view that is still short is listed in `unfilled` again.
    public func fill(_ view: LiveQueryView, over place: Node, in orders: Orders) -> LiveQueryView.Change? {
        guard view.needsFill else { return nil }
        var events: ContiguousArray<LiveEvent> = []
        let before = view.held
        defer {
            held += view.held - before
            listUnfilled(view)
        }
        guard let source = source(of: view, orders) else { return nil }
        var visits = settings.visits
        view.window?.fill(over: place, from: source, visits: &visits, &events)
        if !view.query.isByPosition { visited += settings.visits - visits }
        list(view)
        return LiveQueryView.Change(events)
    }

    /// Where a view finds its next children; nil if that is not available now.
    private func source(of view: LiveQueryView, _ orders: Orders) -> Window.Source? {
        view.query.isByPosition ? index.map { .points($0) } : orders(view.query.tree.orderedBy).map { .order($0) }
    }
}
