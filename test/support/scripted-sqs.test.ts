import {
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
  type SendMessageBatchRequestEntry,
  type SendMessageBatchCommandOutput,
} from '@aws-sdk/client-sqs';
import { describe, expect, test } from 'vitest';
import * as scripted from './scripted-sqs.ts';
import { startScriptedSqs, type ScriptedSqs } from './scripted-sqs.ts';
import { soon, until } from './wait.ts';

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const entry = (
  Id: string,
  more: Partial<SendMessageBatchRequestEntry> = {},
): SendMessageBatchRequestEntry => ({
  Id,
  MessageBody: `body ${Id}`,
  ...more,
});
const three = [entry('0'), entry('1'), entry('2')];
const send = (
  sqs: ScriptedSqs,
  Entries: SendMessageBatchRequestEntry[],
  queue = 'stock',
): Promise<SendMessageBatchCommandOutput> =>
  sqs.client().send(new SendMessageBatchCommand({ QueueUrl: sqs.queueUrl(queue), Entries }));
const ids = (entries: { Id?: string | undefined }[] = []): unknown[] => entries.map(({ Id }) => Id);
const bodies = (sqs: ScriptedSqs, queue = 'stock'): string[] => sqs.stored(queue).map(({ body }) => body);

const MiB = 1_048_576;
const string = (StringValue: string) => ({ DataType: 'String', StringValue });
const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`a${n}`, string('x')]));

const receive = async (sqs: ScriptedSqs, queue: string, more = {}) =>
  (
    await sqs
      .client()
      .send(new ReceiveMessageCommand({ QueueUrl: sqs.queueUrl(queue), MaxNumberOfMessages: 10, ...more }))
  ).Messages ?? [];

