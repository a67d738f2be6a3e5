import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { wholeNumber } from '../../support/command-line.ts';
import type { Way } from './load.ts';

export const ways: readonly Way[] = ['batches', 'singles', 'smtp'];

export interface Options {
  ways: Way[];
  /** Of a message's bodies together, in KiB. */
  sizes: number[];
  /** Whether the sink offers STARTTLS. */
  tls: boolean[];
  /** Per round; undefined: 5,000 up to 10 KiB, 2,000 above. */
  messages: number | undefined;
  rounds: number;
  /** Messages one at a time, for the latency of an idle machine; 0: none. */
  idle: number;
  peer: boolean;
  /** The folder whose node_modules have a second peer; undefined: there is none. */
  haraka: string | undefined;
  /** An endpoint gets an event for every email sent. */
  webhook: boolean;
  /** Counts SQL statements, in rounds of their own. */
  statements: boolean;
  selfCheck: boolean;
  domains: number;
  sites: number;
  /** How long the sink takes for each reply, in ms, like a distant server. */
  replyMs: number;
  sameBody: boolean;
  /** Connections at once; undefined: 2 for batches, 50 for singles, 20 for SMTP. */
  clients: number | undefined;
  perSession: number;
  json: string | undefined;
  folder: string;
  /** Where the server's CPU profile goes. */
  profile: string | undefined;
  env: Record<string, string>;
}

export const usage = `npm run bench -- [options]
  --only batches,singles,smtp   ways in (all)
  --size 2,50                   KiB of html and text together
  --sink plain,starttls         what the receiving server offers
  --messages N                  in a round (5000; 2000 of more than 10 KiB)
  --rounds N                    medians of so many (3)
  --idle N                      messages one at a time (100; 0: none)
  --no-peer, --no-statements    leave out Postfix, the count of SQL statements
  --haraka DIR                  Haraka too, from the node_modules of this folder
  --webhook                     an endpoint that hears of every email
  --self-check                  the generator straight into the sink, and nothing else
  --domains N, --sites N        recipients' domains (20) and operators of their servers (1)
  --reply-ms N                  how long the receiving server takes for each reply (0), as over a network
  --same-body                   all messages have one body, as a newsletter does
  --clients N, --per-session N  connections at once (2, 50, 20), messages in an SMTP session (100)
  --json FILE                   the figures
  --folder DIR                  where databases and queues go (the system's temporary folder)
  --profile DIR                 a CPU profile of the server
  --env NAME=VALUE              for the server; may be repeated`;

/** @throws Error that names the wrong option */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    allowNegative: true,
    options: {
      only: { type: 'string', default: ways.join(',') },
      size: { type: 'string', default: '2,50' },
      sink: { type: 'string', default: 'plain,starttls' },
      messages: { type: 'string' },
      rounds: { type: 'string', default: '3' },
      idle: { type: 'string', default: '100' },
      peer: { type: 'boolean', default: true },
      haraka: { type: 'string' },
      webhook: { type: 'boolean', default: false },
      statements: { type: 'boolean', default: true },
      'self-check': { type: 'boolean', default: false },
      domains: { type: 'string', default: '20' },
      sites: { type: 'string', default: '1' },
      'reply-ms': { type: 'string', default: '0' },
      'same-body': { type: 'boolean', default: false },
      clients: { type: 'string' },
      'per-session': { type: 'string', default: '100' },
      json: { type: 'string' },
      folder: { type: 'string', default: tmpdir() },
      profile: { type: 'string' },
      env: { type: 'string', multiple: true, default: [] },
    },
  });
  const given = (name: string, text: string | undefined, least = 1) =>
    text === undefined ? undefined : wholeNumber(`--${name}`, text, least);
  return {
    ways: values.only.split(',').map((way) => oneOf('only', way, ways)),
    sizes: values.size.split(',').map((size) => wholeNumber('--size', size, 1)),
    tls: values.sink.split(',').map((sink) => oneOf('sink', sink, ['plain', 'starttls'] as const) === 'starttls'),
    messages: given('messages', values.messages),
    rounds: wholeNumber('--rounds', values.rounds, 1),
    idle: wholeNumber('--idle', values.idle, 0),
    peer: values.peer,
    haraka: values.haraka,
    webhook: values.webhook,
    statements: values.statements,
    selfCheck: values['self-check'],
    domains: wholeNumber('--domains', values.domains, 1),
    sites: wholeNumber('--sites', values.sites, 1),
    replyMs: wholeNumber('--reply-ms', values['reply-ms'], 0),
    sameBody: values['same-body'],
    clients: given('clients', values.clients),
    perSession: wholeNumber('--per-session', values['per-session'], 1),
    json: values.json,
    folder: values.folder,
    profile: values.profile,
    env: Object.fromEntries(values.env.map(assignment)),
  };
}

function oneOf<T extends string>(name: string, text: string, of: readonly T[]): T {
  const found = of.find((one) => one === text);
  if (found !== undefined) return found;
  throw new Error(`--${name} takes ${of.join(', ')}, not ${text}`);
}

function assignment(text: string): [string, string] {
  const [, name, value] = /^(\w+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new Error(`--env must be NAME=VALUE, not ${text}`);
  return [name, value];
}
