import CLinux
import DispatchNet
import Glibc
import HubServer
import Scheduling
import SecurityRules

/// The certificate: its expiry, and the permissions of its key.
enum TLSCheck {
    static func findings(_ settings: ServerSettings) -> [Finding] {
        guard let identity = settings.tls?.identity else { return [] }
        var findings: [Finding] = []
        if let end = identity.certificateEnd {
            let days = (end - SystemTime.wallMs / 1000) / 86_400
            let renew = "renew it, then without a restart: kill -HUP PID (docs/tls.md)"
            if days < 0 {
                findings.append(.wrong("tls", "\(identity.certificateFile) has expired: clients refuse it", renew))
            } else if days < 14 {
                findings.append(.warning("tls", "\(identity.certificateFile) expires in \(days) \(days == 1 ? "day" : "days")", renew))
            } else {
                findings.append(.good("tls", "\(identity.certificateFile) holds for \(days) days"))
            }
        }
        var info = stat()
        if stat(identity.keyFile, &info) == 0, info.st_mode & 0o007 != 0 {
            findings.append(.wrong("tls", "every user of this machine can use \(identity.keyFile)", "chmod 600 \(identity.keyFile)"))
        }
        return findings
    }
}

/// The data folder: its permissions, free space, and the duration of a sync to its disk.
enum FolderCheck {
    static func findings(_ folder: String) -> [Finding] {
        var info = stat()
        guard stat(folder, &info) == 0 else {
            return [.good("data", "\(folder) will be made at the first start")]
        }
        var findings: [Finding] = []
        let isOthers = info.st_mode & 0o077 != 0
        if isOthers {
            findings.append(.warning("data", "other users can look into \(folder)", "chmod 700 \(folder)"))
        } else {
            findings.append(.good("data", "\(folder)\(DataFolder.holdsData(folder) ? "" : " (holds no data yet)")"))
        }
        if info.st_uid != getuid(), getuid() != 0 {
            findings.append(.warning(
                "data", "\(folder) belongs to another user than this one",
                "run the doctor as root, which checks as the hub's user: sudo vigla doctor …"))
        }
        var room = statvfs()
        if statvfs(folder, &room) == 0 {
            let free = Int(room.f_bavail) * Int(room.f_frsize)
            let text = "\(TransferSummary.megabytes(free)) MB free"
            let advice = "make room on that file system; a full one costs writes, never data (docs/operations.md)"
            if free < 100_000_000 { findings.append(.wrong("disk", text, advice)) }
            else if free < 1_000_000_000 { findings.append(.warning("disk", text, advice)) }
            else { findings.append(.good("disk", text)) }
            if room.f_flag & UInt(ST_RDONLY) != 0 { findings.append(.wrong("disk", "mounted read-only", "mount -o remount,rw …")) }
        }
        if let name = networkFileSystem(folder) {
            findings.append(.wrong("disk", "\(folder) is on \(name): its locks and flushes are not to be relied on", "use a local disk"))
        }
        if let ms = forcingMs(folder) {
            let text = "forcing a write to the disk takes \(ms / 10).\(ms % 10) ms"
            let advice = "each lone write waits as long: a disk with power-loss protection is faster"
            findings.append(ms > 200 ? .warning("disk", text, advice) : .good("disk", text))
        }
        return findings
    }

    /// NFS, SMB and the like, by the magic numbers of statfs(2).
    private static func networkFileSystem(_ folder: String) -> String? {
        [0x6969: "NFS", 0xFF53_4D42: "SMB", 0xFE53_4D42: "SMB", 0x517B: "SMB", 0x0102_1997: "9p"][vigla_file_system(folder)]
    }

    /// The median of nine syncs, in tenths of a millisecond; nil where this user may not write.
    private static func forcingMs(_ folder: String) -> Int64? {
        let path = folder + "/.doctor-\(getpid())"
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard file >= 0 else { return nil }
        defer {
            close(file)
            unlink(path)
        }
        var times: [Int64] = []
        let block = [UInt8](repeating: 7, count: 4096)
        for _ in 0..<9 {
            let began = SystemTime.steadyNs
            guard write(file, block, block.count) == block.count, fdatasync(file) == 0 else { return nil }
            times.append((SystemTime.steadyNs - began) / 100_000)
        }
        return times.sorted()[4]
    }
}
