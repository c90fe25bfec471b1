/**
 * Traces, if the caller has OpenTelemetry. Its API registers itself under a well-known symbol, the same for all of its
 * 1.x releases, so that copies of it find each other; looking there costs a property, and no dependency at run time.
 * (docs/decisions/0011-traces-without-a-dependency.md)
 */
import type {
  ContextManager,
  Link,
  Span,
  SpanKind,
  SpanStatusCode,
  TracerProvider,
} from '@opentelemetry/api';

interface Registered {
  readonly context?: ContextManager;
  readonly trace?: TracerProvider;
}

const API = Symbol.for('opentelemetry.js.api.1');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const TRACER = 'prisma-outbox-relay';
/* oxlint-disable typescript/no-unsafe-enum-assignment -- the enums themselves would be an import at run time */
const PRODUCER: SpanKind = 3;
const CONSUMER: SpanKind = 4;
const ERROR: SpanStatusCode = 2;
const KINDS = { producer: PRODUCER, consumer: CONSUMER };
/* oxlint-enable */

const TRACE_PARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

const openTelemetry = () => (globalThis as { readonly [API]?: Registered })[API];

/** Whether a value is a W3C `traceparent` (version 00) that names a trace and a span. */
export const isTraceParent = (value: unknown): value is string =>
  typeof value === 'string' && TRACE_PARENT.test(value);

/** The `traceparent` of the active OpenTelemetry span; null without OpenTelemetry, or without a span. Never throws. */
export function activeTraceParent(): string | null {
  try {
    const span = openTelemetry()?.context?.active().getValue(SPAN) as Span | undefined;
    if (!span) return null;
    const { traceId, spanId, traceFlags } = span.spanContext();
    const traceParent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
    return isTraceParent(traceParent) ? traceParent : null;
  } catch {
    // Somebody's tracing must not keep an event from being recorded.
    return null;
  }
}

/** A `traceparent` as X-Ray writes it; undefined for none. */
export function xRayHeader(traceParent: string | null): string | undefined {
  const [, traceId, spanId, flags] = TRACE_PARENT.exec(traceParent ?? '') ?? [];
  if (traceId === undefined) return undefined;
  const root = `1-${traceId.slice(0, 8)}-${traceId.slice(8)}`;
  return `Root=${root};Parent=${spanId};Sampled=${Number.parseInt(flags ?? '', 16) & 1}`;
}

/**
 * Does `work` inside a span of its own that is linked to the traces given: it belongs to this invocation's trace, which
 * may serve many. Without OpenTelemetry it is `work` alone.
 * Whatever tracing itself throws, `work` is done exactly once, and what became of it comes back.
 */
export async function linkedSpan<T>(
  name: string,
  kind: 'producer' | 'consumer',
  traceParents: readonly (string | null | undefined)[],
  work: () => Promise<T>,
): Promise<T> {
  const { context, trace } = openTelemetry() ?? {};
  if (!trace) return work();
  let begun: Promise<T> | undefined;
  const once = () => (begun ??= (async () => work())());
  let span: Span | undefined;
  quietly(() => {
    const active = context?.active();
    const links = traceParents.flatMap(linkTo);
    span = trace.getTracer(TRACER).startSpan(name, { kind: KINDS[kind], links }, active);
    // Begun inside the span; waited for below.
    if (context && active) context.with(active.setValue(SPAN, span), once).catch(() => undefined);
  });
  try {
    return await once();
  } catch (error) {
    // No more than that: what was thrown may name data.
    quietly(() => span?.setStatus({ code: ERROR }));
    throw error;
  } finally {
    quietly(() => span?.end());
  }
}

/** Somebody's tracing must not decide what becomes of an event: exporters run inside `end`, samplers inside `startSpan`. */
function quietly(act: () => unknown): void {
  try {
    act();
  } catch {
    // The trace lacks a span.
  }
}

function linkTo(traceParent: string | null | undefined): Link[] {
  const [, traceId, spanId, flags] = TRACE_PARENT.exec(traceParent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined) return [];
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags ?? '', 16), isRemote: true } }];
}
