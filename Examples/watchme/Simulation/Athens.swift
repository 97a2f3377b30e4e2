#if canImport(Glibc)
import Glibc
#endif

/// Where people walk: places of Athens and the streets between them, as straight lines.
enum Athens {
    struct Place: Sendable {
        let name: String
        let latitude: Double
        let longitude: Double
    }

    static let places: [Place] = [
        Place(name: "Syntagma", latitude: 37.9755, longitude: 23.7348),  // 0
        Place(name: "Monastiraki", latitude: 37.9761, longitude: 23.7257),
        Place(name: "Omonia", latitude: 37.9841, longitude: 23.7280),
        Place(name: "Exarchia", latitude: 37.9866, longitude: 23.7345),
        Place(name: "Kolonaki", latitude: 37.9773, longitude: 23.7416),
        Place(name: "Evangelismos", latitude: 37.9763, longitude: 23.7475),  // 5
        Place(name: "Acropolis", latitude: 37.9687, longitude: 23.7296),
        Place(name: "Koukaki", latitude: 37.9643, longitude: 23.7265),
        Place(name: "Neos Kosmos", latitude: 37.9575, longitude: 23.7285),
        Place(name: "Pangrati", latitude: 37.9699, longitude: 23.7478),
        Place(name: "Kallimarmaro", latitude: 37.9683, longitude: 23.7411),  // 10
        Place(name: "Kaisariani", latitude: 37.9676, longitude: 23.7585),
        Place(name: "Zografou", latitude: 37.9770, longitude: 23.7695),
        Place(name: "Ilisia", latitude: 37.9757, longitude: 23.7585),
        Place(name: "Ambelokipi", latitude: 37.9872, longitude: 23.7570),
        Place(name: "Thissio", latitude: 37.9767, longitude: 23.7206),  // 15
        Place(name: "Ano Petralona", latitude: 37.9674, longitude: 23.7113),
        Place(name: "Tavros", latitude: 37.9624, longitude: 23.7035),
        Place(name: "Kallithea", latitude: 37.9553, longitude: 23.7021),
        Place(name: "Kerameikos", latitude: 37.9786, longitude: 23.7115),
        Place(name: "Metaxourgeio", latitude: 37.9863, longitude: 23.7211),  // 20
        Place(name: "Victoria", latitude: 37.9930, longitude: 23.7304),
        Place(name: "Panepistimio", latitude: 37.9804, longitude: 23.7330),
        Place(name: "Filopappou", latitude: 37.9672, longitude: 23.7205),
        Place(name: "Mets", latitude: 37.9650, longitude: 23.7370),
    ]

    private static let streets: [(Int, Int)] = [
        (0, 1), (0, 4), (0, 22), (0, 6), (0, 10), (1, 2), (1, 15), (1, 6), (2, 20), (2, 22), (2, 21), (2, 3), (3, 22), (3, 21), (3, 4), (4, 5),
        (5, 13), (5, 9), (5, 14), (6, 7), (6, 23), (6, 24), (7, 8), (7, 23), (8, 24), (8, 18), (9, 10), (9, 11), (9, 13), (10, 24), (11, 12),
        (11, 13), (12, 13), (12, 14), (15, 19), (15, 16), (16, 17), (16, 23), (17, 18), (19, 20), (20, 21),
    ]

    /// The places that one street leads to, by place.
    static let neighbours: [[Int]] = {
        var found = [[Int]](repeating: [], count: places.count)
        for (a, b) in streets {
            found[a].append(b)
            found[b].append(a)
        }
        return found
    }()

    /// Metres between two points, on a plane: exact enough within a city.
    static func metres(_ a: (latitude: Double, longitude: Double), _ b: (latitude: Double, longitude: Double)) -> Double {
        let north = (b.latitude - a.latitude) * 111_195
        let east = (b.longitude - a.longitude) * 111_195 * cos((a.latitude + b.latitude) / 2 * .pi / 180)
        return (north * north + east * east).squareRoot()
    }

    /// Degrees clockwise from north, 0..<360.
    static func heading(_ a: (latitude: Double, longitude: Double), _ b: (latitude: Double, longitude: Double)) -> Double {
        let degrees = atan2((b.longitude - a.longitude) * cos(a.latitude * .pi / 180), b.latitude - a.latitude) * 180 / .pi
        return degrees < 0 ? degrees + 360 : degrees
    }
}
