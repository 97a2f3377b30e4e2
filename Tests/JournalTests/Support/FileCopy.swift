import Foundation

enum FileCopy {
    static func copy(_ from: String, _ to: String) throws {
        try Data(contentsOf: URL(fileURLWithPath: from)).write(to: URL(fileURLWithPath: to))
    }
    static func change(_ path: String, _ body: (inout [UInt8]) -> Void) throws {
        var bytes = try Array(Data(contentsOf: URL(fileURLWithPath: path)))
        body(&bytes)
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }
    static func write(_ text: String, _ to: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: to)) }
    static func makeReadOnly(_ folder: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o500], ofItemAtPath: folder)
    }
    static func makeFolder(_ path: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }
}
