import Commits
import JSONTree
import LiveQueries
import Observing

extension TreeWrite {
    init(_ place: String, _ value: Node) { self.init(Path(place.split(separator: "/").map { Key(String($0)) }), WriteValue(value)) }
}

extension Client {
    static func make() -> Client { Client(lane: 0, dialect: .realtime) }
}

extension Observation {
    init(_ place: Path) { self.init(path: place, query: nil as Query?, style: .patches(tag: nil)) }

    init(path: Path, query: TreeQuery?, style: ObserverStyle) {
        self.init(path: path, query: query.map { Query($0) }, style: style)
    }
}

extension View {
    var window: TreeQuery? { query?.plain }
}
