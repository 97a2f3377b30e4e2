import Foundation
import GRDB

extension AccountTransaction {
    func throttleRows() throws -> [Throttle.Row] {
        try Row.fetchAll(db, cached: "SELECT subject, state, updated_at FROM throttle", []).map { row in
            let state: Data = row[1]
            return Throttle.Row(subject: row[0], state: Array(state), writtenAt: row[2])
        }
    }

    func save(_ rows: [Throttle.Row]) throws {
        for row in rows {
            if let state = row.state {
                try db.execute(
                    cached: "INSERT OR REPLACE INTO throttle (subject, state, updated_at) VALUES (?, ?, ?)",
                    [row.subject, Database.blob(state), row.writtenAt])
            } else {
                try db.execute(cached: "DELETE FROM throttle WHERE subject = ?", [row.subject])
            }
        }
    }
}
