// As much of PostgreSQL's wire protocol as the proxy needs: where a message ends, its SQL, and when an answer is whole.

const PROTOCOL_3_MAJOR = 3;
const READY_FOR_QUERY = 0x5a;
const READY_BYTES = 6;

/** Cuts a client's byte stream into whole messages; a message's first part is kept until the rest has come. */
export function messageFramer(): (chunk: Buffer) => Buffer[] {
  let chunks: Buffer[] = [];
  let buffered = 0;
  let wanted = 0;
  // Before the start-up message (also in a request for TLS or a cancellation) messages have no type byte.
  let started = false;
  return (chunk) => {
    chunks.push(chunk);
    buffered += chunk.length;
    // Joined only when a message is whole: joining at every chunk took seconds for a message of megabytes.
    if (buffered < wanted) return [];
    let rest = Buffer.concat(chunks);
    const messages: Buffer[] = [];
    for (wanted = messageBytes(rest, started); rest.length >= wanted; wanted = messageBytes(rest, started)) {
      messages.push(rest.subarray(0, wanted));
      started ||= wanted >= 8 && rest.readUInt16BE(4) === PROTOCOL_3_MAJOR;
      rest = rest.subarray(wanted);
    }
    chunks = [rest];
    buffered = rest.length;
    return messages;
  };
}

/** Length of the message that the bytes begin with, or of the header that would tell it. */
function messageBytes(bytes: Buffer, started: boolean): number {
  const header = started ? 5 : 4;
  return bytes.length < header ? header : bytes.readUInt32BE(header - 4) + header - 4;
}

/** The statement of a Query or Parse message; undefined for others. */
export function sqlOf(message: Buffer): string | undefined {
  const type = String.fromCharCode(message[0] ?? 0);
  if (type !== 'Q' && type !== 'P') return undefined;
  // Parse begins with the prepared statement's name.
  const start = type === 'P' ? message.indexOf(0, 5) + 1 : 5;
  return message.toString('utf8', start, message.indexOf(0, start));
}

/**
 * Follows a server's byte stream: after each chunk the transaction state of ReadyForQuery (I idle, T in a
 * transaction, E in a failed one) when the stream ends in one just then, else undefined.
 */
export function readyState(): (chunk: Buffer) => string | undefined {
  let tail = Buffer.alloc(0);
  return (chunk) => {
    tail = Buffer.concat([tail, chunk.subarray(-READY_BYTES)]).subarray(-READY_BYTES);
    const isReady = tail[0] === READY_FOR_QUERY && tail.length === READY_BYTES && tail.readUInt32BE(1) === 5;
    return isReady ? String.fromCharCode(tail[5] ?? 0) : undefined;
  };
}
