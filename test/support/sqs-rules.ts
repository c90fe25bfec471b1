// What SQS accepts, as its API reference and developer guide say; the emulator of the local stack is laxer.

import { createHash } from 'node:crypto';

export const MAXIMUM_CALL_BYTES = 1_048_576;
const MAXIMUM_ENTRIES = 10;
const MAXIMUM_ATTRIBUTES = 10;
const MAXIMUM_DELAY_SECONDS = 900;
const MAXIMUM_NUMBER_DIGITS = 38;

const ENTRY_ID = /^[\w-]{1,80}$/;
// oxlint-disable-next-line no-control-regex -- tab, line feed and carriage return are the allowed ones
const FORBIDDEN_CHARACTER = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;
const GROUP_OR_DEDUPLICATION_ID = /^[\x21-\x7E]{1,128}$/;
const ATTRIBUTE_NAME = /^(?!aws\.|amazon\.)(?!\.)(?!.*\.\.)[\w.-]{1,256}(?<!\.)$/i;
const ATTRIBUTE_TYPE = /^(?:String|Number|Binary)(?:\.[^]+)?$/;
const NUMBER = /^[+-]?(\d+)(?:\.(\d+))?(?:[eE][+-]?\d+)?$/;

/** A message attribute as it travels: BinaryValue in base64. */
export interface WireAttribute {
  DataType: string;
  StringValue?: string;
  BinaryValue?: string;
}

/** One message to send, as SendMessageBatch has it (`Id` is '0' for SendMessage). */
export interface WireEntry {
  Id: string;
  MessageBody: string;
  DelaySeconds?: number;
  MessageAttributes?: Record<string, WireAttribute>;
  MessageSystemAttributes?: Record<string, WireAttribute>;
  MessageGroupId?: string;
  MessageDeduplicationId?: string;
}

/** What the rules have to know of a queue. */
export interface QueueRules {
  fifo: boolean;
  contentBasedDeduplication: boolean;
  maximumMessageBytes: number;
}

/** An error SQS answers: to the whole call, or in `Failed` for one entry. */
export class SqsFault extends Error {
  override readonly name = 'SqsFault';
  readonly code: string;
  readonly status: number;
  readonly senderFault: boolean;
  constructor(
    code: string,
    message: string,
    { status = 400, senderFault = true }: { status?: number; senderFault?: boolean } = {},
  ) {
    super(message);
    this.code = code;
    this.status = status;
    this.senderFault = senderFault;
  }
}

/** The rules a batch call must keep as a whole. Throws SqsFault. */
export function checkBatch(entries: { Id: string }[]): void {
  if (entries.length === 0)
    throw new SqsFault('EmptyBatchRequest', 'There should be at least one entry in the request.');
  if (entries.length > MAXIMUM_ENTRIES)
    throw new SqsFault(
      'TooManyEntriesInBatchRequest',
      `Maximum number of entries per request are ${MAXIMUM_ENTRIES}. You have sent ${entries.length}.`,
    );
  if (!entries.every((entry) => ENTRY_ID.test(entry.Id)))
    throw new SqsFault(
      'InvalidBatchEntryId',
      'A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.',
    );
  if (new Set(entries.map((entry) => entry.Id)).size < entries.length)
    throw new SqsFault(
      'BatchEntryIdsNotDistinct',
      'Two or more batch entries in the request have the same Id.',
    );
}

/** The further rules of a call that sends. Throws SqsFault. */
export function checkCallSize(entries: WireEntry[]): void {
  entries.forEach((entry, index) => {
    if (!entry.MessageBody)
      throw new SqsFault(
        'MissingParameter',
        `The request must contain the parameter SendMessageBatchRequestEntry.${index + 1}.MessageBody.`,
      );
  });
  const bytes = entries.reduce((sum, entry) => sum + messageBytes(entry), 0);
  if (bytes > MAXIMUM_CALL_BYTES)
    throw new SqsFault(
      'BatchRequestTooLong',
      `Batch requests cannot be longer than ${MAXIMUM_CALL_BYTES} bytes. You have sent ${bytes} bytes.`,
    );
}

/** The rules of a single message. Throws SqsFault. */
export function checkMessage(entry: WireEntry, queue: QueueRules): void {
  if (FORBIDDEN_CHARACTER.test(entry.MessageBody)) throw invalidContents('message body');
  checkAttributes(entry.MessageAttributes ?? {});
  checkSystemAttributes(entry.MessageSystemAttributes ?? {});
  if (messageBytes(entry) > queue.maximumMessageBytes)
    throw invalid(
      `One or more parameters are invalid. Reason: Message must be shorter than ${queue.maximumMessageBytes} bytes.`,
    );
  checkIds(entry, queue);
  checkDelay(entry, queue);
}

/** Bytes that count: the body, and name, type and value of each attribute; ids and system attributes don't. */
export function messageBytes({ MessageBody, MessageAttributes = {} }: WireEntry): number {
  return Object.entries(MessageAttributes).reduce(
    (sum, [name, { DataType, StringValue = '', BinaryValue = '' }]) =>
      sum + bytes(name) + bytes(DataType) + bytes(StringValue) + Buffer.byteLength(BinaryValue, 'base64'),
    bytes(MessageBody),
  );
}

