import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chownSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { freePort } from '../../support/ports.ts';
import { childrenOf } from '../children.ts';

/**
 * Two PostgreSQL servers managed by Patroni, the second a standby of the first, with etcd as its store and HAProxy in
 * front, which asks Patroni for the primary: what an operator would run on three machines, here on loopback.
 */

const bin = '/usr/lib/postgresql/15/bin';
const needed = ['/usr/bin/patroni', '/usr/bin/etcd', '/usr/sbin/haproxy', `${bin}/pg_basebackup`];
const passwords = { superuser: 'super', replication: 'replication', sendwright: 'sendwright' };

/** What must be installed first, or null. */
export const missing = () => needed.find((file) => !existsSync(file)) ?? null;

interface Member {
  name: string;
  dataDir: string;
  port: number;
  rest: number;
  process: ChildProcess | null;
}

export interface PatroniOptions {
  folder: string;
  /** Commits wait for the standby. */
  synchronous: boolean;
  /** Seconds after which a silent primary loses its role; Patroni accepts no less than 20. */
  ttl: number;
}

export class Patroni {
  readonly #options: PatroniOptions;
  readonly #user: { uid: number; gid: number } | null = process.getuid?.() === 0 ? postgresUser() : null;
  readonly #children: ChildProcess[] = [];
  readonly #members: Member[] = [];
  #etcd = 0;
  /** The port that leads to the current primary. */
  port = 0;

  constructor(options: PatroniOptions) {
    this.#options = options;
    this.#own(options.folder);
  }

