import Foundation
import GRDB

extension AccountTransaction {
    func throttleRows() throws -> [Throttle.Row] {
        try Row.fetchAll(db, cached: "SELECT subject, state FROM throttle", []).map { row in
            let state: Data = row[1]
            return Throttle.Row(subject: row[0], state: Array(state))
        }
    }

    func save(_ rows: [Throttle.Row], now: Int64) throws {
        for row in rows {
            if let state = row.state {
                try db.execute(cached: "INSERT OR REPLACE INTO throttle (subject, state, updated_at) VALUES (?, ?, ?)", [row.subject, Database.blob(state), now])
            } else {
                try db.execute(cached: "DELETE FROM throttle WHERE subject = ?", [row.subject])
            }
        }
    }
}
