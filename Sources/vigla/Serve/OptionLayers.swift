import Accounts
import Configuration
import JSONTree

/// Sources of options, strongest first: command line, environment, file.
struct OptionLayers {
    /// The text of an option and the name it was given under, for messages.
    struct Found {
        let text: String
        /// `--port`, `VIGLA_PORT`, `hub.json: "port"`.
        let source: String
        /// 0 is the command line.
        let layer: Int
    }

    private struct Layer {
        let snapshot: any ConfigSnapshot
        let key: (ServeOption) -> AbsoluteConfigKey
        let source: (ServeOption) -> String
    }

    private var layers: [Layer]
    private(set) var faults: [String] = []
    /// The options whose values cannot be parsed.
    private(set) var faulty: Swift.Set<ServeOption> = []
    /// A member of the file that has no form on the command line.
    enum Section: String, CaseIterable {
        case databases, outbound
    }

    private var sections: [Section: (value: JSONValue, source: String)] = [:]

    init(_ arguments: [ServeOption: String], environment: [String: String]) {
        var values: [AbsoluteConfigKey: ConfigValue] = [:]
        for (option, text) in arguments { values[AbsoluteConfigKey([option.rawValue])] = ConfigValue(.string(text), isSecret: false) }
        layers = [
            Layer(
                snapshot: InMemoryProvider(name: "command line", values: values).snapshot(), key: { AbsoluteConfigKey([$0.rawValue]) },
                source: \.flag),
            Layer(
                // An empty variable counts as not set, so that a compose file can pass unset variables through.
                snapshot: EnvironmentVariablesProvider(environmentVariables: environment.filter { !$0.value.isEmpty }).snapshot(),
                key: { AbsoluteConfigKey(["vigla", $0.rawValue]) }, source: \.variable),
        ]
    }

    /// Adds the file as the weakest layer; records its faults.
    mutating func addFile(_ path: String, source: String) {
        switch WholeFile.read(path) {
        case .failure(let fault): faults.append("\(source): cannot read \(path): \(fault)")
        case .success(let bytes):
            let names: [String]
            switch Self.memberNames(bytes) {
            case .success(let found): names = found
            case .failure(let fault): return faults.append("\(source): \(path):\(fault.text)")
            }
            guard let snapshot = try? JSONSnapshot(data: bytes.span.bytes, providerName: path, parsingOptions: .default) else {
                return faults.append("\(source): \(path) is not a JSON object of options")
            }
            for name in names where Section(rawValue: name) == nil {
                guard ServeOption(rawValue: name) == nil || name == ServeOption.config.rawValue else { continue }
                faults.append("\(path): there is no option \"\(name)\"")
            }
            let file = try? JSONValue(bytes)
            for section in Section.allCases {
                if let value = file?[section.rawValue] { sections[section] = (value, "\(path): \"\(section.rawValue)\"") }
            }
            layers.append(Layer(snapshot: snapshot, key: { AbsoluteConfigKey([$0.rawValue]) }, source: { "\(path): \"\($0.rawValue)\"" }))
        }
    }

    /// The fault of a file, beginning with its place: `2:6 (byte 14): …`
    private struct FileText: Error { let text: String }

    private static func memberNames(_ bytes: [UInt8]) -> Result<[String], FileText> {
        bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                var names: [String] = []
                try reader.beginObject()
                while let name = try reader.nextName() {
                    names.append(name)
                    try reader.skipValue()
                }
                try reader.expectEnd()
                return .success(names)
            } catch { return .failure(FileText(text: "\(error.place(in: buffer)): \(error) Options are one object of JSON.")) }
        }
    }

    /// A section of the file and its place, for messages; nil without one.
    func section(_ section: Section) -> (value: JSONValue, source: String)? { sections[section] }

    /// The strongest layer's value of an option.
    mutating func find(_ option: ServeOption) -> Found? {
        for (index, layer) in layers.enumerated() {
            let key = layer.key(option)
            var isReadable = false
            for type in option.kind.types {
                guard let result = try? layer.snapshot.value(forKey: key, type: type) else { continue }
                isReadable = true
                guard let text = result.value?.content.text else { continue }
                return Found(text: text, source: layer.source(option), layer: index)
            }
            if !isReadable {
                faults.append("\(layer.source(option)): expected \(option.kind.words)")
                faulty.insert(option)
            }
        }
        return nil
    }
}

extension ServeOption.Kind {
    /// The accepted types of a value. Text comes last, so that a message can quote a wrong value.
    fileprivate var types: [ConfigType] {
        switch self {
        case .text: [.string]
        case .number: [.int, .string]
        case .flag: [.bool, .string]
        }
    }

    fileprivate var words: String {
        switch self {
        case .text: "a text"
        case .number: "a number"
        case .flag: "true or false"
        }
    }
}

extension ConfigContent {
    fileprivate var text: String? {
        switch self {
        case .string(let text): text
        case .int(let number): String(number)
        case .bool(let flag): String(flag)
        default: nil
        }
    }
}