  async start(): Promise<void> {
    this.#etcd = await freePort();
    const peers = await freePort();
    this.#spawn('etcd', '/usr/bin/etcd', [
      ...['--data-dir', join(this.#options.folder, 'etcd')],
      ...['--listen-client-urls', `http://127.0.0.1:${this.#etcd}`],
      ...['--advertise-client-urls', `http://127.0.0.1:${this.#etcd}`],
      ...['--listen-peer-urls', `http://127.0.0.1:${peers}`],
      ...['--initial-advertise-peer-urls', `http://127.0.0.1:${peers}`],
      ...['--initial-cluster', `default=http://127.0.0.1:${peers}`],
    ]);
    for (const name of ['a', 'b']) {
      const member: Member = {
        name,
        dataDir: join(this.#options.folder, `postgres-${name}`),
        port: await freePort(),
        rest: await freePort(),
        process: null,
      };
      this.#members.push(member);
      this.#run(member);
      await this.#until(`${name} is up`, async () => (await this.#states()).some((state) => state.name === name), 60);
    }
    await this.redundant();
    this.port = await freePort();
    this.#spawn('haproxy', '/usr/sbin/haproxy', ['-db', '-f', this.#write('haproxy.cfg', this.#haproxy())]);
    // It considers each server healthy until two checks have failed.
    await sleep(2_000);
    const isPrimary = async () => (await this.query('SELECT pg_is_in_recovery() AS no')).rows[0].no === false;
    await this.#until('HAProxy leads to the primary', isPrimary, 20);
  }

  url(database = 'postgres', user = 'postgres', password = passwords.superuser): string {
    return `postgres://${user}:${password}@127.0.0.1:${this.port}/${database}`;
  }

  /** As the superuser, on the primary. */
  async query(text: string): Promise<pg.QueryResult> {
    const client = new pg.Client({ connectionString: this.url(), connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await client.query(text);
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  /** The URL of a separate database for Sendwright. */
  async createDatabase(): Promise<string> {
    await this.query(`CREATE ROLE sendwright LOGIN PASSWORD '${passwords.sendwright}'`);
    await this.query("CREATE DATABASE sendwright OWNER sendwright ENCODING 'UTF8' TEMPLATE template0");
    return this.url('sendwright', 'sendwright', passwords.sendwright);
  }

  /** Waits until there is a standby that commits wait for (or one that streams, if they wait for none). */
  async redundant(): Promise<void> {
    const wanted = this.#options.synchronous ? /sync_standby/ : /replica|sync_standby/;
    await this.#until(
      'there is a standby',
      async () =>
        (await this.#states()).some(({ role, state }) => wanted.test(role) && /running|streaming/.test(state)),
      90,
    );
  }

  /** Kills the primary like a power failure: its Patroni, its PostgreSQL and all processes of that, at once. */
  async killPrimary(): Promise<string> {
    const member = await this.#primary();
    const postmaster = postmasterOf(member.dataDir);
    // Stopped first, so that none sees another one end and reacts.
    if (member.process?.pid) process.kill(member.process.pid, 'SIGSTOP');
    process.kill(postmaster, 'SIGSTOP');
    for (const pid of [...childrenOf(postmaster), postmaster, member.process?.pid ?? 0]) kill(pid, 'SIGKILL');
    member.process = null;
    return member.name;
  }

  /** Cuts off the standby: it gets nothing that the primary commits from now on. */
  async cutStandby(): Promise<() => void> {
    const primary = await this.#primary();
    const standby = this.#members.find((member) => member !== primary);
    if (!standby) throw new Error('there is no standby');
    const [receiver] = childrenOf(postmasterOf(standby.dataDir)).filter((pid) =>
      readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('walreceiver'),
    );
    if (!receiver) throw new Error('the standby receives nothing');
    kill(receiver, 'SIGSTOP');
    // What waits in its socket is lost with it.
    return () => kill(receiver, 'SIGKILL');
  }

  /** Restarts a member that was killed. */
  restart(name: string): void {
    const member = this.#members.find((one) => one.name === name);
    if (member) this.#run(member);
  }

  async stop(): Promise<void> {
    for (const { process: patroni } of this.#members) patroni?.kill('SIGTERM');
    await Promise.all(this.#members.map((member) => this.#ended(member.process)));
    for (const { dataDir } of this.#members) kill(postmasterOf(dataDir), 'SIGQUIT');
    for (const child of this.#children) child.kill('SIGTERM');
    await Promise.all(this.#children.map((child) => this.#ended(child)));
  }

  async #ended(child: ChildProcess | null): Promise<void> {
    for (let tries = 0; child && child.exitCode === null && child.signalCode === null; tries += 1) {
      if (tries === 150) child.kill('SIGKILL');
      await sleep(100);
    }
  }

  async #primary(): Promise<Member> {
    const leader = (await this.#states()).find(({ role }) => /leader|master|primary/.test(role));
    const member = this.#members.find(({ name }) => name === leader?.name);
    if (!member) throw new Error('there is no primary');
    return member;
  }

  /** Patroni's state of each member. */
  async #states(): Promise<{ name: string; role: string; state: string }[]> {
    for (const { rest, process: patroni } of this.#members) {
      if (!patroni) continue;
      const answer = await fetch(`http://127.0.0.1:${rest}/cluster`, { signal: AbortSignal.timeout(2_000) }).catch(
        () => null,
      );
      if (answer?.ok)
        return ((await answer.json()) as { members: { name: string; role: string; state: string }[] }).members;
    }
    return [];
  }

  async #until(what: string, ask: () => Promise<boolean>, seconds: number): Promise<void> {
    for (const end = Date.now() + seconds * 1_000; Date.now() < end; await sleep(200)) {
      if (await ask().catch(() => false)) return;
    }
    throw new Error(`not within ${seconds} s: ${what}: see ${this.#options.folder}`);
  }

  #run(member: Member): void {
    const { name, rest, port, dataDir } = member;
    const { ttl, synchronous } = this.#options;
    const local = {
      pg_hba: ['host replication replicator 127.0.0.1/32 scram-sha-256', 'host all all 127.0.0.1/32 scram-sha-256'],
    };
    const config = {
      scope: 'sendwright',
      name,
      restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${rest}` },
      etcd3: { host: `127.0.0.1:${this.#etcd}` },
      bootstrap: {
        dcs: {
          ttl,
          loop_wait: 2,
          retry_timeout: 5,
          maximum_lag_on_failover: 100_000_000,
          synchronous_mode: synchronous,
          postgresql: {
            use_pg_rewind: true,
            parameters: { max_connections: 200, wal_level: 'replica', max_wal_senders: 5 },
          },
        },
        initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'data-checksums'],
        ...local,
      },
      postgresql: {
        ...local,
        listen: `127.0.0.1:${port}`,
        connect_address: `127.0.0.1:${port}`,
        data_dir: dataDir,
        bin_dir: bin,
        pgpass: join(this.#options.folder, `pgpass-${name}`),
        authentication: {
          superuser: { username: 'postgres', password: passwords.superuser },
          replication: { username: 'replicator', password: passwords.replication },
        },
        parameters: { unix_socket_directories: '' },
      },
    };
    // JSON is valid YAML.
    member.process = this.#spawn(`patroni-${name}`, '/usr/bin/patroni', [
      this.#write(`${name}.yml`, JSON.stringify(config)),
    ]);
  }

  #haproxy(): string {
    const server = ({ name, port, rest }: Member) => `  server ${name} 127.0.0.1:${port} check port ${rest}`;
    return [
      'defaults',
      '  mode tcp',
      '  timeout connect 2s',
      '  timeout client 1h',
      '  timeout server 1h',
      'listen primary',
      `  bind 127.0.0.1:${this.port}`,
      '  option httpchk OPTIONS /primary',
      '  http-check expect status 200',
      '  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions',
      ...this.#members.map(server),
      '',
    ].join('\n');
  }

  #write(name: string, text: string): string {
    const file = join(this.#options.folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    this.#own(file);
    return file;
  }

  #own(file: string): void {
    mkdirSync(this.#options.folder, { recursive: true });
    if (this.#user) chownSync(file, this.#user.uid, this.#user.gid);
  }

  #spawn(name: string, command: string, args: string[]): ChildProcess {
    const log = openSync(join(this.#options.folder, `${name}.log`), 'a');
    const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: this.#options.folder, LC_ALL: 'C' };
    const child = spawn(command, args, { cwd: '/', env, stdio: ['ignore', log, log], ...this.#user });
    closeSync(log);
    this.#children.push(child);
    return child;
  }
}

function postgresUser(): { uid: number; gid: number } {
  const id = (flag: string) => Number(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout);
  return { uid: id('-u'), gid: id('-g') };
}

/** 0: there is none. */
function postmasterOf(dataDir: string): number {
  try {
    return Number(readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n', 1)[0]);
  } catch {
    return 0;
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    if (pid > 1) process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
