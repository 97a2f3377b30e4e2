import ArgumentParser
import DispatchNet
import Glibc
import HubServer
import JSONTree
import Journal
import Scheduling
import SQLiteJournal
import ViglaClient

/// The source or target of a transfer.
enum TransferPlace {
    /// A place in a running hub.
    case hub(HubURL)
    /// The data folder of a hub that is not running.
    case folder(String)

    /// An argument with `://` is an address; everything else is a folder.
    init(argument: String) throws {
        self = argument.contains("://") ? .hub(try HubURL(argument: argument)) : .folder(argument)
    }
}

/// The options of both directions.
struct TransferOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "Address of a place in a running hub (http://127.0.0.1:9000/users), or the data folder of a hub that is not running. Default: "
                + "the folder of VIGLA_DATA.",
            valueName: "url|folder"))
    var first: String
    @Argument(help: ArgumentHelp("File of JSON; - for standard input or output.", valueName: "file")) var second: String?
    @Option(help: ArgumentHelp(
        "Namespace. Default: the address's ns, or the only one that the folder holds, else default.", valueName: "name"))
    var namespace: String?
    @Flag(
        help: "Of a folder: continue with the sound part when acknowledged writes cannot be read from its log; a copy of the log is kept."
    ) var acceptLoss = false
    @OptionGroup var credential: AdminCredential
    @OptionGroup var tlsOptions: TLSOptions

    /// The source or target of the tree.
    var place: TransferPlace {
        get throws { try TransferPlace(argument: second == nil ? Environment["VIGLA_DATA"] ?? "" : first) }
    }
    var file: String { second ?? first }

    func validate() throws {
        if second == nil, Environment["VIGLA_DATA"] == nil {
            throw ValidationError(
                "Two things are needed: a hub or a folder, and a file. (With one, the folder is that of VIGLA_DATA, which is not set.)")
        }
        if let second, second.contains("://") && !first.contains("://") || Checks.isFile(first) && Checks.isFolder(second) {
            throw ValidationError("The arguments are the other way round: the hub or the folder comes first, then the file.")
        }
        _ = try place
        if let namespace, !Namespace.isValid(namespace) {
            throw ValidationError("--namespace: a namespace has 1 to 64 letters, digits, - and _.")
        }
    }

    /// The hub, with the selected namespace.
    func address(_ url: HubURL) -> HubAddress {
        var address = url.address
        if let namespace { address.namespace = namespace }
        return address
    }
}

/// A data folder, locked against hubs until the program ends. Blocks.
struct DataFolder {
    let store: JournalStore
    let namespace: String
    /// The namespaces in the folder, sorted by name.
    let namespaces: [String]

    /// Ends the program when the folder cannot be used, or when it holds several namespaces and none is selected.
    /// - Parameter namespace: nil selects the only one in the folder, or `default` in an empty folder.
    init(_ folder: String, namespace: String?, acceptsLoss: Bool) {
        do throws(JournalError) {
            store = try JournalStore.open(folder: folder, settings: JournalStore.Settings(acceptsLoss: acceptsLoss), scheduler: .system())
            if let finding = store.finding { StandardStream.error.line("vigla: \(finding)") }
        } catch {
            if case .inUse = error { fail("\(error)\nOr name the running hub by its address, which is in its ready line.") }
            fail("\(error)")
        }
        namespaces = store.namespaces().sorted()
        if namespace == nil, namespaces.count > 1 {
            fail("\(folder) holds several namespaces; say which with --namespace: \(namespaces.joined(separator: ", "))")
        }
        self.namespace = namespace ?? namespaces.first ?? "default"
    }

    static func holdsData(_ folder: String) -> Bool { access(folder + "/vigla.sqlite", F_OK) == 0 }

    func recover() -> Recovered {
        do throws(JournalError) { return try store.recover(namespace) } catch { fail("\(error)") }
    }

    func close() {
        do throws(JournalError) { try store.close() } catch { fail("\(error)") }
    }
}
