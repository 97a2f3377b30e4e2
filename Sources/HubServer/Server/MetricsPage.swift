import HubEngine

/// A page in Prometheus' text format (exposition format 0.0.4).
struct MetricsPage {
    private(set) var text = ""

    mutating func gauge(_ name: String, _ help: String, _ value: Int) { add(name, help, "gauge", nil, [("", value)]) }
    mutating func gauge(_ name: String, _ help: String, label: String, _ values: [(String, Int)]) {
        add(name, help, "gauge", label, values)
    }
    mutating func gauge(_ name: String, _ help: String, labels: (String, String), _ values: [(String, String, Int)]) {
        add(name, help, "gauge", labels, values)
    }
    mutating func counter(_ name: String, _ help: String, _ value: Int) { add(name, help, "counter", nil, [("", value)]) }
    mutating func counter(_ name: String, _ help: String, label: String, _ values: [(String, Int)]) {
        add(name, help, "counter", label, values)
    }

    /// A counter with two labels.
    mutating func counter(_ name: String, _ help: String, labels one: String, _ other: String, _ values: [(String, String, Int)]) {
        add(name, help, "counter", (one, other), values)
    }

    /// A counter with three labels.
    mutating func counter(
        _ name: String, _ help: String, labels: (String, String, String), _ values: [(String, String, String, Int)]
    ) {
        head(name, help, "counter")
        for value in values {
            text += "\(name){\(labels.0)=\"\(Self.escaped(value.0))\",\(labels.1)=\"\(Self.escaped(value.1))\","
                + "\(labels.2)=\"\(Self.escaped(value.2))\"} \(value.3)\n"
        }
    }

    /// A gauge of value 1 whose labels carry the information.
    mutating func info(_ name: String, _ help: String, _ labels: [(String, String)]) {
        head(name, help, "gauge")
        text += "\(name){\(labels.map { "\($0.0)=\"\(Self.escaped($0.1))\"" }.joined(separator: ","))} 1\n"
    }

    /// A value in thousandths, such as seconds from milliseconds.
    mutating func thousandths(_ name: String, _ help: String, _ type: String, _ value: Int) {
        head(name, help, type)
        text += "\(name) \(Self.decimal(Int64(value), digits: 3))\n"
    }

    /// The same with one label.
    mutating func thousandths(_ name: String, _ help: String, _ type: String, label: String, _ values: [(String, Int)]) {
        head(name, help, type)
        for (value, number) in values {
            text += "\(name){\(label)=\"\(Self.escaped(value))\"} \(Self.decimal(Int64(number), digits: 3))\n"
        }
    }

    /// A histogram of seconds for each set of labels.
    mutating func histogram(_ name: String, _ help: String, _ values: [(labels: String, Latencies.Reading)]) {
        head(name, help, "histogram")
        for (labels, reading) in values {
            var count = 0
            for (bound, more) in zip(Latencies.bounds, reading.counts) {
                count += more
                text += "\(name)_bucket{\(labels),le=\"\(Self.decimal(bound / 1000, digits: 6))\"} \(count)\n"
            }
            count += reading.counts.last ?? 0
            text += "\(name)_bucket{\(labels),le=\"+Inf\"} \(count)\n"
            text += "\(name)_sum{\(labels)} \(Self.decimal(reading.totalNs / 1000, digits: 6))\n\(name)_count{\(labels)} \(count)\n"
        }
    }

    private mutating func add(_ name: String, _ help: String, _ type: String, _ label: String?, _ values: [(String, Int)]) {
        head(name, help, type)
        for (value, number) in values {
            text += label.map { "\(name){\($0)=\"\(Self.escaped(value))\"} \(number)\n" } ?? "\(name) \(number)\n"
        }
    }

    private mutating func add(
        _ name: String, _ help: String, _ type: String, _ labels: (String, String), _ values: [(String, String, Int)]
    ) {
        head(name, help, type)
        for value in values {
            text += "\(name){\(labels.0)=\"\(Self.escaped(value.0))\",\(labels.1)=\"\(Self.escaped(value.1))\"} \(value.2)\n"
        }
    }

    private mutating func head(_ name: String, _ help: String, _ type: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    /// Escapes a label's value, as keys of the data may contain quotes. It works on Unicode scalars: a quote followed by a combining accent
    /// is one `Character`.
    static func escaped(_ text: String) -> String {
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": escaped += "\\\""
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// `1500` with 3 digits is `1.5`.
    private static func decimal(_ value: Int64, digits: Int) -> String {
        let text = String(repeating: "0", count: max(0, digits + 1 - "\(value)".count)) + "\(value)"
        var rest = text.suffix(digits)
        while rest.last == "0" { rest.removeLast() }
        return rest.isEmpty ? String(text.dropLast(digits)) : "\(text.dropLast(digits)).\(rest)"
    }
}
