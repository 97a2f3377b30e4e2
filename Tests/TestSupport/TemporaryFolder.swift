package import Foundation

/// A new folder that is removed when the value is freed.
package final class TemporaryFolder: Sendable {
    package let url: URL
    package var path: String { url.path }

    package init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("vigla-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// The path of a file in it.
    package func at(_ name: String) -> String { url.appendingPathComponent(name).path }

    package func copy(_ from: String, to: String) throws { try FileManager.default.copyItem(atPath: at(from), toPath: at(to)) }
    package func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: at(name)) }

    /// Writes a file, creating its folders.
    /// - Returns: its path.
    @discardableResult
    package func file(_ name: String, _ text: String) throws -> String {
        let file = url.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
        return file.path
    }
}
