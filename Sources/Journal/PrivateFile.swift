import Glibc

/// Creates files and folders that only their owner may use.
///
/// What root creates belongs to the owner of the folder it is created in. The hub runs as that owner, so a command typed with sudo leaves
/// nothing that the hub cannot open. SQLite does the same for the files that it creates beside a database.
package enum PrivateFile {
    /// Opens a file, and creates it where it is missing. An existing file keeps its owner and mode.
    /// - Parameter flags: of open(2), without `O_CREAT`. With `O_EXCL` an existing file is an error.
    /// - Returns: a descriptor, or -1 with `errno`.
    package static func open(_ path: String, _ flags: Int32) -> Int32 {
        // Links are not followed, and only a file certainly created here changes its owner. So a link planted in the folder can neither
        // give away another file nor make root write to it.
        let descriptor = Glibc.open(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        if descriptor < 0 { return errno == EEXIST && flags & O_EXCL == 0 ? Glibc.open(path, flags | O_NOFOLLOW | O_CLOEXEC) : -1 }
        if handOver(descriptor, in: parent(of: path)) { return descriptor }
        let code = errno
        close(descriptor)
        unlink(path)
        errno = code
        return -1
    }

    /// Creates a database file, or restricts the mode of an existing one and its log. SQLite gives the files that it creates beside it the
    /// same owner and mode. Errors surface when SQLite opens the file.
    package static func restrictDatabase(_ path: String) {
        let descriptor = open(path, O_RDWR)
        guard descriptor >= 0 else { return }
        fchmod(descriptor, 0o600)
        close(descriptor)
        for suffix in ["-wal", "-shm"] {
            let file = Glibc.open(path + suffix, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
            if file >= 0 {
                fchmod(file, 0o600)
                close(file)
            }
        }
    }

    /// Creates a folder, mode 0700.
    /// - Returns: false with `errno`; `EEXIST` if the name is taken.
    package static func makeFolder(_ path: String) -> Bool {
        guard mkdir(path, 0o700) == 0 else { return false }
        guard geteuid() == 0 else { return true }
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return handOver(descriptor, in: parent(of: path))
    }

    /// Gives a new file of root to the owner of its folder.
    private static func handOver(_ descriptor: Int32, in folder: String) -> Bool {
        guard geteuid() == 0 else { return true }
        var (own, parent) = (stat(), stat())
        guard fstat(descriptor, &own) == 0, stat(folder, &parent) == 0 else { return false }
        // The file system may not support owners (EINVAL), or not allow this root to set them (EPERM): the file then stays root's.
        return own.st_uid == parent.st_uid || fchown(descriptor, parent.st_uid, parent.st_gid) == 0 || [EINVAL, EPERM].contains(errno)
    }

    private static func parent(of path: String) -> String {
        let name = path.lastIndex { $0 != "/" }.map { path[...$0] } ?? path[...]
        guard let slash = name.lastIndex(of: "/") else { return "." }
        return slash == name.startIndex ? "/" : String(name[..<slash])
    }
}
