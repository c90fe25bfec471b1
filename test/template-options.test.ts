// Each choice that docs/deploy.md offers packages without an account, and the check finds nothing in it.

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { templateErrors } from '../infra/template/check.ts';
import type { Template } from '../infra/template/document.ts';
import { afterwards } from './support/cleanup.ts';
import { packageOption, PACKAGING_TIMEOUT_MS, type Packaged } from './support/packaged.ts';
import { capital, FUNCTIONS, lookups } from './support/template.ts';

const SECRET = 'arn:aws:secretsmanager:eu-central-1:000000000000:secret:outbox';
const NETWORK = [
  '--param=subnetIds=subnet-1,subnet-2',
  '--param=securityGroupIds=sg-1',
  '--param=vpcId=vpc-1',
];
/** Of several packagings, on a machine where every core is busy. */
const TIMEOUT_MS = 2 * PACKAGING_TIMEOUT_MS;

async function option(...args: string[]) {
  const scratch = await mkdtemp(path.join(tmpdir(), 'outbox-option-'));
  afterwards(() => rm(scratch, { recursive: true }));
  const template = await packageOption(path.join(scratch, 'copy'), ...args);
  expect(await templateErrors(template, await readFile('docs/operations.md', 'utf8'))).toEqual([]);
  return { template, ...lookups(template.Resources as Packaged['resources']) };
}

/** The statements of a policy beside the roles, without what every statement has. */
const policy = (template: Template, id: string) =>
  template.Resources[id]?.Properties as {
    Roles: { Ref: string }[];
    PolicyDocument: { Statement: { Action: string; Resource: unknown }[] };
  };

const rolesWithAccess = (template: Template): string[] =>
  ['DatabaseAccess', 'MigrationAccess']
    .flatMap((id) => policy(template, id).Roles.map(({ Ref }) => Ref))
    .toSorted();
const everyRole = FUNCTIONS.map((name) => `${capital(name)}Role`).toSorted();

const databaseOf = (variables: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => /^(DATABASE_|NODE_EXTRA)/.test(name)));

test(
  'secret in dev: the right to read that one and no other; the database may pause, and nobody is woken',
  async () => {
    const { template, variablesOf, propertiesOf, named } = await option(
      '--stage=dev',
      '--param=database=secret',
      `--param=databaseSecretArn=${SECRET}`,
      `--param=migrationSecretArn=${SECRET}-owner`,
      '--param=databaseHost=proxy.example',
    );
    expect(databaseOf(variablesOf('relay'))).toEqual({
      DATABASE_SECRET_ARN: SECRET,
      DATABASE_HOST: 'proxy.example',
      NODE_EXTRA_CA_CERTS: '/var/runtime/ca-cert.pem',
    });
    expect(variablesOf('migrate')['DATABASE_SECRET_ARN']).toBe(`${SECRET}-owner`);
    expect(policy(template, 'DatabaseAccess').PolicyDocument.Statement).toEqual([
      { Effect: 'Allow', Action: 'secretsmanager:GetSecretValue', Resource: SECRET },
    ]);
    expect(policy(template, 'MigrationAccess')).toMatchObject({
      Roles: [{ Ref: 'MigrateRole' }],
      PolicyDocument: { Statement: [{ Resource: `${SECRET}-owner` }] },
    });
    expect(rolesWithAccess(template)).toEqual(everyRole);
    expect(propertiesOf('TickSchedule')).toMatchObject({
      State: 'ENABLED',
      ScheduleExpression: 'rate(1 hour)',
    });
    expect(propertiesOf('GaugeEventsRuleSchedule1')).toMatchObject({ State: 'DISABLED' });
    expect(propertiesOf('PruneEventsRuleSchedule1')).toMatchObject({ ScheduleExpression: 'rate(1 day)' });
    expect(propertiesOf('RelayLogGroup')).toMatchObject({ RetentionInDays: 7 });
    expect(named('AWS::CloudWatch::Alarm')).toEqual([]);
  },
  TIMEOUT_MS,
);

