// The trace of whoever recorded an event: into the row, through the envelope, to the effect, and as links of spans.

import { context, ROOT_CONTEXT, trace, type Span } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base';
import { build } from 'esbuild';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { recordEvents } from '../functions/outbox/record.ts';
import type { EventInput, ReceivedEvent } from '../functions/outbox/event.ts';
import { eventBridgeSender } from '../functions/relay/eventbridge.ts';
import { tick } from '../functions/relay/tick.ts';
import { xRayHeader } from '../functions/shared/trace.ts';
import type { PrismaClient } from '../prisma/client/client.ts';
import { afterwards } from './support/cleanup.ts';
import {
  bodyOf,
  captureReports,
  createConsumerDatabase,
  noteEffect,
  orderRecord,
  recordOf,
  startConsumer,
  type TestConsumerOptions,
  type Tx,
} from './support/consumer.ts';
import { createPrisma, type TestDatabase } from './support/database.ts';
import { insertEvents } from './support/factories.ts';
import { claimedEvent, relayParts } from './support/relay.ts';
import { startScriptedSqs, type ScriptedSqs } from './support/scripted-sqs.ts';

const TRACE_PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const X_RAY = 'Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1';

let db: TestDatabase;
let prisma: PrismaClient;
let sqs: ScriptedSqs;

beforeAll(async () => {
  db = await createConsumerDatabase();
  prisma = createPrisma(db.url, { max: 5 });
});

beforeEach(async () => {
  await db.sql('TRUNCATE applied_event, outbox_event, effect');
  sqs = await startScriptedSqs({ queues: { stock: {}, dead: {} } });
});

/** OpenTelemetry as an application sets it up, until the test ends. @returns what was exported so far. */
function openTelemetry(): () => ReadableSpan[] {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  );
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  afterwards(() => {
    trace.disable();
    context.disable();
  });
  return () => exporter.getFinishedSpans();
}

const inSpan = <T>(name: string, work: (span: Span) => Promise<T>): Promise<T> =>
  trace.getTracer('test').startActiveSpan(name, async (span) => {
    try {
      return await work(span);
    } finally {
      span.end();
    }
  });

const record = (...more: Partial<EventInput>[]) =>
  prisma.$transaction((tx) =>
    recordEvents(
      tx,
      more.map((each) => ({
        type: 'order.placed',
        source: '/orders',
        destinations: ['stock'],
        payload: { orderId: 'ORDER-1', sku: 'SKU-17', quantity: 1 },
        ...each,
      })),
    ),
  );
const traceParents = async () =>
  (await db.sql('SELECT trace_parent FROM outbox_event ORDER BY sequence')).map((row) => row['trace_parent']);
const traceParentOf = ({ traceId, spanId, traceFlags }: ReturnType<Span['spanContext']>) =>
  `00-${traceId}-${spanId}-0${traceFlags}`;
const linksOf = (span: ReadableSpan | undefined) => span?.links.map((link) => traceParentOf(link.context));
const named = (spans: ReadableSpan[], name: string) => spans.filter((span) => span.name === name);

type Options = Partial<TestConsumerOptions<never>>;
const consume = (options: Options = {}) => {
  captureReports();
  return startConsumer({ db, queues: sqs, ...(options as object) });
};
const traced = (traceParent: string) => {
  const body = JSON.parse(bodyOf()) as object;
  return recordOf(JSON.stringify({ ...body, traceparent: traceParent }));
};

