/// Bytes of consequences that are not durable yet, by the author of the writes. An author with too many of them waits before its next write
/// until some are durable. So the journal holds only a small part of one author's consequences at a time, with other authors' commits in
/// between.
///
/// Confined to the database queue; O(1) per author.
struct DerivedBytes {
    private var authors: [Owner: Int] = [:]
    private(set) var all = 0

    var isEmpty: Bool { authors.isEmpty }

    mutating func add(_ bytes: Int, of author: Owner) {
        authors[author, default: 0] += bytes
        all += bytes
    }

    mutating func add(_ other: DerivedBytes) {
        for (author, bytes) in other.authors { add(bytes, of: author) }
    }

    mutating func remove(_ other: DerivedBytes) {
        for (author, bytes) in other.authors {
            let left = (authors[author] ?? 0) - bytes
            authors[author] = left > 0 ? left : nil
            all -= bytes
        }
    }

    subscript(author: Owner) -> Int { authors[author] ?? 0 }
}