/** Hex MD5 of a text's UTF-8 bytes, which the SDK compares. */
export const md5 = (text: string | Buffer): string => createHash('md5').update(text).digest('hex');

/** MD5 of message attributes as the developer guide defines it; undefined when there are none. */
export function md5OfAttributes(attributes: Record<string, WireAttribute> = {}): string | undefined {
  const names = Object.keys(attributes).toSorted();
  const parts = names.flatMap((name) => {
    const { DataType = '', StringValue, BinaryValue = '' } = attributes[name] ?? {};
    const binary = StringValue === undefined;
    const value = binary ? Buffer.from(BinaryValue, 'base64') : Buffer.from(StringValue);
    return [
      ...sized(Buffer.from(name)),
      ...sized(Buffer.from(DataType)),
      Buffer.from([binary ? 2 : 1]),
      ...sized(value),
    ];
  });
  return names.length > 0 ? md5(Buffer.concat(parts)) : undefined;
}

function checkAttributes(attributes: Record<string, WireAttribute>): void {
  const all = Object.entries(attributes);
  if (all.length > MAXIMUM_ATTRIBUTES)
    throw invalid(
      `Number of message attributes [${all.length}] exceeds the allowed maximum [${MAXIMUM_ATTRIBUTES}].`,
    );
  for (const [name, attribute] of all) checkAttribute(name, attribute);
}

function checkAttribute(name: string, { DataType, StringValue, BinaryValue }: WireAttribute): void {
  if (!ATTRIBUTE_NAME.test(name)) throw invalid(`The message attribute name '${name}' is invalid.`);
  if (!ATTRIBUTE_TYPE.test(DataType ?? '') || DataType.length > 256)
    throw invalid(
      `The type of message (user) attribute '${name}' is invalid. You must use only the following supported type prefixes: Binary, Number, String.`,
    );
  const value = DataType.startsWith('Binary') ? BinaryValue : StringValue;
  if (!value)
    throw invalid(`The message attribute '${name}' must contain a non-empty value of type ${DataType}.`);
  if (FORBIDDEN_CHARACTER.test(StringValue ?? '')) throw invalidContents(`message attribute '${name}'`);
  if (DataType.startsWith('Number') && !isSqsNumber(value))
    throw invalid(`Can't cast the value of message (user) attribute '${name}' to a number.`);
}

function isSqsNumber(text: string): boolean {
  const [, whole = '', fraction = ''] = NUMBER.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '').length;
  return whole !== '' && digits <= MAXIMUM_NUMBER_DIGITS && Math.abs(Number(text)) <= 1e126;
}

function checkSystemAttributes(attributes: Record<string, WireAttribute>): void {
  for (const [name, { DataType, StringValue }] of Object.entries(attributes))
    if (name !== 'AWSTraceHeader' || DataType !== 'String' || !StringValue)
      throw invalid(`Message system attribute name '${name}' or its type '${DataType}' is invalid.`);
}

function checkIds({ MessageGroupId, MessageDeduplicationId }: WireEntry, queue: QueueRules): void {
  for (const [name, id] of Object.entries({ MessageGroupId, MessageDeduplicationId }))
    if (id !== undefined && !GROUP_OR_DEDUPLICATION_ID.test(id))
      throw invalid(
        `Value ${id} for parameter ${name} is invalid. Reason: ${name} can only include alphanumeric and punctuation characters. 1 to 128 in length.`,
      );
  if (!queue.fifo && MessageDeduplicationId !== undefined)
    throw invalid(
      'The request includes a parameter that is not valid for this queue type: MessageDeduplicationId.',
    );
  if (queue.fifo && MessageGroupId === undefined)
    throw new SqsFault('MissingParameter', 'The request must contain the parameter MessageGroupId.');
  if (queue.fifo && MessageDeduplicationId === undefined && !queue.contentBasedDeduplication)
    throw invalid(
      'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly',
    );
}

function checkDelay({ DelaySeconds }: WireEntry, queue: QueueRules): void {
  if (DelaySeconds === undefined) return;
  if (queue.fifo && DelaySeconds !== 0)
    throw invalid(
      `Value ${DelaySeconds} for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.`,
    );
  if (!Number.isInteger(DelaySeconds) || DelaySeconds < 0 || DelaySeconds > MAXIMUM_DELAY_SECONDS)
    throw invalid(
      `Value ${DelaySeconds} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= ${MAXIMUM_DELAY_SECONDS}.`,
    );
}

const invalid = (message: string): SqsFault => new SqsFault('InvalidParameterValue', message);
const invalidContents = (where: string): SqsFault =>
  new SqsFault(
    'InvalidMessageContents',
    `Invalid characters found in ${where}. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF and #xE000 to #xFFFD.`,
  );

const bytes = (text: string): number => Buffer.byteLength(text);

function sized(value: Buffer): Buffer[] {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(value.length);
  return [length, value];
}
