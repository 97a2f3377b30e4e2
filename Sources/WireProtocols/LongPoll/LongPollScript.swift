import JSONTree

/// What long polling answers with: scripts that run in the iframe of the client's page, and one page (contract §1.8).
public enum LongPollScript {
    /// The media type of scripts and of the disconnect page.
    public static let scriptType = "application/javascript; charset=utf-8"
    public static let pageType = "text/html; charset=utf-8"

    /// The beginning of a session: two functions that call those of the parent window, whose names end in `callback`
    /// (digits), unless they are gone; then the key.
    public static func open(callback: String, key: LongPollKey) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw(
            """
            function pLPCommand(c,a1,a2,a3,a4){\
            var f=parent.window["pLPCommand\(callback)"];if(f)f(c,a1,a2,a3,a4);}
            function pRTLPCB(n,d){\
            var f=parent.window["pRTLPCB\(callback)"];if(f)f(n,d);}
            pLPCommand('start',
            """.utf8)
        writer.string(key.id)
        writer.raw(",")
        writer.string(key.password)
        writer.raw(");")
        return writer.bytes
    }

    /// The answer to a poll. Messages are JSON.
    public static func messages(_ messages: [[UInt8]], number: Int) -> [UInt8] {
        var bytes = Array("pRTLPCB(\(number),[".utf8)
        bytes.reserveCapacity(messages.reduce(bytes.count + 4) { $0 + $1.count + 1 })
        for (index, message) in messages.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            appendAsScript(message, to: &bytes)
        }
        bytes += Array("]);".utf8)
        return bytes
    }

    /// The client drops the connection at once.
    public static let close = Array("pLPCommand('close');".utf8)

    /// The client drops the connection when it has had the answer with this number. 0 would mean at once.
    public static func close(after number: Int) -> [UInt8] { Array("pLPCommand('close',\(number));".utf8) }

    /// A page that says goodbye when it is left. A request that outlives its page is what browsers allow there today; the
    /// older ones allow a synchronous one. The key's parts are letters and digits.
    public static func disconnectPage(key: LongPollKey) -> [UInt8] {
        let page = """
            <!DOCTYPE html><html><head><meta charset="utf-8"><title>disconnect</title></head><body><script>
            (function(){
            var u='/.lp?disconn=t&id=\(key.id)&pw=\(key.password)',done=false;
            function leave(){
            if(done)return;done=true;
            if(window.fetch&&window.Request&&'keepalive' in Request.prototype){fetch(u,{keepalive:true,cache:'no-store'});return;}
            var x=new XMLHttpRequest();x.open('GET',u,false);x.send();
            }
            addEventListener('pagehide',leave);addEventListener('unload',leave);
            })();
            </script></body></html>

            """
        return Array(page.utf8)
    }

    /// JSON as an expression of a script that means the same and cannot end the script or a line of it: `</` becomes
    /// `<\/`, U+2028 and U+2029 are escaped, and a member named `__proto__`, which would set a prototype, is computed.
    static func appendAsScript(_ json: [UInt8], to script: inout [UInt8]) {
        var clean = 0
        func replace(_ at: Int, _ count: Int, _ text: StaticString, _ script: inout [UInt8]) {
            script += json[clean..<at]
            script.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
            clean = at + count
        }
        for at in json.indices {
            switch json[at] {
            case UInt8(ascii: "<") where json[(at + 1)...].first == UInt8(ascii: "/"):
                replace(at, 2, "<\\/", &script)
            case 0xE2 where json[(at + 1)...].starts(with: [0x80, 0xA8]):
                replace(at, 3, "\\u2028", &script)
            case 0xE2 where json[(at + 1)...].starts(with: [0x80, 0xA9]):
                replace(at, 3, "\\u2029", &script)
            case UInt8(ascii: "\"") where json[at...].starts(with: prototypeName):
                // Behind a backslash the quote is part of a longer name.
                if at > 0, json[at - 1] == UInt8(ascii: "\\") { continue }
                replace(at, prototypeName.count, "[\"__proto__\"]:", &script)
            default: continue
            }
        }
        script += json[clean...]
    }

    private static let prototypeName = Array("\"__proto__\":".utf8)
}
