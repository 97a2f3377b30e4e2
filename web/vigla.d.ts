// Types of vigla.js. Names and shapes are those of docs/observe-protocol.md. A value read is `any` unless the call names its type:
// `await hub.get<Post>('/posts/p1')`.

/** The end of a range: a value of the order, or [value, key] where several children may have that value. */
export type Bound = Scalar | [Scalar, string];
export type Scalar = null | boolean | number | string;

/** Which children, in which order. */
export interface Query {
  /** A path in each child, or `$key`, `$value`, `$priority`. */
  orderBy?: string;
  startAt?: Bound;
  startAfter?: Bound;
  endAt?: Bound;
  endBefore?: Bound;
  equalTo?: Bound;
  limitToFirst?: number;
  limitToLast?: number;
  /** All of them must hold. */
  where?: Condition[];
  /** The rules of the place need a `.geoIndex`, also with `--dev`. */
  near?: Circle;
  /** Excludes `near`. The rules of the place need a `.geoIndex` here, too. */
  within?: Region;
}

export type Condition =
  | [path: string, operator: '==' | '!=' | '<' | '<=' | '>' | '>=', value: Scalar]
  | [path: string, operator: 'in', values: Scalar[]]
  | [path: string, operator: 'has' | 'prefix', text: string];

/** Degrees. */
export interface Centre { lat: number; lng: number }
/** `radius` is in metres; `limit` is how many of the nearest. One of the two is needed. */
export interface Circle extends Centre { radius?: number; limit?: number }

/** Degrees. `west` beyond `east` crosses the antimeridian. */
export interface Box { south: number; west: number; north: number; east: number }
/** A box, also as [south, west, north, east]; a polygon of at least three points, each [lat, lng]; or the place where a region is stored. */
export type Region =
  | Box
  | [south: number, west: number, north: number, east: number]
  | [lat: number, lng: number][]
  | Centre[]
  | { type: 'Polygon'; coordinates: number[][][] }
  | (Centre & { radius: number })
  | string;

export type EventName = 'value' | 'added' | 'changed' | 'removed' | 'moved' | 'count' | 'ready';

/** `seq` is the number of the commit. `prev` is the key of the child before this one, null for the first; a circle has `distance` instead. */
export type Event<T = any> =
  | { event: 'value'; seq: number; value: T; key?: undefined }
  | { event: 'added' | 'changed'; seq: number; key: string; value: T; prev?: string | null; distance?: number }
  | { event: 'removed'; seq: number; key: string; value: T; distance?: number; why?: 'deleted' | 'left' }
  | { event: 'moved'; seq: number; key: string; prev?: string | null; distance?: number; value?: undefined }
  | { event: 'count'; seq: number; count: number; key?: undefined; value?: undefined }
  | { event: 'ready'; seq: number; key?: undefined; value?: undefined }
  /** Earlier events no longer count: all data of the place follows. */
  | { event: 'reset'; seq: number; key?: undefined; value?: undefined };

/** The last event of a handler. An iteration throws the error instead. */
export interface Ended { event: 'ended'; error: ViglaError; key?: undefined; value?: undefined }

/** The options of an observer. */
export interface Wanted {
  /** Default: ['value']. */
  events?: readonly EventName[];
  query?: Query;
  /** Maximum values or counts per second, 0.001 to 1000. */
  maxHz?: number;
}

export type Token = string | null;

export interface Change {
  state: 'connecting' | 'connected' | 'waiting' | 'closed' | 'credentialRefused';
  /** With `waiting`, `credentialRefused`, and a `closed` that the program did not request. */
  error?: ViglaError;
  /** With `waiting`: the time until the next attempt. */
  retryMs?: number;
}

export interface Options {
  /** The namespace; also `?ns=NAME` of the address. */
  ns?: string;
  /** A function is called for every connection. */
  token?: Token | (() => Token | Promise<Token>);
  /** Default: errors are printed by console.warn. */
  onstate?: (change: Change) => void;
  /** The hub ended an observer that has a handler. Default: printed by console.warn. */
  onended?: (path: string, error: ViglaError) => void;
}

export class ViglaError extends Error {
  constructor(error: { code: string; message: string; member?: string; messages?: string[]; [more: string]: unknown });
  name: 'ViglaError';
  /** Of the protocol, such as permission_denied; or connection_lost, closed. */
  code: string;
  /** The hub's sentence. */
  text: string;
  /** The member of the request at fault, such as `query.near`. */
  member?: string;
  /** The rules' own messages. */
  messages: string[];
  /** With `stale`: the current value, if the hub sends it. */
  value?: any;
  /** With `too_many` and `over_budget`. */
  retryAfterMs?: number;
}

export class Observer<T = any> implements AsyncIterable<Event<T>> {
  private constructor(calls: unknown);
  /** The rules do not declare the order of the query. */
  readonly lacksIndex: boolean;
  end(): void;
  /**
   * Moves the centre of a `near`, or changes the region of a `within`. Resolves without a connection too: the next one begins there.
   * Only the hub checks the form: without a connection, the next one ends the observer if the region is invalid.
   */
  move(to: Centre | { within: Region }): Promise<void>;
  [Symbol.asyncIterator](): AsyncGenerator<Event<T>, void, undefined>;
}

/** One user of a hub. */
export class Vigla {
  /** @param address such as http://127.0.0.1:9000?ns=NAME; https, ws and wss are the same */
  constructor(address: string, options?: Options);
  readonly state: 'connecting' | 'connected' | 'waiting' | 'closed';
  /** Acts as the token's user from now on. Resolves with the uid. */
  auth(token: Options['token']): Promise<string | undefined>;
  /** First the current data, then every change. Without a handler, iterate over the observer. */
  observe<T = any>(path: string, wanted?: Wanted, handler?: (event: Event<T> | Ended) => void): Observer<T>;
  /** null for an empty place. */
  get<T = any>(path: string, query?: Query): Promise<T>;
  count(path: string, query?: Query): Promise<number>;
  /** Resolves with the number of the commit. */
  set(path: string, value: unknown): Promise<number>;
  update(path: string, value: Record<string, unknown>): Promise<number>;
  remove(path: string): Promise<number>;
  /** Resolves with the key of the new child. */
  push(path: string, value: unknown): Promise<string>;
  /** Sets a place to update(current value); retries up to 25 times in all if another writer was faster. Resolves with the value. */
  transaction<T = any, R = T>(path: string, update: (was: T | null) => R | Promise<R>): Promise<R>;
  onDisconnect(what: 'set', path: string, value: unknown): Promise<void>;
  onDisconnect(what: 'update', path: string, value: Record<string, unknown>): Promise<void>;
  onDisconnect(what: 'remove' | 'cancel', path: string): Promise<void>;
  ping(): Promise<void>;
  /** Any request of the protocol, such as { op: 'get', path }. Resolves with its `ok`. */
  ask(request: { op: string; [member: string]: unknown }): Promise<any>;
  close(): void;
}

/** Milliseconds before attempt 0, 1, … to reconnect. */
export function backoff(attempt: number, random?: () => number): number;
