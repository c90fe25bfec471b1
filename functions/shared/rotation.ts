import type { ClientConfig, Pool, PoolClient } from 'pg';

/** PostgreSQL's code for a wrong password. */
const INVALID_PASSWORD = '28P01';
/** A secret that has not changed, or cannot be read, is not asked for again within this time, however many are refused. */
const QUIET_MS = 5_000;

type Callback = (error?: Error, client?: PoolClient, done?: PoolClient['release']) => void;

/**
 * Makes a pool survive the rotation of its password: when the server refuses one, the settings are read again, once for
 * all connections that wait, and the connection is tried once more. Open connections are not touched. The user may
 * change with the password: rotation by two roles does that.
 */
export function renewOnRefusal(pool: Pool, readSettings: () => Promise<ClientConfig>): void {
  const connectOnce = pool.connect.bind(pool) as () => Promise<PoolClient>;
  const renew = renewer(pool, readSettings);
  const connect = async () => {
    const refused = pool.options.password;
    try {
      return await connectOnce();
    } catch (error) {
      if ((error as { code?: unknown }).code !== INVALID_PASSWORD || !(await renew(refused))) throw error;
      return connectOnce();
    }
  };
  // `pool.query` calls this too, with a callback.
  pool.connect = ((callback?: Callback) => {
    const client = connect();
    if (!callback) return client;
    return void handOver(client, callback);
  }) as Pool['connect'];
}

async function handOver(client: Promise<PoolClient>, callback: Callback): Promise<void> {
  let connected: PoolClient;
  try {
    connected = await client;
  } catch (error) {
    return callback(error as Error);
  }
  callback(undefined, connected, connected.release.bind(connected));
}

/** Says whether the pool has another password than the refused one, after asking for it if need be. */
function renewer(pool: Pool, readSettings: () => Promise<ClientConfig>) {
  let reading: Promise<void> | undefined;
  let inVainAt = -Infinity;
  let failure: { readonly reason: unknown } | undefined;
  const read = async () => {
    try {
      const { user, password } = await readSettings();
      failure = undefined;
      if (password === pool.options.password) inVainAt = performance.now();
      Object.assign(pool.options, { user, password });
    } catch (reason) {
      failure = { reason };
      inVainAt = performance.now();
    }
  };
  return async (refused: unknown): Promise<boolean> => {
    if (pool.options.password === refused && performance.now() - inVainAt > QUIET_MS) {
      reading ??= read().finally(() => {
        reading = undefined;
      });
      await reading;
    }
    // Also to those who come within the quiet time: why there is no new password says more than that the old one is wrong.
    if (failure && pool.options.password === refused) throw failure.reason;
    return pool.options.password !== refused;
  };
}
