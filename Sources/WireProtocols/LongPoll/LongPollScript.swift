import JSONTree

/// The response bodies of long polling: scripts that run in the iframe of the client's page, and one page (contract §1.8).
public enum LongPollScript {
    /// The media type of scripts and of the disconnect page.
    public static let scriptType = "application/javascript; charset=utf-8"
    public static let pageType = "text/html; charset=utf-8"

    /// Begins a session: defines two functions that call those of the parent window, if these still exist, then passes the key. The names of the
    /// parent's functions end in `callback` (digits).
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

    /// The response to a poll. Messages are JSON.
    public static func messages(_ messages: [[UInt8]], number: Int) -> [UInt8] {
        LongPollDownstream.Answer(ticket: 0, messages: messages.map { .text($0) }, number: number).script
    }

    /// The client drops the connection immediately.
    public static let close = Array("pLPCommand('close');".utf8)

    /// The client drops the connection after receiving the response with this number. 0 would mean immediately.
    public static func close(after number: Int) -> [UInt8] { Array("pLPCommand('close',\(number));".utf8) }

    /// A page that sends the disconnect request when unloaded: with a keep-alive request in current browsers, with a synchronous one in older
    /// ones. The parts of the key are letters and digits.
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
}
