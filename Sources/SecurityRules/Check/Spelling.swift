/// Suggests known names for unknown ones.
enum Spelling {
    /// The known name that differs by at most two letters (one for short names), or only by case.
    static func nearest(_ name: String, in known: [String]) -> String? {
        let best = known.map { ($0, distance(Array(name.lowercased().utf8.prefix(64)), Array($0.lowercased().utf8))) }.min { $0.1 < $1.1 }
        guard let (word, distance) = best, distance <= (name.utf8.count < 5 ? 1 : 2), word != name else { return nil }
        return word
    }

    /// The edit distance: letters to change, insert, delete or swap with a neighbour (optimal string alignment).
    private static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        if a.isEmpty || b.isEmpty { return max(a.count, b.count) }
        var rows = [[Int]](repeating: [Int](repeating: 0, count: b.count + 1), count: a.count + 1)
        for i in 0...a.count { rows[i][0] = i }
        for j in 0...b.count { rows[0][j] = j }
        for i in 1...a.count {
            for j in 1...b.count {
                rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1) }
            }
        }
        return rows[a.count][b.count]
    }
}
