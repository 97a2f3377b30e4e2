import JSONTree
import LiveQueries

/// The cost of a write under many live queries with different constants, compared with evaluating each of them in the same run.
struct QueriesMeasurement {
    var queries = 10_000
    var children = 20_000
    var writes = 2_000

    func run(_ show: (String) -> Void) throws {
        var place = Node.object((0..<children).map { (Key("c\($0)"), record($0)) })
        let views = QuerySet()
        var filters: [Filter] = []
        let build = try microseconds {
            for i in 0..<queries {
                let filter = Filter(conditions(i))
                filters.append(filter)
                let query = try Query(TreeQuery(index: .key), where: filter)
                // Take the children of its user directly, as an index would find them.
                let own = stride(from: i % queries, to: children, by: queries).map { Key("c\($0)") }
                if let window = Window(query, over: place, among: own) { _ = views.add(window) }
            }
        }
        show("\(queries) live queries over \(children) children, made in \((build / Double(queries)).fixed(1)) µs each")
        for (title, change) in [("a write that one matches", 1), ("a write that none matches", 0)] {
            var (told, asked, steps) = (0, views.evaluations, ContiguousArray<ContiguousArray<ChildWrite>>())
            var places: [Node] = []
            for i in 0..<writes {
                let key = Key(change == 1 ? "c\(i * 7 % children)" : "other")
                let old = place.child(key)
                let new = change == 1 ? record(i * 7 % children, rating: i) : ["uid": "nobody", "status": "gone", "rating": .int(Int64(i))]
                place = Node.object([(key, new)])
                places.append(place)
                steps.append([ChildWrite(key, old: old.exists ? old : record(i * 7 % children, rating: i + 1), new: new)])
            }
            let time = microseconds {
                for i in steps.indices { views.apply(steps[i], over: places[i], in: { _ in nil }) { _, _ in told += 1 } }
            }
            asked = views.evaluations - asked
            var selected = 0
            let few = steps.prefix(50)
            let scan = microseconds {
                for step in few {
                    for filter in filters { if filter.admits(step[0].old) || filter.admits(step[0].new) { selected += 1 } }
                }
            }
            let each = time / Double(writes)
            show(
                "  \(title): \(each.fixed(2)) µs, \((Double(asked) / Double(writes)).fixed(2)) filters asked, "
                    + "\((Double(told) / Double(writes)).fixed(2)) told; asking all \((scan / Double(few.count)).fixed(0)) µs")
        }
    }

    private func conditions(_ i: Int) -> [Condition] {
        switch i % 4 {
        case 0: [Condition("uid", .equal(Constant(stringLiteral: "user-\(i)"))), Condition("status", .equal("open"))]
        case 1: [Condition("status", .equal("open")), Condition("uid", .oneOf([Constant(stringLiteral: "user-\(i)"), "nobody else"]))]
        case 2: [Condition("tags", .has(Key("tag-\(i)"))), Condition("rating", .above(0, orEqual: true))]
        default: [Condition("at", .above(Constant(integerLiteral: Int64(i)), orEqual: true)),
                  Condition("at", .below(Constant(integerLiteral: Int64(i + 1)), orEqual: false))]
        }
    }

    private func record(_ i: Int, rating: Int = 0) -> Node {
        let i = i % queries
        return [
            "uid": .string("user-\(i)"), "status": "open", "at": .int(Int64(i)), "rating": .int(Int64(rating)),
            "tags": .object([(Key("tag-\(i)"), Node.bool(true)), (Key("all"), Node.bool(true))]),
        ]
    }
}