describe('recording', () => {
  test('inside a span keeps its traceparent; one given with the event goes before it', async () => {
    openTelemetry();
    const active = await inSpan('request', async (span) => {
      await record({}, { traceParent: TRACE_PARENT });
      return traceParentOf(span.spanContext());
    });
    expect(await traceParents()).toEqual([active, TRACE_PARENT]);
  });

  test('outside any span, or without OpenTelemetry, keeps none', async () => {
    await record({});
    openTelemetry();
    await record({});
    expect(await traceParents()).toEqual([null, null]);
  });

  test('goes on when OpenTelemetry fails', async () => {
    openTelemetry();
    const broken = ROOT_CONTEXT.setValue(Symbol.for('OpenTelemetry Context Key SPAN'), {
      spanContext: () => {
        throw new Error('a broken exporter');
      },
    });
    await context.with(broken, () => record({}));
    expect(await traceParents()).toEqual([null]);
  });

  test.each([
    '',
    'no trace',
    TRACE_PARENT.toUpperCase(),
    `ff${TRACE_PARENT.slice(2)}`,
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
    `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
    `${TRACE_PARENT}-more`,
    `${TRACE_PARENT}\n`,
  ])('refuses %j as a traceparent, naming the field', async (traceParent) => {
    await expect(record({ traceParent })).rejects.toThrow(/^events\[0\]\.traceParent: expected a W3C/);
    expect(await traceParents()).toEqual([]);
  });
});

describe('publishing', () => {
  test('puts the trace into the envelope, and X-Ray’s form of it beside the message', async () => {
    await record({ traceParent: TRACE_PARENT }, {});
    await tick(relayParts(prisma, sqs), () => 20_000);
    const [withTrace, without] = sqs.stored('stock');
    expect(JSON.parse(withTrace?.body ?? '')).toMatchObject({ traceparent: TRACE_PARENT });
    expect(withTrace?.systemAttributes).toEqual({
      AWSTraceHeader: { DataType: 'String', StringValue: X_RAY },
    });
    expect(JSON.parse(without?.body ?? '')).not.toHaveProperty('traceparent');
    expect(without?.systemAttributes).toEqual({});
  });

  test('to a bus likewise, and neither form counts as size', () => {
    const sender = eventBridgeSender({
      kind: 'eventbridge',
      busName: 'b',
      maxBytes: 1_024,
      parkedHead: 'hold',
    });
    const { message } = sender.write(claimedEvent({ traceParent: TRACE_PARENT }));
    expect(message).toMatchObject({ TraceHeader: X_RAY });
    expect(JSON.parse(message.Detail ?? '')).toMatchObject({ traceparent: TRACE_PARENT });
    expect(sender.write(claimedEvent()).message).not.toHaveProperty('TraceHeader');
  });

  test('says whether the trace is sampled', () => {
    expect(xRayHeader(`${TRACE_PARENT.slice(0, -2)}00`)).toMatch(/;Sampled=0$/);
    expect(xRayHeader(null)).toBeUndefined();
    expect(xRayHeader('garbage')).toBeUndefined();
  });

  test('is a span for each call, of the tick’s own trace, linked to the traces of what it sends', async () => {
    const spans = openTelemetry();
    await insertEvents(db, 12, (n) => (n === 0 ? { traceParent: TRACE_PARENT } : {}));
    const recorded = await inSpan('request', async (span) => {
      await record({});
      return span.spanContext();
    });
    const ticking = await inSpan('tick', async (span) => {
      await tick(relayParts(prisma, sqs), () => 20_000);
      return span.spanContext();
    });
    const published = named(spans(), 'publish stock');
    expect(published.map(({ kind }) => kind)).toEqual([3, 3]);
    expect(published.flatMap((span) => linksOf(span) ?? []).toSorted()).toEqual(
      [TRACE_PARENT, traceParentOf(recorded)].toSorted(),
    );
    for (const span of published) {
      expect(span.spanContext().traceId).toBe(ticking.traceId);
      expect(span.parentSpanContext?.spanId).toBe(ticking.spanId);
    }
  });
});

describe('applying', () => {
  test.each(['record', 'batch'] as const)(
    'hands the trace to the effect, in a span linked to it (transaction per %s)',
    async (transactionPer) => {
      const spans = openTelemetry();
      const seen: (string | undefined)[] = [];
      const { deliver } = consume({
        transactionPer,
        effects: {
          'order.placed': async (tx: Tx, event: ReceivedEvent) => {
            seen.push(event.traceParent);
            await inSpan('inside', () => noteEffect(tx, event));
            await recordEvents(tx, [
              { type: 'stock.low', source: '/stock', destinations: ['mail'], payload: {} },
            ]);
          },
        },
      });
      expect(await deliver([traced(TRACE_PARENT)])).toEqual([]);
      expect(seen).toEqual([TRACE_PARENT]);
      const [applied] = named(spans(), 'apply order.placed');
      expect(applied).toMatchObject({ kind: 4, status: { code: 0 } });
      expect(linksOf(applied)).toEqual([TRACE_PARENT]);
      expect(applied?.parentSpanContext).toBeUndefined();
      // What the effect does belongs to the span, and so does an event that it records.
      const span = applied?.spanContext();
      expect(named(spans(), 'inside')[0]?.parentSpanContext?.spanId).toBe(span?.spanId);
      expect(await traceParents()).toEqual([span && traceParentOf(span)]);
    },
  );

  test('of an effect that fails marks the span, without its words', async () => {
    const spans = openTelemetry();
    const { deliver } = consume({
      effects: { 'order.placed': () => Promise.reject(new Error('a secret')) },
    });
    expect(await deliver([traced(TRACE_PARENT)])).toHaveLength(1);
    const [applied] = named(spans(), 'apply order.placed');
    expect(applied?.status).toEqual({ code: 2 });
    expect(applied?.events).toEqual([]);
  });

  test.each(['garbage', `${TRACE_PARENT}\n`, 7, null, {}])(
    'ignores the traceparent %j: the event is applied',
    async (traceparent) => {
      const seen: unknown[] = [];
      const { deliver } = consume({
        effects: { 'order.placed': async (_: Tx, event: object) => seen.push('traceParent' in event) },
      });
      expect(await deliver([traced(traceparent as string), orderRecord()])).toEqual([]);
      expect(seen).toEqual([false, false]);
    },
  );
});

test('nothing of OpenTelemetry goes into a zip', async () => {
  const { metafile } = await build({
    entryPoints: ['functions/relay/tick.ts', 'functions/consumer/apply.ts', 'functions/outbox/record.ts'],
    outdir: 'unused',
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    metafile: true,
    write: false,
  });
  const imported = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path));
  expect(imported).toContain('uuid');
  expect(imported.filter((path) => path.includes('opentelemetry'))).toEqual([]);
});

describe('tracing that throws costs a span and nothing else', () => {
  /** A provider of which one part throws. */
  const broken: Record<string, () => void> = {
    'when a span starts': () =>
      trace.setGlobalTracerProvider({
        getTracer: () => ({
          startSpan: () => {
            throw new Error('a broken sampler');
          },
        }),
      } as unknown as BasicTracerProvider),
    'when a span ends': () =>
      trace.setGlobalTracerProvider(
        new BasicTracerProvider({
          spanProcessors: [
            {
              onStart: () => undefined,
              onEnd: () => {
                throw new Error('a broken exporter');
              },
              forceFlush: async () => undefined,
              shutdown: async () => undefined,
            },
          ],
        }),
      ),
    'when work is put into it': () => {
      openTelemetry();
      context.disable();
      context.setGlobalContextManager({
        active: () => ROOT_CONTEXT,
        with: () => {
          throw new Error('a broken context manager');
        },
        bind: (_, target) => target,
        enable: () => new AsyncLocalStorageContextManager(),
        disable: () => new AsyncLocalStorageContextManager(),
      });
    },
  };

  test.each(Object.keys(broken))('%s', async (when) => {
    await insertEvents(db, 12);
    broken[when]?.();
    afterwards(() => {
      trace.disable();
      context.disable();
    });
    expect(await tick(relayParts(prisma, sqs), () => 20_000)).toMatchObject({
      published: 12,
      acknowledged: 12,
    });
    expect(sqs.stored('stock')).toHaveLength(12);
    const { deliver } = consume();
    expect(await deliver([traced(TRACE_PARENT)])).toEqual([]);
    expect(await db.sql('SELECT FROM effect')).toHaveLength(1);
  });
});
