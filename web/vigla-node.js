// A WebSocket (RFC 6455) for Node before 22, which has none: the part of the browsers' API that vigla.js uses.

import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { request as secureRequest } from 'node:https';

const mostBytes = 256 << 20; // of a message

export class NodeSocket {
  /** 0 connecting, 1 open, 2 closing, 3 closed */
  readyState = 0;
  onopen = null;
  onmessage = null;
  onclose = null;
  #connection = null;
  #request;
  #chunks = [];
  #have = 0;     // bytes in them
  #need = 2;     // bytes needed before more can be read
  #parts = [];   // of a fragmented message
  #ending = null; // { code, reason } of a close frame

  constructor(address) {
    const url = new URL(address), key = randomBytes(16).toString('base64');
    const isSecure = url.protocol === 'wss:';
    url.protocol = isSecure ? 'https:' : 'http:';
    this.#request = (isSecure ? secureRequest : request)(url, {
      headers: { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key },
    });
    this.#request.on('upgrade', (answer, connection, head) => {
      const proof = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      if (answer.headers['sec-websocket-accept'] !== proof) { connection.destroy(); return this.#ended(1002, 'no WebSocket server'); }
      this.#connection = connection;
      this.readyState = 1;
      connection.setNoDelay(true);
      connection.on('data', (bytes) => this.#received(bytes));
      connection.on('error', () => {});
      connection.on('close', () => this.#ended(this.#ending?.code ?? 1006, this.#ending?.reason ?? ''));
      this.onopen?.({});
      if (head.length) this.#received(head);
    });
    this.#request.on('response', (answer) => {
      answer.resume();
      this.#ended(1006, `the server answered with HTTP ${answer.statusCode}`);
    });
    this.#request.on('error', (error) => this.#ended(1006, error.message));
    this.#request.end();
  }

  send(text) { this.#frame(1, Buffer.from(text)); }

  close() {
    if (this.readyState > 1) return;
    const wasOpen = this.readyState === 1;
    this.readyState = 2;
    if (!wasOpen) { this.#request.destroy(); return; }
    this.#frame(8, Buffer.from([0x03, 0xe8]), true);
    this.#connection.end();
  }

  #frame(kind, body, isLast = false) {
    if (this.readyState !== 1 && !isLast) return;
    const mask = randomBytes(4);
    const length = body.length < 126 ? [body.length] : body.length < 65536 ? [126, body.length >> 8, body.length & 255] : [127];
    const head = Buffer.from([0x80 | kind, 0x80 | length[0], ...length.slice(1)]);
    const long = Buffer.alloc(length[0] === 127 ? 8 : 0);
    if (long.length) long.writeBigUInt64BE(BigInt(body.length));
    const masked = Buffer.allocUnsafe(body.length);
    for (let i = 0; i < body.length; i++) masked[i] = body[i] ^ mask[i & 3];
    this.#connection.write(Buffer.concat([head, long, mask, masked]));
  }

  #received(bytes) {
    this.#chunks.push(bytes);
    this.#have += bytes.length;
    if (this.#have < this.#need) return;
    let all = this.#chunks.length > 1 ? Buffer.concat(this.#chunks) : bytes;
    while (this.readyState !== 3) {
      const frame = read(all);
      if (frame.length > mostBytes || frame.isBroken) return this.#connection.destroy();
      this.#need = frame.end;
      if (all.length < frame.end) break;
      this.#take(all[0] & 15, (all[0] & 128) !== 0, all.subarray(frame.start, frame.end));
      all = all.subarray(frame.end);
    }
    this.#chunks = [all];
    this.#have = all.length;
  }

  #take(kind, isWhole, body) {
    if (kind === 9) this.#frame(10, body);
    else if (kind === 8) {
      this.#ending = { code: body.length > 1 ? body.readUInt16BE(0) : 1005, reason: body.subarray(2).toString() };
      if (this.readyState === 1) this.#frame(8, body.subarray(0, 2));
      this.readyState = 2;
      this.#connection.end();
    } else if (kind < 3) {
      this.#parts.push(body);
      if (!isWhole) return;
      const data = Buffer.concat(this.#parts.splice(0)).toString();
      if (this.readyState === 1) this.onmessage?.({ data });
    }
  }

  #ended(code, reason) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
}

/** The position of the first frame's content; `end` is the number of bytes needed to continue. Servers do not mask, and nothing is compressed. */
function read(all) {
  if (all.length < 2) return { end: 2 };
  const short = all[1] & 127, start = short === 127 ? 10 : short === 126 ? 4 : 2;
  if (all.length < start) return { end: start };
  const length = short === 127 ? Number(all.readBigUInt64BE(2)) : short === 126 ? all.readUInt16BE(2) : short;
  return { start, end: start + length, length, isBroken: (all[1] & 128) !== 0 || (all[0] & 0x70) !== 0 };
}