describe('scripted SQS', () => {
  test('the SDK accepts its checksums, and finds it by endpoint, by environment or by the queue URL alone', async () => {
    const sqs = await startScriptedSqs();
    const MessageAttributes = { type: { DataType: 'String', StringValue: 'é' } };
    const result = await send(sqs, [entry('0', { MessageAttributes })]);
    expect(ids(result.Successful)).toEqual(['0']);
    const byUrl = new SQSClient({
      region: 'us-east-1',
      credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
      logger: silent,
    });
    await byUrl.send(new SendMessageCommand({ QueueUrl: sqs.queueUrl('stock'), MessageBody: 'by url' }));
    expect(bodies(sqs)).toEqual(['body 0', 'by url']);
    expect(sqs.calls).toMatchObject([
      { number: 1, action: 'SendMessageBatch', queue: 'stock', ended: 'answered', status: 200 },
      { number: 2, action: 'SendMessage', entries: [{ Id: '0', MessageBody: 'by url' }] },
    ]);
  });

  test('entries fail one by one, with and without sender fault, or are in neither list', async () => {
    const sqs = await startScriptedSqs();
    sqs.on(() =>
      scripted.outcomes({
        0: { code: 'InternalError' },
        1: { code: 'Bad', senderFault: true },
        2: 'omitted',
        3: 'storedButOmitted',
      }),
    );
    const { Successful, Failed } = await send(sqs, [...three, entry('3'), entry('4')]);
    expect(ids(Successful)).toEqual(['4']);
    expect(Failed).toMatchObject([
      { Id: '0', Code: 'InternalError', SenderFault: false },
      { Id: '1', Code: 'Bad', SenderFault: true },
    ]);
    expect(bodies(sqs)).toEqual(['body 3', 'body 4']);
  });

  test('answers in sequence, then as SQS would', async () => {
    const sqs = await startScriptedSqs();
    sqs.next(scripted.fail({ 1: { code: 'InternalError' } }), scripted.omit('0', '2'));
    expect(ids((await send(sqs, three)).Failed)).toEqual(['1']);
    expect(ids((await send(sqs, three)).Successful)).toEqual(['1']);
    expect(ids((await send(sqs, three)).Successful)).toEqual(['0', '1', '2']);
  });

  test.each([
    ['httpError 503', scripted.httpError(503), { $metadata: { httpStatusCode: 503 } }],
    ['httpError 500', scripted.httpError(500, '<html>'), { $metadata: { httpStatusCode: 500 } }],
    ['throttled', scripted.throttled(), { name: 'RequestThrottled', $metadata: { httpStatusCode: 403 } }],
    ['accessDenied', scripted.accessDenied(), { name: 'AccessDenied', $metadata: { httpStatusCode: 403 } }],
    [
      'queueDoesNotExist',
      scripted.queueDoesNotExist(),
      { name: 'QueueDoesNotExist', Code: 'AWS.SimpleQueueService.NonExistentQueue' },
    ],
    [
      'batchRequestTooLong',
      scripted.batchRequestTooLong(),
      { name: 'BatchRequestTooLong', $fault: 'client' },
    ],
    ['reset', scripted.reset(), { code: 'ECONNRESET' }],
  ])('%s reaches the SDK as its own error, and nothing is stored', async (_, answer, error) => {
    const sqs = await startScriptedSqs();
    sqs.next(answer);
    await expect(send(sqs, three)).rejects.toMatchObject(error);
    expect(bodies(sqs)).toEqual([]);
  });

  test.each([
    ['storeThenReset', scripted.storeThenReset(), 'ECONNRESET'],
    ['wrongMd5', scripted.wrongMd5('1'), 'Invalid MD5 checksum'],
  ])('%s stores, and the sender cannot know', async (_, answer, message) => {
    const sqs = await startScriptedSqs();
    sqs.next(answer);
    await expect(send(sqs, three)).rejects.toThrow(message);
    expect(bodies(sqs)).toHaveLength(3);
  });

  test('an answer without its keys', async () => {
    const sqs = await startScriptedSqs();
    sqs.next(scripted.storeThenRespond({}));
    const { Successful, Failed } = await send(sqs, three);
    expect([Successful, Failed]).toEqual([undefined, undefined]);
  });

  test.each([
    ['stall', scripted.stall(), 0],
    ['storeThenStall', scripted.storeThenStall(), 3],
  ])('%s is silent until the caller gives up', async (_, answer, stored) => {
    const sqs = await startScriptedSqs();
    sqs.next(answer);
    const command = new SendMessageBatchCommand({ QueueUrl: sqs.queueUrl('stock'), Entries: three });
    await expect(sqs.client().send(command, { abortSignal: AbortSignal.timeout(100) })).rejects.toThrow(
      'abort',
    );
    await until(() => sqs.calls[0]?.ended === 'abandoned');
    expect(bodies(sqs)).toHaveLength(stored);
  });

  test('a stall can end, latency can be added, and calls in flight are counted', async () => {
    const sqs = await startScriptedSqs();
    sqs.next(scripted.stall(50));
    sqs.latencyMs = 20;
    const client = sqs.client();
    const call = () =>
      client.send(new SendMessageBatchCommand({ QueueUrl: sqs.queueUrl('stock'), Entries: three }));
    await Promise.all([call(), call(), call()]);
    expect(sqs.mostInFlight).toBe(3);
    const [first] = sqs.calls;
    expect((first?.endedAt ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(69);
  });

  test('a mistake in a script is told to the caller', async () => {
    const sqs = await startScriptedSqs();
    sqs.on(() => scripted.fail({ 0: { code: 'x' } }));
    const command = new SendMessageCommand({ QueueUrl: sqs.queueUrl('stock'), MessageBody: 'a' });
    await expect(sqs.client().send(command)).rejects.toThrow('SendMessage has no entries');
  });

  describe("keeps SQS's own rules", () => {
    test.each([
      ['no entries', [], 'EmptyBatchRequest'],
      [
        'eleven entries',
        Array.from({ length: 11 }, (_, n) => entry(String(n))),
        'TooManyEntriesInBatchRequest',
      ],
      ['an id twice', [entry('0'), entry('0')], 'BatchEntryIdsNotDistinct'],
      ['an id with a dot', [entry('0.1')], 'InvalidBatchEntryId'],
      ['an id of 81 characters', [entry('a'.repeat(81))], 'InvalidBatchEntryId'],
      ['an empty body', [entry('0', { MessageBody: '' })], 'MissingParameter'],
      [
        'a byte more than 1 MiB',
        [entry('0', { MessageBody: 'a'.repeat(MiB - 1) }), entry('1', { MessageBody: 'é' })],
        'BatchRequestTooLong',
      ],
      [
        'attributes beyond 1 MiB',
        [entry('0', { MessageBody: 'a'.repeat(MiB - 9), MessageAttributes: { type: string('') } })],
        'BatchRequestTooLong',
      ],
    ])('refuses a call with %s', async (_, entries, name) => {
      const sqs = await startScriptedSqs();
      await expect(send(sqs, entries)).rejects.toMatchObject({ name });
      expect(bodies(sqs)).toEqual([]);
    });

    test.each<[string, Partial<SendMessageBatchRequestEntry>, string]>([
      ['U+0000', { MessageBody: '\u0000' }, 'InvalidMessageContents'],
      ['U+FFFE', { MessageBody: '\uFFFE' }, 'InvalidMessageContents'],
      ['U+FFFF', { MessageBody: '\uFFFF' }, 'InvalidMessageContents'],
      ['a lone surrogate', { MessageBody: '\uD800' }, 'InvalidMessageContents'],
      ['eleven attributes', { MessageAttributes: eleven }, 'InvalidParameterValue'],
      [
        'an attribute type of its own',
        { MessageAttributes: { a: { DataType: 'Text', StringValue: 'x' } } },
        'InvalidParameterValue',
      ],
      ['a reserved attribute name', { MessageAttributes: { 'AWS.a': string('x') } }, 'InvalidParameterValue'],
      [
        'an attribute name with two dots',
        { MessageAttributes: { 'a..b': string('x') } },
        'InvalidParameterValue',
      ],
      ['an empty attribute', { MessageAttributes: { a: string('') } }, 'InvalidParameterValue'],
      [
        'a Number that is none',
        { MessageAttributes: { a: { DataType: 'Number', StringValue: '1x' } } },
        'InvalidParameterValue',
      ],
      ['a delay of 901 s', { DelaySeconds: 901 }, 'InvalidParameterValue'],
      ['a deduplication id on a standard queue', { MessageDeduplicationId: 'a' }, 'InvalidParameterValue'],
      ['a group id with a space', { MessageGroupId: 'a b' }, 'InvalidParameterValue'],
    ])('fails only the entry with %s, by sender fault', async (_, bad, Code) => {
      const sqs = await startScriptedSqs();
      const { Successful, Failed } = await send(sqs, [entry('0'), entry('1', bad), entry('2')]);
      expect(ids(Successful)).toEqual(['0', '2']);
      expect(Failed).toMatchObject([{ Id: '1', Code, SenderFault: true }]);
    });

    test('takes what is allowed: exactly 1 MiB, emoji, U+007F, a group id on a standard queue', async () => {
      const sqs = await startScriptedSqs();
      await send(sqs, [
        entry('0', { MessageBody: 'a'.repeat(MiB - 11), MessageAttributes: { type: string('x') } }),
      ]);
      await send(sqs, [entry('0', { MessageBody: '😀\u007F\t\n\r\uFFFD', MessageGroupId: 'tenant-1' })]);
      expect(sqs.stored('stock')).toMatchObject([{ groupId: undefined }, { groupId: 'tenant-1' }]);
    });

    test("a queue's own size limit, counted in bytes", async () => {
      const sqs = await startScriptedSqs({ queues: { small: { maximumMessageBytes: 1_024 } } });
      const { Failed } = await send(
        sqs,
        [entry('0', { MessageBody: 'é'.repeat(512) }), entry('1', { MessageBody: 'é'.repeat(513) })],
        'small',
      );
      expect(ids(Failed)).toEqual(['1']);
      await expect(send(sqs, three)).rejects.toMatchObject({ name: 'QueueDoesNotExist' });
    });

    test('FIFO needs group and deduplication id, and drops a duplicate within five minutes', async () => {
      let now = 0;
      const sqs = await startScriptedSqs({ queues: { 'orders.fifo': {} }, now: () => now });
      const fifo = (Id: string, MessageDeduplicationId: string) =>
        entry(Id, { MessageGroupId: 'g', MessageDeduplicationId });
      const { Failed } = await send(
        sqs,
        [entry('0'), entry('1', { MessageGroupId: 'g' }), fifo('2', 'a')],
        'orders.fifo',
      );
      expect(Failed?.map(({ Code }) => Code)).toEqual(['MissingParameter', 'InvalidParameterValue']);
      now = 299_999;
      expect(ids((await send(sqs, [fifo('0', 'a'), fifo('1', 'b')], 'orders.fifo')).Successful)).toEqual([
        '0',
        '1',
      ]);
      expect(sqs.stored('orders.fifo').map(({ deduplicationId }) => deduplicationId)).toEqual(['a', 'b']);
      now = 300_000;
      await send(sqs, [fifo('0', 'a')], 'orders.fifo');
      expect(sqs.stored('orders.fifo').map(({ deduplicationId }) => deduplicationId)).toEqual([
        'a',
        'b',
        'a',
      ]);
    });
  });

  describe('receiving', () => {
    test('visibility, receive count, attributes and deletion', async () => {
      let now = 1_000_000;
      const sqs = await startScriptedSqs({ now: () => now });
      await send(sqs, [
        entry('0', { MessageAttributes: { type: { DataType: 'String', StringValue: 'é' } } }),
        entry('1', { DelaySeconds: 60 }),
      ]);
      expect(await receive(sqs, 'stock')).toHaveLength(1);
      expect(await receive(sqs, 'stock')).toEqual([]);
      now += 30_000;
      const all = { MessageSystemAttributeNames: ['All'], MessageAttributeNames: ['All'] };
      const [message] = await receive(sqs, 'stock', all);
      expect(message).toMatchObject({
        Body: 'body 0',
        Attributes: { ApproximateReceiveCount: '2' },
        MessageAttributes: { type: { StringValue: 'é' } },
      });
      const QueueUrl = sqs.queueUrl('stock');
      const ReceiptHandle = message?.ReceiptHandle ?? '';
      await sqs
        .client()
        .send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 100 }));
      now += 60_000;
      expect((await receive(sqs, 'stock')).map(({ Body }) => Body)).toEqual(['body 1']);
      const { Attributes } = await sqs
        .client()
        .send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
      expect(Attributes).toMatchObject({
        ApproximateNumberOfMessages: '0',
        ApproximateNumberOfMessagesNotVisible: '2',
      });
      const deleted = await sqs.client().send(
        new DeleteMessageBatchCommand({
          QueueUrl,
          Entries: [
            { Id: '0', ReceiptHandle },
            { Id: '1', ReceiptHandle: 'garbage' },
          ],
        }),
      );
      expect([ids(deleted.Successful), ids(deleted.Failed)]).toEqual([['0'], ['1']]);
      expect(sqs.stored('stock').map((stored) => stored.deleted)).toEqual([true, false]);
    });

    test('visibility 0 gives messages back at once, an outdated handle deletes nothing', async () => {
      const sqs = await startScriptedSqs();
      await send(sqs, [entry('0')]);
      const QueueUrl = sqs.queueUrl('stock');
      const [first] = await receive(sqs, 'stock');
      const Entries = [{ Id: '0', ReceiptHandle: first?.ReceiptHandle, VisibilityTimeout: 0 }];
      await sqs.client().send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
      const [second] = await receive(sqs, 'stock');
      expect(second?.MessageId).toBe(first?.MessageId);
      await sqs.client().send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: first?.ReceiptHandle }));
      expect(sqs.stored('stock')[0]?.deleted).toBe(false);
      await sqs.client().send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: second?.ReceiptHandle }));
      expect(sqs.stored('stock')[0]?.deleted).toBe(true);
    });

    test('a long poll wakes when a message comes', async () => {
      const sqs = await startScriptedSqs();
      const waiting = receive(sqs, 'stock', { WaitTimeSeconds: 5 });
      await until(() => sqs.calls.length === 1);
      await send(sqs, [entry('0')]);
      expect(await soon(waiting, { within: 1_000 })).toHaveLength(1);
    });

    test('FIFO: in order, and nothing of a group while one of it is in flight', async () => {
      const sqs = await startScriptedSqs({ queues: { 'orders.fifo': {} } });
      const grouped = ['a', 'b', 'a', 'b'].map((MessageGroupId, n) =>
        entry(String(n), { MessageGroupId, MessageDeduplicationId: String(n) }),
      );
      await send(sqs, grouped, 'orders.fifo');
      expect((await receive(sqs, 'orders.fifo', { MaxNumberOfMessages: 1 })).map(({ Body }) => Body)).toEqual(
        ['body 0'],
      );
      expect((await receive(sqs, 'orders.fifo')).map(({ Body }) => Body)).toEqual(['body 1', 'body 3']);
      expect(await receive(sqs, 'orders.fifo')).toEqual([]);
    });
  });
});
