import ArgumentParser
import Glibc
import JSONTree
import Journal
import SQLiteJournal
import ViglaClient

/// `vigla export URL|FOLDER FILE`
struct Export: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Write the content of a hub, or of a place in it, to a JSON file.",
        discussion: """
            The JSON is that of Firebase's own export, with priorities, so that each can read the other's file. \
            The file appears when it is complete. A hub asks for an administrator (--auth and others, see 'vigla rules deploy --help').

              vigla export ./data backup.json
              vigla export http://127.0.0.1:9000/users users.json
            """)

    @OptionGroup var options: TransferOptions

    func run() throws {
        let summary = TransferSummary()
        switch try options.place {
        case .folder(let folder):
            guard DataFolder.holdsData(folder) else {
                fail("\(folder) holds no data: there is no \(folder)/vigla.sqlite. A hub's folder is what its --data, or VIGLA_DATA, names.")
            }
            let data = DataFolder(folder, namespace: options.namespace, acceptsLoss: options.acceptLoss)
            if data.namespaces.isEmpty { nothing(in: folder) }
            guard data.namespaces.contains(data.namespace) else {
                fail("\(folder) holds no namespace \(data.namespace); it has: \(data.namespaces.joined(separator: ", "))")
            }
            let root = data.recover().root
            let file = ExportFile(options.file)
            var writer = TreeWriter(to: file)
            writer.write(root)
            file.finish()
            data.close()
            summary.report("exported", places: writer.nodes, bytes: file.writtenBytes, "to \(options.file)")
        case .hub(let url):
            let address = options.address(url)
            let (status, body) = HubRequest.send(
                "GET", "\(url.resource)?format=export\(address.namespaceItem)", to: address, tls: options.tlsOptions,
                credential: options.credential.read())
            guard status == 200 else {
                HubRequest.refused(
                    status, body, by: address, options.credential, advice: "Too large for one answer: stop the hub and export its data folder.")
            }
            let file = ExportFile(options.file)
            file.write(body.last == 0x0A ? body : body + [0x0A])
            file.finish()
            summary.report("exported", places: nil, bytes: file.writtenBytes, "to \(options.file)")
        }
    }

    /// Ends the program for a hub's folder without any data yet.
    private func nothing(in folder: String) -> Never {
        let files = ["vigla.sqlite", "accounts.sqlite", "admin-secret.txt"].filter { Checks.isFile("\(folder)/\($0)") }
        fail("\(folder) holds no data yet: it is a hub's folder (\(files.joined(separator: ", "))), and nothing was ever written into it. If "
            + "another was meant, name that one (--data of 'vigla serve'). To fill this one: vigla import \(folder) FILE, or vigla serve "
            + "--data \(folder) and 'vigla set'.")
    }
}

/// A file that appears under its name when it is complete, or standard output.
final class ExportFile {
    private let name: String
    private let descriptor: Int32
    private(set) var writtenBytes = 0
    private var isStandard: Bool { name == "-" }
    private var partial: String { name + ".part" }

    /// Ends the program when it cannot be created.
    init(_ name: String) {
        self.name = name
        if name != "-" { unlink(name + ".part") }
        descriptor = name == "-" ? 1 : PrivateFile.open(name + ".part", O_WRONLY | O_EXCL)
        if descriptor < 0 { fail("\(partial): \(FileFault(errno))") }
    }

    func write(_ bytes: [UInt8]) {
        writtenBytes += bytes.count
        if isStandard { return StandardStream.output.write(bytes) }
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent) }
            if count > 0 { sent += count } else if errno != EINTR { giveUp() }
        }
    }

    func finish() {
        if isStandard { return }
        guard fsync(descriptor) == 0, Glibc.close(descriptor) == 0, rename(partial, name) == 0 else { giveUp() }
    }

    private func giveUp() -> Never {
        let fault = FileFault(errno)
        unlink(partial)
        fail("\(name): \(fault). The export is not complete, and there is no file of it.")
    }
}

/// Writes a tree in export form, piece by piece.
struct TreeWriter {
    private static let pieceBytes = 1 << 20

    private let file: ExportFile
    private var writer = JSONWriter(reservingCapacity: pieceBytes + 64 << 10)
    private(set) var nodes = 0
    private var progress = ProgressLine("export")

    init(to file: ExportFile) { self.file = file }

    /// The tree and a line end.
    mutating func write(_ root: Node) {
        node(root)
        writer.raw("\n")
        file.write(writer.bytes)
        progress.end()
    }

    private mutating func node(_ node: Node) {
        nodes += 1
        guard node.hasChildren else { return writer.node(node) }
        writer.raw("{")
        var isFirst = true
        for (key, child) in node.children {
            if !isFirst { writer.raw(",") }
            isFirst = false
            writer.string(key.text)
            writer.raw(":")
            self.node(child)
            if writer.bytes.count >= Self.pieceBytes {
                file.write(writer.bytes)
                writer.bytes.removeAll(keepingCapacity: true)
                progress.show(nodes, unit: "nodes")
            }
        }
        let priority = node.priority
        if priority.exists {
            writer.raw(",\".priority\":")
            writer.node(priority)
        }
        writer.raw("}")
    }
}
