import Foundation
import GRDB

extension AccountTransaction {
    /// All keys of ID tokens. Rows of an algorithm that is not known any more are left out.
    func signingKeys() throws -> [StoredSigningKey] {
        try Row.fetchAll(db, cached: "SELECT algorithm, private_key, created_at, retired_at FROM signing_key ORDER BY created_at, kid", []).compactMap { row in
            let bytes: Data = row[1]
            return SignatureAlgorithm(rawValue: row[0]).map {
                StoredSigningKey(algorithm: $0, privateKey: [UInt8](bytes), createdAt: row[2], retiredAt: row[3])
            }
        }
    }

    /// Makes a key the one that signs.
    /// - Parameters:
    ///   - now: ms since the epoch.
    ///   - ended: keys that were retired before are removed.
    func setSigningKey(_ key: StoredSigningKey, id: String, now: Int64, ended: Int64) throws {
        try db.execute(cached: "UPDATE signing_key SET retired_at = ? WHERE retired_at IS NULL", [now])
        try db.execute(cached: "DELETE FROM signing_key WHERE retired_at < ?", [ended])
        try db.execute(
            cached: "INSERT INTO signing_key (kid, algorithm, private_key, created_at) VALUES (?, ?, ?, ?)",
            [id, key.algorithm.rawValue, Database.blob(key.privateKey), key.createdAt])
    }

    /// What stands behind a token.
    /// - Returns: nil when account and session are as good as the token says.
    func fault(of token: VerifiedToken) throws -> TokenFault? {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT disabled, valid_since_s, EXISTS (SELECT 1 FROM session WHERE session.id = ? AND session.uid = account.id AND ended = 0)
                FROM account WHERE id = ?
                """, [token.sessionID, token.uid])
        guard let row else { return .noAccount }
        let (isDisabled, validSince, isSignedIn): (Bool, Int64, Bool) = (row[0], row[1], row[2])
        if isDisabled { return .disabled }
        return token.issuedAt >= validSince && isSignedIn ? nil : .revoked
    }
}
