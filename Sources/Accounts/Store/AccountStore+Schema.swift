import GRDB

extension AccountStore {
    /// Times are integers: ms since the epoch, `_s` seconds.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(sql: """
                CREATE TABLE account (
                    id TEXT PRIMARY KEY, email TEXT UNIQUE, email_verified INTEGER NOT NULL DEFAULT 0, display_name TEXT, photo_url TEXT,
                    phone_number TEXT UNIQUE, alias TEXT UNIQUE, password_hash TEXT, password_updated_at INTEGER,
                    created_at INTEGER NOT NULL,
                    last_login_at INTEGER, last_refresh_at INTEGER, valid_since_s INTEGER NOT NULL, disabled INTEGER NOT NULL DEFAULT 0,
                    custom_claims TEXT, custom_auth INTEGER NOT NULL DEFAULT 0, email_link INTEGER NOT NULL DEFAULT 0, initial_email TEXT
                ) WITHOUT ROWID;
                CREATE TABLE provider (
                    provider TEXT NOT NULL, raw_id TEXT NOT NULL, uid TEXT NOT NULL REFERENCES account(id) ON DELETE CASCADE,
                    position INTEGER NOT NULL, email TEXT, display_name TEXT, photo_url TEXT, screen_name TEXT,
                    PRIMARY KEY (provider, raw_id), UNIQUE (uid, provider)
                ) WITHOUT ROWID;
                CREATE INDEX provider_email ON provider(email);
                CREATE TABLE session (
                    id TEXT PRIMARY KEY, uid TEXT NOT NULL REFERENCES account(id) ON DELETE CASCADE, token_hash BLOB NOT NULL UNIQUE,
                    provider TEXT NOT NULL, claims TEXT, auth_time_s INTEGER NOT NULL, created_at INTEGER NOT NULL,
                    last_used_at INTEGER NOT NULL, user_agent TEXT, peer TEXT, ended INTEGER NOT NULL DEFAULT 0
                ) WITHOUT ROWID;
                CREATE INDEX session_uid ON session(uid);
                CREATE TABLE departed (token_hash BLOB PRIMARY KEY, deleted_at INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE code (
                    hash BLOB PRIMARY KEY, type TEXT NOT NULL, uid TEXT REFERENCES account(id) ON DELETE CASCADE, email TEXT NOT NULL,
                    new_email TEXT, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, detail TEXT
                ) WITHOUT ROWID;
                CREATE INDEX code_email ON code(email, type);
                CREATE INDEX code_uid ON code(uid);
                CREATE TABLE signing_key (
                    kid TEXT PRIMARY KEY, algorithm TEXT NOT NULL, private_key BLOB NOT NULL, created_at INTEGER NOT NULL,
                    retired_at INTEGER
                ) WITHOUT ROWID;
                CREATE TABLE throttle (subject TEXT PRIMARY KEY, state BLOB NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE removal (uid TEXT PRIMARY KEY, created_at INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TRIGGER account_removal AFTER DELETE ON account BEGIN
                    INSERT OR REPLACE INTO removal (uid, created_at) VALUES (old.id, unixepoch() * 1000);
                END;
                CREATE TABLE audit (id INTEGER PRIMARY KEY, uid TEXT, time INTEGER NOT NULL, event TEXT NOT NULL, peer TEXT, detail TEXT);
                CREATE INDEX audit_uid ON audit(uid, id);
                """)
        }
        return migrator
    }
}
