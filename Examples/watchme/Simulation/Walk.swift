import Glibc

/// One person's way through the city: from place to place along the streets, at walking pace, never straight back.
struct Walk: Sendable {
    /// A phone's report; coordinates have six decimals (0.1 m).
    struct Fix: Sendable, Equatable {
        let latitude: Double
        let longitude: Double
        /// Metres per second.
        let speed: Double
        /// Degrees clockwise from north.
        let heading: Double
    }

    private var random: SeededGenerator
    private var from: Int
    private var to: Int
    private var walkedMetres: Double
    private let pace: Double

    /// - Parameter seed: the same seed produces the same walk.
    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        from = Int.random(in: 0..<Athens.places.count, using: &random)
        to = Athens.neighbours[from].randomElement(using: &random) ?? from
        pace = Double.random(in: 1.1...1.7, using: &random)
        walkedMetres = 0
        walkedMetres = Double.random(in: 0..<lengthMetres, using: &random)
    }

    private var lengthMetres: Double { max(1, Athens.metres(Self.point(from), Self.point(to))) }

    /// The position after `seconds` more of walking.
    mutating func step(seconds: Double) -> Fix {
        walkedMetres += pace * seconds
        while walkedMetres >= lengthMetres {
            walkedMetres -= lengthMetres
            let ways = Athens.neighbours[to].filter { $0 != from }
            (from, to) = (to, ways.randomElement(using: &random) ?? from)
        }
        let (a, b) = (Self.point(from), Self.point(to))
        let share = walkedMetres / lengthMetres
        return Fix(
            latitude: Self.rounded(a.latitude + (b.latitude - a.latitude) * share, 1e6),
            longitude: Self.rounded(a.longitude + (b.longitude - a.longitude) * share, 1e6), speed: Self.rounded(pace, 10),
            heading: Self.rounded(Athens.heading(a, b), 1))
    }

    /// The place whose neighbourhood the walker is in.
    var neighbourhood: String { Athens.places[walkedMetres < lengthMetres / 2 ? from : to].name }

    private static func point(_ place: Int) -> (latitude: Double, longitude: Double) {
        (Athens.places[place].latitude, Athens.places[place].longitude)
    }

    private static func rounded(_ value: Double, _ scale: Double) -> Double { (value * scale).rounded() / scale }
}

/// SplitMix64: the same seed produces the same city.
struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
