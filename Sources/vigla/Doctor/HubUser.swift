import Glibc

/// The user that the hub runs as. Root can open every file, so a doctor run by root switches to that user to find files that the hub cannot open.
struct HubUser {
    private let id: uid_t
    private let group: gid_t
    let name: String

    /// The owner of the data folder, or of the nearest existing folder above it. Nil when this process is not root, or root owns the hub.
    /// - Parameter isService: whether the folder is that of the packaged unit. systemd assigns the folder above it to the unit's user at each
    ///   start. So a data folder that root has created there is a fault, and not the folder of a hub that runs as root.
    static func find(_ folder: String?, isService: Bool) -> HubUser? {
        guard geteuid() == 0, let folder else { return nil }
        let path = folder.hasPrefix("/") ? folder : "./" + folder
        var owner = owner(of: path)
        if owner.map({ $0.st_uid == 0 && isService }) ?? true { owner = nearestOwner(above: path) }
        guard let owner, owner.st_uid != 0 else { return nil }
        return HubUser(id: owner.st_uid, group: owner.st_gid, name: name(of: owner.st_uid))
    }

    /// Drops root for the rest of the process, which then runs as the hub's user.
    /// - Returns: nil, or the system's reason why this process stays root.
    func become() -> FileFault? {
        var groups = [group]
        let isAsInService = getpwuid(id) != nil ? initgroups(name, group) == 0 : setgroups(1, &groups) == 0
        return isAsInService && setgid(group) == 0 && setuid(id) == 0 ? nil : FileFault(errno)
    }

    /// The user's name, or the number of a user without a name.
    static func name(of id: uid_t) -> String { getpwuid(id).map { String(cString: $0.pointee.pw_name) } ?? "\(id)" }

    private static func nearestOwner(above path: String) -> stat? {
        var rest = path[...]
        while let slash = rest.lastIndex(of: "/") {
            rest = rest[..<slash]
            if let owner = owner(of: rest.isEmpty ? "/" : String(rest)) { return owner }
        }
        return nil
    }

    private static func owner(of path: String) -> stat? {
        var info = stat()
        return stat(path, &info) == 0 ? info : nil
    }
}
