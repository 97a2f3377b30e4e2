import JSONTree
package import LiveQueries
package import SecurityRules

extension QueryVariables {
    /// The query as rules see it (rules language §11).
    package init(_ query: Query) {
        if query.selectsAll {
            self.init()
        } else if query.isByPosition {
            self.init()
            nearest = query.tree.limit
        } else {
            self.init(query.tree)
        }
        near = query.near != nil
        radius = query.near?.metres
        if let asked = query.within {
            within = asked.region?.kind ?? ""
            // The circle around a region, so that an upper bound for circles holds for regions as well. A lower bound does not: a narrow region
            // has a large circle. Rules with one require `query.near`.
            radius = asked.region?.enclosingCircle.metres ?? .infinity
        }
        for condition in query.filter.conditions {
            if case .equal(let constant) = condition.test {
                conditions[condition.path] = constant.value
            } else {
                otherConditions.insert(condition.path)
            }
        }
    }

    private init(_ query: TreeQuery) {
        self.init()
        switch query.orderedBy {
        case .key: orderByKey = true
        case .value: orderByValue = true
        case .priority: orderByPriority = true
        case .child(let path): orderByChild = path.relativeText
        }
        if let start = query.start, start == query.end {
            equalTo = start.value
        } else {
            startAt = query.start?.value
            endAt = query.end?.value
        }
        switch query.keeps {
        case .first: limitToFirst = query.limit
        case .last: limitToLast = query.limit
        }
    }
}
