import Cryptography
import Foundation
import GRDB
import Tokens

extension AccountTransaction {
    /// All keys of ID tokens. Rows of an algorithm that is not known any more are left out.
    func signingKeys() throws -> [StoredSigningKey] {
        let keys = "SELECT algorithm, private_key, created_at, retired_at FROM signing_key ORDER BY created_at, kid"
        return try Row.fetchAll(db, cached: keys, []).compactMap { row in
            let bytes: Data = row[1]
            return SignatureAlgorithm(rawValue: row[0]).map {
                StoredSigningKey(algorithm: $0, privateKey: SecretBytes([UInt8](bytes)), createdAt: row[2], retiredAt: row[3])
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
            [id, key.algorithm.rawValue, Database.blob(key.privateKey.copy), key.createdAt])
    }

    /// What stands behind a token. Its session must live, and one of the two be no older than the account's tokens may be: a token
    /// of a session that is new enough is good although a clock that was behind wrote its time.
    /// - Returns: nil when account and session are as good as the token says.
    func fault(of token: VerifiedToken) throws -> TokenFault? {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT disabled, EXISTS (
                    SELECT 1 FROM session
                    WHERE session.id = ?1 AND session.uid = account.id AND ended = 0
                        AND max(session.created_at / 1000, ?2) >= account.valid_since_s)
                FROM account WHERE id = ?3
                """, [token.sessionID, token.issuedAt, token.uid])
        guard let row else { return .noAccount }
        let (isDisabled, isSignedIn): (Bool, Bool) = (row[0], row[1])
        if isDisabled { return .disabled }
        return isSignedIn ? nil : .revoked
    }
}
