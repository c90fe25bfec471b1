// The template's queues, made in the local SQS endpoint.

import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SetQueueAttributesCommand,
  SQSClient,
  type Message,
  type MessageAttributeValue,
  type QueueAttributeName,
} from '@aws-sdk/client-sqs';
import { ACCOUNT, REGION, resolve, resourcesOf, type Attributes, type Template } from './template.ts';

/** How many messages a queue holds: receivable now, received and not deleted, and not due yet. */
export interface Depth {
  visible: number;
  inFlight: number;
  delayed: number;
}

/** A message to send: its body, and string attributes if any. */
export interface OutgoingMessage {
  body: string;
  attributes?: Record<string, string>;
  delaySeconds?: number;
  /** FIFO queues need both; on a standard queue the group asks for fair delivery. */
  groupId?: string;
  deduplicationId?: string;
}

/** One queue of the stack. */
export interface LocalQueue {
  /** Logical id, such as `StockQueue`. */
  id: string;
  url: string;
  arn: string;
  depth(): Promise<Depth>;
  /** Sends raw messages, in calls of ten. Throws when one is refused. */
  send(messages: OutgoingMessage[]): Promise<void>;
  /** Takes out everything that can be received now, such as all dead letters at the end. */
  drain(): Promise<Message[]>;
}

/** Whether a queue keeps the order of each message group. */
export const isFifo = ({ arn }: LocalQueue) => arn.endsWith('.fifo');

const BATCH = 10;
/** CloudFormation properties that are no queue attributes. */
const NOT_ATTRIBUTES = new Set(['QueueName', 'Tags']);

/** An SQS client for the local endpoint. */
export function localSqs(endpoint: string): SQSClient {
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  return new SQSClient({ endpoint, region: REGION, credentials });
}

/** What `Ref` and `Fn::GetAtt` give for each queue: known before any is made, so queues may refer to each other. */
export function queueAttributes(template: Template, endpoint: string): Record<string, Attributes> {
  const entries = resourcesOf(template, 'AWS::SQS::Queue').map(({ id, properties }) => {
    const fallback = `${template.stackName}-${id}${properties['FifoQueue'] === true ? '.fifo' : ''}`;
    const name = String(properties['QueueName'] ?? fallback);
    const url = `${endpoint}/${ACCOUNT}/${name}`;
    return [
      id,
      { Ref: url, QueueUrl: url, QueueName: name, Arn: `arn:aws:sqs:${REGION}:${ACCOUNT}:${name}` },
    ];
  });
  return Object.fromEntries(entries) as Record<string, Attributes>;
}

/** Makes every queue of the template with its visibility, retention and redrive; one that is there is brought up to date. */
export async function createQueues(
  sqs: SQSClient,
  template: Template,
  known: Record<string, Attributes>,
): Promise<Record<string, LocalQueue>> {
  const queues: Record<string, LocalQueue> = {};
  for (const { id, properties } of resourcesOf(template, 'AWS::SQS::Queue')) {
    const { QueueName, Ref: url = '', Arn: arn = '' } = known[id] ?? {};
    const Attributes = settingsOf(resolve(properties, known) as Record<string, unknown>);
    try {
      await sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
    } catch (error) {
      // fauxqs gives the code that SQS gives in its older protocol, so it is no QueueNameExists of the SDK.
      if (!(error instanceof Error && error.name.endsWith('QueueNameExists'))) throw error;
      await sqs.send(new SetQueueAttributesCommand({ QueueUrl: url, Attributes }));
    }
    queues[id] = {
      id,
      url,
      arn,
      depth: () => depth(sqs, url),
      send: (messages) => send(sqs, url, messages),
      drain: () => drain(sqs, url),
    };
  }
  return queues;
}

function settingsOf(properties: Record<string, unknown>): Partial<Record<QueueAttributeName, string>> {
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => !NOT_ATTRIBUTES.has(name))
      .map(([name, value]) => [name, typeof value === 'object' ? JSON.stringify(value) : String(value)]),
  );
}

async function depth(sqs: SQSClient, url: string): Promise<Depth> {
  const { Attributes: counts = {} } = await sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] }),
  );
  return {
    visible: Number(counts.ApproximateNumberOfMessages),
    inFlight: Number(counts.ApproximateNumberOfMessagesNotVisible),
    delayed: Number(counts.ApproximateNumberOfMessagesDelayed),
  };
}

async function send(sqs: SQSClient, url: string, messages: OutgoingMessage[]): Promise<void> {
  for (let at = 0; at < messages.length; at += BATCH) {
    const Entries = messages.slice(at, at + BATCH).map((message, index) => ({
      Id: String(index),
      MessageBody: message.body,
      MessageAttributes: stringAttributes(message.attributes ?? {}),
      ...(message.delaySeconds !== undefined && { DelaySeconds: message.delaySeconds }),
      ...(message.groupId !== undefined && { MessageGroupId: message.groupId }),
      ...(message.deduplicationId !== undefined && { MessageDeduplicationId: message.deduplicationId }),
    }));
    const { Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }));
    if (Failed.length > 0) throw new Error(`${url} refused: ${JSON.stringify(Failed)}`);
  }
}

function stringAttributes(attributes: Record<string, string>): Record<string, MessageAttributeValue> {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, { DataType: 'String', StringValue: value }]),
  );
}

/** Deletes received messages, in calls of ten. */
export async function deleteMessages(sqs: SQSClient, QueueUrl: string, handles: string[]): Promise<void> {
  for (let at = 0; at < handles.length; at += BATCH) {
    const Entries = handles
      .slice(at, at + BATCH)
      .map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  }
}

async function drain(sqs: SQSClient, url: string): Promise<Message[]> {
  const drained: Message[] = [];
  for (;;) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: url,
        MaxNumberOfMessages: BATCH,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['All'],
      }),
    );
    if (Messages.length === 0) return drained;
    drained.push(...Messages);
    // The rest of a FIFO queue's message group cannot be received before this.
    await deleteMessages(
      sqs,
      url,
      Messages.map(({ ReceiptHandle = '' }) => ReceiptHandle),
    );
  }
}
