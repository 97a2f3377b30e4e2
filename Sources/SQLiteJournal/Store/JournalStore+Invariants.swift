#if DEBUG
    import GRDB
    import Journal

    extension JournalStore {
        /// What the store knows that differs from what it has stored. Between commits; blocks. O(namespaces + stored rows)
        package func brokenInvariants() throws -> [String] {
            if journalQueue.isClosed { return [] }
            // The connection's queue targets the journal queue.
            return try connections.database.writeWithoutTransaction { db in
                var broken: [String] = []
                let stored = try Row.fetchAll(
                    db,
                    sql: """
                        SELECT n.name, n.id, n.epoch, coalesce(s.sequence, 0),
                            max(coalesce(s.sequence, 0), coalesce((SELECT max(sequence) FROM batch WHERE namespace = n.id), 0))
                        FROM namespace n LEFT JOIN snapshot s ON s.namespace = n.id
                        """)
                for row in stored {
                    let name: String = row[0]
                    guard let known = registry[name] ?? registry.removed[name] else {
                        broken.append("\(name) is stored and not known")
                        continue
                    }
                    let (id, epoch, snapshot, last): (Int64, Int64, Int64, Int64) = (row[1], row[2], row[3], row[4])
                    if known.id != id { broken.append("\(name) has the id \(id), not \(known.id)") }
                    if known.epoch != UInt64(epoch) { broken.append("\(name) has the epoch \(epoch), not \(known.epoch)") }
                    if Schema.isRemoved(name) { continue }
                    if known.snapshotSequence != UInt64(snapshot) {
                        broken.append("\(name) has a snapshot of \(snapshot), not \(known.snapshotSequence)")
                    }
                    if known.last != UInt64(last) { broken.append("\(name) ends with \(last), not \(known.last)") }
                }
                if stored.count != registry.rows.count + registry.removed.count {
                    broken.append("\(registry.rows.count + registry.removed.count) namespaces are known, \(stored.count) stored")
                }
                let lost = try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM batch b WHERE stage > 0
                            AND (SELECT count(*) FROM part p WHERE p.stage = b.stage) < CASE parts WHEN 0 THEN part ELSE parts END
                        """)
                if lost ?? 0 > 0 { broken.append("\(lost ?? 0) batches refer to parts that are not stored") }
                return broken + tails.behind.map { "a follower of \($0) is behind its journal" }
            }
        }
    }

    extension Tails {
        /// The namespaces with a live follower that has not received the last commit.
        fileprivate var behind: [String] {
            live.filter { name, followers in followers.contains { !$0.handle.isCancelled && $0.position != registry.last(of: name) } }.map(\.key)
        }
    }
#endif
