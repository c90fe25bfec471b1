// Prisma's client as far as the engine knows it, over `pg` itself: the engine's own statements without Prisma.

import { Pool, types, type CustomTypesConfig, type PoolClient } from 'pg';

import type { RootClient, TransactionClient } from '../../../functions/shared/store.ts';

const INT8: number = types.builtins.INT8;
const parserOf = types.getTypeParser as (id: number, format?: string) => (text: string) => unknown;
/** A bigint as the engine wants it; of these queries alone, for the peers and Prisma want it as they always had it. */
const engineTypes: CustomTypesConfig = {
  getTypeParser: ((id: number, format?: string) =>
    id === INT8 ? BigInt : parserOf(id, format)) as typeof types.getTypeParser,
};

const rawOn = (client: Pool | PoolClient) => ({
  $queryRawUnsafe: async <T>(text: string, ...values: unknown[]) =>
    (await client.query({ text, values, types: engineTypes })).rows as T,
  $executeRawUnsafe: async (text: string, ...values: unknown[]) =>
    (await client.query(text, values)).rowCount ?? 0,
});

/** A pool with Prisma's raw calls and its interactive transaction. */
export function pgClient(at: string | Pool, max = 5): { client: RootClient; pool: Pool } {
  const pool = typeof at === 'string' ? new Pool({ connectionString: at, max }) : at;
  // A connection that is still closing when its database is dropped.
  pool.on('error', () => undefined);
  const $transaction = async <T>(body: (tx: TransactionClient) => Promise<T>): Promise<T> => {
    const connection = await pool.connect();
    try {
      await connection.query('BEGIN');
      const result = await body(rawOn(connection));
      await connection.query('COMMIT');
      return result;
    } catch (error) {
      await connection.query('ROLLBACK');
      throw error;
    } finally {
      connection.release();
    }
  };
  return { client: { ...rawOn(pool), $transaction }, pool };
}
