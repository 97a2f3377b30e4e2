import JSONTree

/// The places that commits have written since the oldest write that is being prepared was begun: what such a write has to take
/// over before it can be made. Empty while none is prepared, so that the others pay one comparison.
struct RecentWrites {
    /// Writes that are being prepared.
    private(set) var followers = 0
    private var places: [Path] = []
    /// Number of the oldest place.
    private var first = 0
    /// Places that are kept; with more of them who is behind begins again.
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    private var end: Int { first + places.count }

    /// From now on places are noted.
    mutating func begin() { followers += 1 }

    mutating func leave() {
        followers -= 1
        if followers == 0 { forget() }
    }

    mutating func note(_ paths: some Collection<Path>) {
        guard followers > 0 else { return }
        places.append(contentsOf: paths)
        if places.count > limit { forget() }
    }

    /// Nil when they are no longer known.
    func since(_ number: Int) -> ArraySlice<Path>? { number >= first ? places[(number - first)...] : nil }

    /// The number behind the last place.
    var next: Int { end }

    private mutating func forget() {
        first = end
        places = []
    }
}
