// Prisma's client as far as the engine knows it, over `pg` itself: the engine's own statements without Prisma.

import { Pool, types, type PoolClient } from 'pg';
import type { RootClient, TransactionClient } from '../../../functions/shared/store.ts';

types.setTypeParser(types.builtins.INT8, BigInt);

const rawOn = (client: Pool | PoolClient) => ({
  $queryRawUnsafe: async <T>(text: string, ...values: unknown[]) =>
    (await client.query(text, values)).rows as T,
  $executeRawUnsafe: async (text: string, ...values: unknown[]) =>
    (await client.query(text, values)).rowCount ?? 0,
});

/** A pool with Prisma's raw calls and its interactive transaction. */
export function pgClient(at: string | Pool, max = 5): { client: RootClient; pool: Pool } {
  const pool = typeof at === 'string' ? new Pool({ connectionString: at, max }) : at;
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
