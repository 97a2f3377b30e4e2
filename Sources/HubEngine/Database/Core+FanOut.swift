import JSONTree

extension Core {
    /// Tells every view that the commit touched: once each, however many writes touched it (contract §2.5 rule 7). A write
    /// that left its place as it was is told to nobody.
    /// - Parameter areCompared: whether the paths are known to be those of which the content has changed.
    func fanOut(_ paths: [Path], old: Node, areCompared: Bool = false) {
        var touched: [ObservedPlace] = []
        var room = limits.largeWritePlaces
        for (index, path) in paths.enumerated() {
            if !areCompared {
                let before = old.node(at: path)
                if before == root.node(at: path) { continue }
                if case .object = before, room >= 0, !before.hasNodes(within: &room) { retiring.append(old) }
            }
            observers.visit(touchedBy: path, old: old, new: root) { place, isBelow in
                if place.touchedBy.isEmpty, !place.isOverwritten { touched.append(place) }
                if isBelow { place.isOverwritten = true } else { place.touchedBy.append(index) }
            }
        }
        // A write at depth reads the same for every whole view above it, so its frame is shared among those too.
        var shared: [UInt8]?
        var sharedLater: DeferredBytes?
        for place in touched {
            let commit = PlaceChange(place, paths, old: old.node(at: place.path), new: root.node(at: place.path), root: root)
            if place.isOverwritten {
                rebuild(place, over: commit.new)
            } else {
                kept.follow(commit.children, at: place)
            }
            place.views(concernedBy: commit.isOverwritten ? nil : commit.children) { view, changes in
                spent += 1
                guard let change = view.query == nil ? whole(view, commit) : windowed(view, place, commit, changes) else { return }
                if !view.suspended.isEmpty { conflate(view, patches: commit.isOverwritten ? [] : change.patches) }
                view.lastChange = output.number ?? 0
                let frames = format.change(change)
                var size = ChangeSize(change, bound: limits.inlineBytes)
                var large: LargeChange?
                for (style, audience) in view.audiences {
                    let isShared = view.query == nil && paths.count == 1 && !place.isOverwritten && style == .patches(tag: nil)
                    if size.isLarge(for: style) || output.bytes > limits.outputBytes {
                        let encoding = large ?? LargeChange(change, format, limit: limits.readBytes)
                        large = encoding
                        let event = tellLater(encoding, view, style, audience, shared: isShared ? sharedLater : nil)
                        if isShared { sharedLater = event }
                    } else if isShared {
                        let frame = shared ?? frames(style)
                        shared = frame
                        output.send(frame, to: audience)
                    } else {
                        output.send(frames(style), to: audience)
                    }
                }
            }
            place.touchedBy.removeAll(keepingCapacity: true)
            place.isOverwritten = false
        }
    }

    /// What one commit did at one place.
    private struct PlaceChange {
        let isOverwritten: Bool
        let old: Node
        let new: Node
        /// Writes below the place; empty when it was overwritten.
        var patches: [(path: Path, value: Node)] = []
        /// The children they lie in, in key order.
        var children: [ChildChange] = []

        init(_ place: ObservedPlace, _ paths: [Path], old: Node, new: Node, root: Node) {
            isOverwritten = place.isOverwritten
            self.old = old
            self.new = new
            guard !isOverwritten else { return }
            var keys: [Key] = []
            for index in place.touchedBy {
                patches.append((paths[index], root.node(at: paths[index])))
                keys.append(paths[index].keys[place.path.depth])
            }
            if keys.count > 1 { keys = Set(keys).sorted() }
            children = keys.map { ChildChange(key: $0, old: old.child($0), new: new.child($0)) }
        }
    }

    private func whole(_ view: View, _ commit: PlaceChange) -> ViewChange? {
        let events = view.wantsChildren ? ChildEvent.events(from: commit.old, to: commit.new, keys: commit.isOverwritten ? nil : commit.children.map(\.key)) : []
        return ViewChange(path: view.path, sequence: sequence, new: commit.new, patches: commit.patches, events: events)
    }

    /// What a query shows of the commit: children that enter in full, children that leave as null, and of the others what
    /// was written (contract §3.5). Nil when all of it lies outside the window.
    private func windowed(_ view: View, _ place: ObservedPlace, _ commit: PlaceChange, _ changes: [QueryWindow.Change]) -> ViewChange? {
        // Without its index it is told when that has been built.
        guard let ordering = view.query?.orderedBy, let children = place.children(of: commit.new, by: ordering) else { return nil }
        counters.windowsMoved += 1
        if commit.isOverwritten {
            guard let window = view.window else { return nil }
            let value = TreeQuery.value(of: window.selection(over: children), in: commit.new)
            return ViewChange(path: view.path, sequence: sequence, new: value, patches: [], events: [])
        }
        guard let difference = view.window?.apply(changes, over: children) else { return nil }

        var patches: [(path: Path, value: Node)] = []
        for key in difference.left { patches.append((view.path.appending(key), .null)) }
        for key in difference.entered { patches.append((view.path.appending(key), commit.new.child(key))) }
        if !difference.stayed.isEmpty {
            let depth = view.path.depth
            let stayed = difference.stayed.count > 8 ? Set(difference.stayed) : nil
            func hasStayed(_ key: Key) -> Bool { stayed?.contains(key) ?? difference.stayed.contains(key) }
            for patch in commit.patches where hasStayed(patch.path.keys[depth]) { patches.append(patch) }
        }
        if patches.isEmpty { return nil }
        return ViewChange(path: view.path, sequence: sequence, new: .null, patches: patches, events: [])
    }
}