test(
  'iam: no password, and the right to connect as that one user; in subnets that are there',
  async () => {
    const { template, variablesOf, lambdaOf, propertiesOf, named } = await option(
      '--stage=prod',
      '--param=database=iam',
      '--param=databaseHost=db.example',
      '--param=databaseResourceId=cluster-ABC',
      '--param=migrationUser=owner',
      '--param=network=existing',
      ...NETWORK,
    );
    const database = {
      DATABASE_HOST: 'db.example',
      DATABASE_PORT: '5432',
      DATABASE_NAME: 'outbox',
      DATABASE_USER: 'outbox',
      NODE_EXTRA_CA_CERTS: '/var/runtime/ca-cert.pem',
    };
    expect(databaseOf(variablesOf('relay'))).toEqual(database);
    expect(databaseOf(variablesOf('migrate'))).toEqual({ ...database, DATABASE_USER: 'owner' });
    const arn = 'arn:${AWS::Partition}:rds-db:${AWS::Region}:${AWS::AccountId}:dbuser:${Id}/${User}';
    expect(policy(template, 'DatabaseAccess').PolicyDocument.Statement).toMatchObject([
      { Action: 'rds-db:connect', Resource: { 'Fn::Sub': [arn, { Id: 'cluster-ABC', User: 'outbox' }] } },
    ]);
    expect(policy(template, 'MigrationAccess').PolicyDocument.Statement).toMatchObject([
      { Action: 'rds-db:connect', Resource: { 'Fn::Sub': [arn, { Id: 'cluster-ABC', User: 'owner' }] } },
    ]);
    for (const name of FUNCTIONS) {
      expect(lambdaOf(name)).toMatchObject({
        VpcConfig: {
          SubnetIds: { 'Fn::Split': [',', 'subnet-1,subnet-2'] },
          SecurityGroupIds: { 'Fn::Split': [',', 'sg-1'] },
        },
      });
      // Before the function is made, or Lambda refuses to make it.
      expect(propertiesOf(`${capital(name)}Role`)['ManagedPolicyArns']).toEqual([
        { Ref: 'NetworkInterfaces' },
      ]);
    }
    expect(named('AWS::EC2::VPCEndpoint')).toEqual([]);
  },
  TIMEOUT_MS,
);

test(
  'aurora-proxy: its own database, behind a proxy that migrations go past; in subnets that reach nothing',
  async () => {
    const { template, variablesOf, propertiesOf, named } = await option(
      '--stage=prod',
      '--param=database=aurora-proxy',
      '--param=network=endpoints',
      ...NETWORK,
    );
    expect(template.Resources['DatabaseCluster']).toMatchObject({
      DeletionPolicy: 'Snapshot',
      Properties: {
        Engine: 'aurora-postgresql',
        EngineVersion: expect.stringMatching(/^17\./),
        ServerlessV2ScalingConfiguration: { MinCapacity: 0, SecondsUntilAutoPause: 300 },
        ManageMasterUserPassword: true,
        EnableIAMDatabaseAuthentication: true,
        StorageEncrypted: true,
        DeletionProtection: true,
      },
    });
    const secret = { 'Fn::GetAtt': ['DatabaseCluster', 'MasterUserSecret.SecretArn'] };
    expect(variablesOf('relay')).toMatchObject({
      DATABASE_SECRET_ARN: secret,
      DATABASE_HOST: { 'Fn::GetAtt': ['DatabaseProxy', 'Endpoint'] },
    });
    expect(variablesOf('migrate')).toMatchObject({
      DATABASE_SECRET_ARN: secret,
      DATABASE_HOST: { 'Fn::GetAtt': ['DatabaseCluster', 'Endpoint.Address'] },
    });
    expect(propertiesOf('DatabaseProxy')).toMatchObject({ RequireTLS: true, EngineFamily: 'POSTGRESQL' });
    const services = named('AWS::EC2::VPCEndpoint').map(([, { Properties }]) => Properties['ServiceName']);
    expect(services).toEqual(
      ['sqs', 'secretsmanager', 'events'].map((name) => ({
        'Fn::Sub': `com.amazonaws.\${AWS::Region}.${name}`,
      })),
    );
    expect(rolesWithAccess(template)).toEqual(everyRole);
  },
  TIMEOUT_MS,
);

test(
  'aurora: the functions speak to it directly',
  async () => {
    const { variablesOf, named } = await option(
      '--stage=prod',
      '--param=database=aurora',
      '--param=network=existing',
      ...NETWORK,
    );
    expect(databaseOf(variablesOf('migrate'))).toEqual(databaseOf(variablesOf('relay')));
    expect(variablesOf('relay')['DATABASE_HOST']).toEqual({
      'Fn::GetAtt': ['DatabaseCluster', 'Endpoint.Address'],
    });
    expect(named('AWS::RDS::DBProxy')).toEqual([]);
  },
  TIMEOUT_MS,
);

test(
  'a misspelt option stops the packaging',
  async () => {
    await expect(option('--stage=prod', '--param=database=secrets')).rejects.toMatchObject({
      stdout: expect.stringContaining('custom.databaseOption'),
    });
  },
  TIMEOUT_MS,
);
