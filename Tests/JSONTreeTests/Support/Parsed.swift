import JSONTree

/// Functions that read whole texts.
enum Parsed {
    static func write(_ json: String, depth: Int = 0, maxStringBytes: Int = 10_485_760) throws(JSONError) -> WriteValue {
        try write(Array(json.utf8), depth: depth, maxStringBytes: maxStringBytes)
    }

    static func write(_ json: [UInt8], depth: Int = 0, maxStringBytes: Int = 10_485_760) throws(JSONError) -> WriteValue {
        try reading(json) { reader throws(JSONError) in
            let value = try reader.writeValue(depth: depth, maxStringBytes: maxStringBytes)
            try reader.expectEnd()
            return value
        }
    }

    static func number(_ json: String) throws(JSONError) -> Node {
        try reading(Array(json.utf8)) { reader throws(JSONError) in
            let value = try reader.number()
            try reader.expectEnd()
            return value
        }
    }

    static func string(_ json: [UInt8]) throws(JSONError) -> String {
        try reading(json) { reader throws(JSONError) in
            let value = try reader.string()
            try reader.expectEnd()
            return value
        }
    }

    /// The range of the first value, if the text holds nothing else.
    static func skip(_ json: [UInt8]) throws(JSONError) -> Range<Int> {
        try reading(json) { reader throws(JSONError) in
            let range = try reader.skipValue()
            try reader.expectEnd()
            return range
        }
    }

    static func reading<R>(_ json: [UInt8], _ body: (inout JSONReader) throws(JSONError) -> R) throws(JSONError) -> R {
        let result: Result<R, JSONError> = json.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            do throws(JSONError) { return .success(try body(&reader)) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
